// The last failures, by route and by request id.

import { at, count, el, get, many, moment, rows, took, write } from "./common.js";

let last = [];

const fill = rows(at("failures-table").tBodies[0], (group) => {
  const { latest: failure } = group;
  const id = el("button", { class: "plain mono", type: "button", title: "Follow this request id", onclick: () => follow(id.textContent) });
  const route = el("a", { href: `#routes/${failure.route}` }, failure.route);
  const [time, reason] = [el("time"), el("td", { class: "reason" })];
  const [times, duration] = [el("td", { class: "number" }), el("td", { class: "number" })];
  const rule = failure.rule === undefined ? "–"
    : el("a", { href: `#playground/${encodeURIComponent(failure.route)}`, title: "Open the rules of this route in the playground" }, String(failure.rule));
  return {
    element: el("tr", {},
      el("td", { class: "nowrap" }, time), el("td", {}, route), el("td", { class: "muted" }, failure.api), el("td", { class: failure.outcome === "error" ? "bad" : "muted" }, failure.error_type ?? failure.outcome),
      el("td", {}, rule), el("td", {}, failure.upstream), el("td", {}, failure.upstream_status === undefined ? "–" : String(failure.upstream_status)),
      reason, times, duration, el("td", {}, id)),
    update({ latest, number }) {
      time.dateTime = new Date(latest.at).toISOString();
      write(time, moment(latest.at / 1000));
      write(reason, latest.reason);
      write(times, count(number));
      write(duration, took(latest.duration_ms));
      write(id, latest.request_id);
    },
  };
});

/** What is the same about failures that are told together; numbers in a reason are times and sizes, and differ each time. */
const kind = ({ route, api, outcome, error_type, rule, upstream, upstream_status, reason }) =>
  JSON.stringify([route, api, outcome, error_type, rule, upstream, upstream_status, reason.replace(/\d+(\.\d+)?/g, "0")]);

/** Failures of the same kind together, each kind with its latest one; the kind that failed last first. */
function grouped(failures) {
  const groups = new Map();
  for (const failure of failures) {
    const group = groups.get(kind(failure));
    if (group) group.number += 1;
    else groups.set(kind(failure), { latest: failure, number: 1 });
  }
  return [...groups.values()];
}

function follow(id) {
  at("failures-id").value = id;
  load();
}

function show() {
  const filter = at("failures-filter").value.trim().toLowerCase();
  const wanted = last.filter((failure) => `${failure.error_type} ${failure.reason} ${failure.route}`.toLowerCase().includes(filter));
  fill(grouped(wanted), (group) => kind(group.latest));
  const id = at("failures-id").value.trim();
  const none = id !== ""
    ? "No failure with this request id is kept here: the call succeeded, came to another replica, or is older than the last 500 failures."
    : last.length ? "None of them has that in it." : "Nothing failed so far.";
  write(at("failures-none"), wanted.length ? "" : none);
  at("failures-none").hidden = wanted.length > 0;
  at("failures-table").hidden = wanted.length === 0;
}

async function load() {
  const query = new URLSearchParams({ limit: "500" });
  const [route, id] = [at("failures-route").value, at("failures-id").value.trim()];
  if (route) query.set("route", route);
  if (id) query.set("request_id", id);
  const told = await get(`/failures?${query}`);
  last = told.failures;
  write(at("failures-about"), told.since_start ? `${many(told.since_start, "call")} failed since the start; the last ${count(500)} are kept` : "");
  show();
}

at("failures-filter").addEventListener("input", show);
at("failures-id").addEventListener("input", load);
at("failures-route").addEventListener("change", () => {
  location.hash = at("failures-route").value ? `#failures/${at("failures-route").value}` : "#failures";
});

export async function failuresView([route = ""]) {
  const { routes } = await get("/routes");
  const names = ["", ...routes.map((one) => one.name)];
  if (route && !names.includes(route)) names.push(route);
  const select = at("failures-route");
  if (names.join(" ") !== [...select.options].map((option) => option.value).join(" ")) {
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name || "all")));
  }
  select.value = route;
  await load();
}
