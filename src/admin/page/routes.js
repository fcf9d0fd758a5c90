// Routes: the plots of all or of one, and a table of how each does.

import { at, ask, count, el, get, many, rate, rows, share, took, write } from "./common.js";
import { plot, spark } from "./plots.js";

const ratePlot = plot(at("plot-rate"), "Calls per second", (value) => `${rate(value)}/s`, (value) => rate(value).replace(/\.0$/, ""));
const timesPlot = plot(at("plot-times"), "Time", took, (value) => took(value).replace(".0 ", " "));
const errorsPlot = plot(at("plot-errors"), "Errors", (value) => many(value, "error"), count);

let routes = [];
let sorted = { by: "name", down: false };
let chosen = null;

const fill = rows(at("routes-table").tBodies[0], (route) => {
  const name = el("a", {}, "");
  const cells = Object.fromEntries(["per_second", "calls", "errors", "p50_ms", "p95_ms", "p99_ms"].map((key) => [key, el("td", { class: "number" })]));
  const [upstream, picture] = [el("td"), spark()];
  name.href = `#routes/${route.name}`;
  name.textContent = route.name;
  const element = el("tr", {}, el("th", { scope: "row" }, name), upstream, el("td", { class: "picture" }, picture.element), ...Object.values(cells));
  return {
    element,
    update(route) {
      element.classList.toggle("chosen", route.name === chosen);
      write(upstream, route.upstream ?? "–");
      picture.update(route.calls_by_point ?? [], route.errors_by_point ?? []);
      write(cells.per_second, route.calls === undefined ? "–" : rate(route.per_second));
      write(cells.calls, count(route.calls));
      write(cells.errors, route.errors ? `${count(route.errors)} (${share(route.errors, route.calls)})` : count(route.errors));
      cells.errors.classList.toggle("bad", route.errors > 0);
      for (const key of ["p50_ms", "p95_ms", "p99_ms"]) {
        write(cells[key], took(percentile(key, route)));
        const isTooFew = route.calls > 0 && route.calls < CALLS_FOR[key];
        cells[key].title = isTooFew ? `Of fewer than ${CALLS_FOR[key]} calls` : "";
      }
    },
  };
});

function show() {
  const filter = at("routes-filter").value.trim().toLowerCase();
  const wanted = routes.filter((route) => `${route.name} ${route.upstream ?? ""}`.toLowerCase().includes(filter));
  const value = (route) => route[sorted.by] ?? (sorted.by === "name" || sorted.by === "upstream" ? "" : -1);
  wanted.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    const order = typeof a === "string" ? a.localeCompare(b) : a - b;
    return (sorted.down ? -order : order) || one.name.localeCompare(other.name);
  });
  fill(wanted, (route) => route.name);
  write(at("routes-count"), filter ? `${count(wanted.length)} of ${many(routes.length, "route")}` : many(routes.length, "route"));
}

function sortBy(header) {
  const by = header.dataset.sort;
  const isText = by === "name" || by === "upstream";
  sorted = { by, down: sorted.by === by ? !sorted.down : !isText };
  for (const other of at("routes-table").tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
  show();
}

for (const header of at("routes-table").tHead.querySelectorAll("[data-sort]")) {
  header.querySelector("button").addEventListener("click", () => sortBy(header));
}
at("routes-table").tHead.querySelector("[data-sort=name]").setAttribute("aria-sort", "ascending");
at("routes-filter").addEventListener("input", show);

/** How many calls it takes until the slowest 5 or 1 of 100 of them are more than a single one. */
const CALLS_FOR = { p50_ms: 1, p95_ms: 20, p99_ms: 100 };

/** A percentile, where there were enough calls for it to mean something. */
const percentile = (key, past) => (past.calls >= CALLS_FOR[key] ? past[key] : null);

function draw(past) {
  const perSecond = past.calls.map((calls, index) => (past.seconds[index] > 0 ? calls / past.seconds[index] : 0));
  // What began a moment ago says nothing of a second yet.
  if (past.seconds.at(-1) < 3 && perSecond.length > 1) perSecond[perSecond.length - 1] = perSecond.at(-2);
  const { calls, errors } = past.hour;
  const [p50_ms, p95_ms, p99_ms] = ["p50_ms", "p95_ms", "p99_ms"].map((key) => percentile(key, past.hour));
  // A line with gaps says less than one that is a little too high.
  const isEnough = (key, calls) => calls >= Math.min(CALLS_FOR[key], CALLS_FOR.p95_ms);
  const slots = (key) => past[key].map((value, index) => (isEnough(key, past.calls[index]) ? value : null));
  const ofFew = (calls) => (calls > 0 && calls < CALLS_FOR.p99_ms ? `of ${many(calls, "call")}` : "");
  ratePlot([{ name: "calls", values: perSecond, kind: "area", style: "s1" }], past.ended, `${many(calls, "call")} in the hour`);
  const line = (name, values, style, hour) => ({ name, values, kind: "line", style, hour });
  timesPlot([line("p50", slots("p50_ms"), "s1", p50_ms), line("p95", slots("p95_ms"), "s2", p95_ms), line("p99", slots("p99_ms"), "s3", p99_ms)], past.ended,
    `In the hour: p50 ${took(p50_ms)}, p95 ${took(p95_ms)}, p99 ${took(p99_ms)} of ${many(calls, "call")}`,
    (index) => ofFew(index === null ? calls : past.calls[index]));
  errorsPlot([{ name: "errors", values: past.errors, kind: "bars" }], past.ended, errors ? `${count(errors)}, ${share(errors, calls)} of calls` : "none");
}

const EMPTY = { calls: 0, errors: 0, p50_ms: null, p95_ms: null, p99_ms: null };

function head(route) {
  at("routes-title").textContent = chosen ?? "All routes";
  const links = chosen === null ? [] : [
    el("a", { href: "#routes" }, "All routes"),
    el("a", { href: `#failures/${chosen}` }, "Failures"),
    el("a", { href: `#playground/${chosen}` }, "Playground"),
  ];
  if (at("routes-links").dataset.of !== String(chosen)) {
    at("routes-links").dataset.of = String(chosen);
    at("routes-links").replaceChildren(...links);
  }
  const about = [];
  if (chosen !== null && route?.upstream !== undefined) {
    about.push(`asks ${route.upstream}`, many(route.rules, "rule"), `timeout ${took(route.timeout_ms)}`, ...route.endpoints);
    if (route.resource) about.push(route.resource);
  } else if (chosen !== null) {
    about.push("not in the configuration any more");
  }
  write(at("routes-about"), about.join(" · "));
}

export async function routesView([name]) {
  chosen = name || null;
  const [told, history, own] = await Promise.all([
    get("/routes"), get("/history"), chosen === null ? null : ask(`/history/${encodeURIComponent(chosen)}`),
  ]);
  const known = new Set(told.routes.map((route) => route.name));
  routes = told.routes.map((route) => ({ ...route, ...history.routes[route.name] }));
  for (const [name, past] of Object.entries(history.routes)) {
    if (!known.has(name)) routes.push({ name, ...past });
  }
  head(routes.find((route) => route.name === chosen));
  const nothing = history.all.ended.map(() => 0);
  const none = history.all.ended.map(() => null);
  const uncalled = { ...history.all, calls: nothing, errors: nothing, p50_ms: none, p95_ms: none, p99_ms: none, hour: EMPTY };
  draw(own === null ? history.all : own.status === 200 ? own.body : uncalled);
  show();
  if (history.omitted_routes) write(at("routes-count"), `${at("routes-count").textContent}; ${many(history.omitted_routes, "more was", "more were")} called than are tracked separately`);
}
