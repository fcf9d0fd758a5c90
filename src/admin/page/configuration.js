// Configuration view: the active configuration and the result of the last reload.

import {
  byId,
  el,
  fetchJson,
  formatTimeSpan,
  formatTime,
  formatTimestamp,
  getJson,
  pluralize,
  setText,
} from "./common.js";

let renderedConfig = "";

function renderTree(value, depth) {
  if (value === null || typeof value !== "object" || Object.keys(value).length === 0) {
    return el("pre", { class: "leaf" }, JSON.stringify(value));
  }
  if (depth === 0 || Array.isArray(value)) return el("pre", {}, JSON.stringify(value, null, 2));
  const entries = Object.entries(value).map(([name, child]) => {
    const isLeaf = child === null || typeof child !== "object" || Object.keys(child).length === 0;
    if (isLeaf) return el("pre", { class: "leaf" }, `${name}: ${JSON.stringify(child)}`);
    const size = Array.isArray(child)
      ? pluralize(child.length, "item")
      : pluralize(Object.keys(child).length, "entry", "entries");
    const details = el("details", {}, el("summary", {}, name, " ", el("span", { class: "muted" }, size)));
    // Rendered lazily on first expand, since a configuration can be large.
    details.addEventListener("toggle", () => {
      if (details.childElementCount === 1) details.append(renderTree(child, depth - 1));
    });
    return details;
  });
  return el("div", {}, ...entries);
}

async function reload() {
  const button = byId("reload");
  button.disabled = true;
  setText(byId("reload-status"), "Reloading …");
  try {
    const { status, body } = await fetchJson("/reload", { method: "POST" });
    byId("reload-status").className = status === 200 ? "good" : "bad";
    setText(
      byId("reload-status"),
      status === 200
        ? `Reloaded at ${formatTime(Date.now() / 1000)}; active.`
        : status === 422
          ? `Reloaded at ${formatTime(Date.now() / 1000)}; it has errors, ` +
            "and the previous configuration stays active."
          : body.error,
    );
    await configurationView();
  } finally {
    button.disabled = false;
  }
}

byId("reload").addEventListener("click", reload);

export async function configurationView() {
  const [status, config] = await Promise.all([getJson("/status"), getJson("/config")]);
  const { generation, since, failed_since, restart_pending: pending } = status.configuration;
  setText(
    byId("configuration-about"),
    `generation ${generation}, active since ${formatTimestamp(since, status.now)} ` +
      `(${formatTimeSpan(status.now - since)})`,
  );
  byId("reload-failed").hidden = status.problems === undefined;
  if (status.problems !== undefined) {
    setText(
      byId("reload-failed-about"),
      `Since ${formatTimestamp(failed_since, status.now)}; the previous configuration stays active.`,
    );
    setText(byId("reload-failed-report"), status.problems);
  }
  setText(byId("restart-pending"), `Changed settings that need a restart: ${pending.join(", ")}`);
  byId("restart-pending").hidden = pending.length === 0;
  const text = JSON.stringify(config);
  if (text !== renderedConfig) {
    renderedConfig = text;
    byId("config-tree").replaceChildren(...renderTree(config, 2).childNodes);
  }
}
