// Failures view: recent failed calls, filtered by route and request id.

import {
  byId,
  createRowUpdater,
  el,
  formatCount,
  formatDuration,
  formatTimestamp,
  getJson,
  pluralize,
  setText,
} from "./common.js";

let failures = [];

const updateRows = createRowUpdater(byId("failures-table").tBodies[0], (group) => {
  const { latest: failure } = group;
  const requestId = el("button", {
    class: "plain mono",
    type: "button",
    title: "Filter by this request id",
    onclick: () => filterByRequestId(requestId.textContent),
  });
  const route = el("a", { href: `#routes/${failure.route}` }, failure.route);
  const [time, reason] = [el("time"), el("td", { class: "reason" })];
  const [occurrences, duration] = [el("td", { class: "number" }), el("td", { class: "number" })];
  const rule =
    failure.rule === undefined
      ? "–"
      : el(
          "a",
          {
            href: `#playground/${encodeURIComponent(failure.route)}`,
            title: "Open the rules of this route in the playground",
          },
          String(failure.rule),
        );
  return {
    element: el(
      "tr",
      {},
      el("td", { class: "nowrap" }, time),
      el("td", {}, route),
      el("td", { class: "muted" }, failure.api),
      el(
        "td",
        { class: failure.outcome === "error" ? "bad" : "muted" },
        failure.error_type ?? failure.outcome,
      ),
      el("td", {}, rule),
      el("td", {}, failure.upstream),
      el("td", {}, failure.upstream_status === undefined ? "–" : String(failure.upstream_status)),
      reason,
      occurrences,
      duration,
      el("td", {}, requestId),
    ),
    update({ latest, number }) {
      time.dateTime = new Date(latest.at).toISOString();
      setText(time, formatTimestamp(latest.at / 1000));
      setText(reason, latest.reason);
      setText(occurrences, formatCount(number));
      setText(duration, formatDuration(latest.duration_ms));
      setText(requestId, latest.request_id);
    },
  };
});

/** The grouping key of a failure. Numbers in the reason are normalized: durations and sizes differ each time. */
const groupKey = ({ route, api, outcome, error_type, rule, upstream, upstream_status, reason }) =>
  JSON.stringify([
    route,
    api,
    outcome,
    error_type,
    rule,
    upstream,
    upstream_status,
    reason.replace(/\d+(\.\d+)?/g, "0"),
  ]);

/** Groups failures by key, each group with its latest failure, most recent group first. */
function groupFailures(failures) {
  const groups = new Map();
  for (const failure of failures) {
    const group = groups.get(groupKey(failure));
    if (group) group.number += 1;
    else groups.set(groupKey(failure), { latest: failure, number: 1 });
  }
  return [...groups.values()];
}

function filterByRequestId(id) {
  byId("failures-id").value = id;
  load();
}

function render() {
  const filter = byId("failures-filter").value.trim().toLowerCase();
  const matching = failures.filter((failure) =>
    `${failure.error_type} ${failure.reason} ${failure.route}`.toLowerCase().includes(filter),
  );
  updateRows(groupFailures(matching), (group) => groupKey(group.latest));
  const id = byId("failures-id").value.trim();
  const emptyMessage =
    id !== ""
      ? "No failure with this request id is stored here: the call succeeded, was handled by another replica, " +
        "or is older than the last 500 failures."
      : failures.length
        ? "No failure matches the filter."
        : "No failures so far.";
  setText(byId("failures-none"), matching.length ? "" : emptyMessage);
  byId("failures-none").hidden = matching.length > 0;
  byId("failures-table").hidden = matching.length === 0;
}

async function load() {
  const query = new URLSearchParams({ limit: "500" });
  const [route, id] = [byId("failures-route").value, byId("failures-id").value.trim()];
  if (route) query.set("route", route);
  if (id) query.set("request_id", id);
  const data = await getJson(`/failures?${query}`);
  failures = data.failures;
  setText(
    byId("failures-about"),
    data.since_start
      ? `${pluralize(data.since_start, "call")} failed since the start; ` +
        `the last ${formatCount(500)} are stored`
      : "",
  );
  render();
}

byId("failures-filter").addEventListener("input", render);
byId("failures-id").addEventListener("input", load);
byId("failures-route").addEventListener("change", () => {
  location.hash = byId("failures-route").value ? `#failures/${byId("failures-route").value}` : "#failures";
});

export async function failuresView([selected = ""]) {
  const { routes } = await getJson("/routes");
  const names = ["", ...routes.map((route) => route.name)];
  if (selected && !names.includes(selected)) names.push(selected);
  const select = byId("failures-route");
  if (names.join(" ") !== [...select.options].map((option) => option.value).join(" ")) {
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name || "all")));
  }
  select.value = selected;
  await load();
}
