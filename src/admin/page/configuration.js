// The configuration in force, and what became of the last change.

import { ask, at, clock, el, get, many, moment, span, write } from "./common.js";

let shown = "";

function tree(value, depth) {
  if (value === null || typeof value !== "object" || Object.keys(value).length === 0) {
    return el("pre", { class: "leaf" }, JSON.stringify(value));
  }
  if (depth === 0 || Array.isArray(value)) return el("pre", {}, JSON.stringify(value, null, 2));
  const parts = Object.entries(value).map(([name, inner]) => {
    const isLeaf = inner === null || typeof inner !== "object" || Object.keys(inner).length === 0;
    if (isLeaf) return el("pre", { class: "leaf" }, `${name}: ${JSON.stringify(inner)}`);
    const size = Array.isArray(inner) ? many(inner.length, "item") : many(Object.keys(inner).length, "entry", "entries");
    const details = el("details", {}, el("summary", {}, name, " ", el("span", { class: "muted" }, size)));
    // Made when it is looked at: a configuration may be long.
    details.addEventListener("toggle", () => { if (details.childElementCount === 1) details.append(tree(inner, depth - 1)); });
    return details;
  });
  return el("div", {}, ...parts);
}

async function reload() {
  const button = at("reload");
  button.disabled = true;
  write(at("reloaded"), "Reloading …");
  try {
    const { status, body } = await ask("/reload", { method: "POST" });
    at("reloaded").className = status === 200 ? "good" : "bad";
    write(at("reloaded"), status === 200 ? `Reloaded at ${clock(Date.now() / 1000)}; active.`
      : status === 422 ? `Reloaded at ${clock(Date.now() / 1000)}; it has errors, and the previous configuration stays active.` : body.error);
    await configurationView();
  } finally {
    button.disabled = false;
  }
}

at("reload").addEventListener("click", reload);

export async function configurationView() {
  const [status, config] = await Promise.all([get("/status"), get("/config")]);
  const { generation, since, failed_since, restart_pending: pending } = status.configuration;
  write(at("configuration-about"), `generation ${generation}, active since ${moment(since, status.now)} (${span(status.now - since)})`);
  at("refused").hidden = status.problems === undefined;
  if (status.problems !== undefined) {
    write(at("refused-about"), `Since ${moment(failed_since, status.now)}; the previous configuration stays active.`);
    write(at("refused-report"), status.problems);
  }
  write(at("restart-pending"), `Changed settings that need a restart: ${pending.join(", ")}`);
  at("restart-pending").hidden = pending.length === 0;
  const text = JSON.stringify(config);
  if (text !== shown) {
    shown = text;
    at("config-tree").replaceChildren(...tree(config, 2).childNodes);
  }
}
