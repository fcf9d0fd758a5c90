// The last failures, by route and by request id.

import { at, count, el, get, many, moment, rows, took, write } from "./common.js";

let last = [];

const fill = rows(at("failures-table").tBodies[0], (failure) => {
  const id = el("button", { class: "plain mono", type: "button", title: "Follow this request id", onclick: () => follow(failure.request_id) }, failure.request_id);
  const route = el("a", { href: `#routes/${failure.route}` }, failure.route);
  const time = el("time", { datetime: new Date(failure.at).toISOString() }, moment(failure.at / 1000));
  const rule = failure.rule === undefined ? "–" : String(failure.rule);
  return {
    element: el("tr", {},
      el("td", { class: "nowrap" }, time), el("td", {}, route), el("td", { class: "muted" }, failure.face), el("td", { class: failure.outcome === "error" ? "bad" : "muted" }, failure.fault ?? failure.outcome),
      el("td", {}, rule), el("td", {}, failure.upstream), el("td", {}, failure.upstream_status === undefined ? "–" : String(failure.upstream_status)),
      el("td", { class: "reason" }, failure.reason), el("td", { class: "number" }, took(failure.duration_ms)), el("td", {}, id)),
  };
});

function follow(id) {
  at("failures-id").value = id;
  load();
}

function show() {
  const filter = at("failures-filter").value.trim().toLowerCase();
  const wanted = last.filter((failure) => `${failure.fault} ${failure.reason} ${failure.route}`.toLowerCase().includes(filter));
  fill(wanted, (failure) => `${failure.request_id} ${failure.at}`);
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
