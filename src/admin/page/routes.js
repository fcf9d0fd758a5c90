// Routes view: plots for all routes or the selected one, and a table with statistics per route.

import {
  byId,
  createRowUpdater,
  el,
  fetchJson,
  formatCount,
  formatDuration,
  formatPercent,
  formatRate,
  getJson,
  pluralize,
  setText,
} from "./common.js";
import { createPlot, createSparkline } from "./plots.js";

const ratePlot = createPlot(
  byId("plot-rate"),
  "Calls per second",
  (value) => `${formatRate(value)}/s`,
  (value) => formatRate(value).replace(/\.0$/, ""),
);
const timesPlot = createPlot(byId("plot-times"), "Time", formatDuration, (value) =>
  formatDuration(value).replace(".0 ", " "),
);
const errorsPlot = createPlot(
  byId("plot-errors"),
  "Errors",
  (value) => pluralize(value, "error"),
  formatCount,
);

let routes = [];
let sortOrder = { column: "name", descending: false };
let selected = null;

const updateRows = createRowUpdater(byId("routes-table").tBodies[0], (route) => {
  const name = el("a", {}, "");
  const cells = Object.fromEntries(
    ["per_second", "calls", "errors", "p50_ms", "p95_ms", "p99_ms"].map((key) => [
      key,
      el("td", { class: "number" }),
    ]),
  );
  const [upstream, sparkline] = [el("td"), createSparkline()];
  name.href = `#routes/${route.name}`;
  name.textContent = route.name;
  const element = el(
    "tr",
    {},
    el("th", { scope: "row" }, name),
    upstream,
    el("td", { class: "sparkline-cell" }, sparkline.element),
    ...Object.values(cells),
  );
  return {
    element,
    update(route) {
      element.classList.toggle("selected", route.name === selected);
      setText(upstream, route.upstream ?? "–");
      sparkline.update(route.calls_by_point ?? [], route.errors_by_point ?? []);
      setText(cells.per_second, route.calls === undefined ? "–" : formatRate(route.per_second));
      setText(cells.calls, formatCount(route.calls));
      setText(
        cells.errors,
        route.errors
          ? `${formatCount(route.errors)} (${formatPercent(route.errors, route.calls)})`
          : formatCount(route.errors),
      );
      cells.errors.classList.toggle("bad", route.errors > 0);
      for (const key of ["p50_ms", "p95_ms", "p99_ms"]) {
        setText(cells[key], formatDuration(percentile(key, route)));
        const hasTooFewCalls = route.calls > 0 && route.calls < MIN_CALLS[key];
        cells[key].title = hasTooFewCalls ? `Fewer than ${MIN_CALLS[key]} calls` : "";
      }
    },
  };
});

function renderTable() {
  const filter = byId("routes-filter").value.trim().toLowerCase();
  const matching = routes.filter((route) =>
    `${route.name} ${route.upstream ?? ""}`.toLowerCase().includes(filter),
  );
  const value = (route) =>
    route[sortOrder.column] ?? (sortOrder.column === "name" || sortOrder.column === "upstream" ? "" : -1);
  matching.sort((left, right) => {
    const [a, b] = [value(left), value(right)];
    const order = typeof a === "string" ? a.localeCompare(b) : a - b;
    return (sortOrder.descending ? -order : order) || left.name.localeCompare(right.name);
  });
  updateRows(matching, (route) => route.name);
  setText(
    byId("routes-count"),
    filter
      ? `${formatCount(matching.length)} of ${pluralize(routes.length, "route")}`
      : pluralize(routes.length, "route"),
  );
}

function sortBy(header) {
  const column = header.dataset.sort;
  const isText = column === "name" || column === "upstream";
  sortOrder = { column, descending: sortOrder.column === column ? !sortOrder.descending : !isText };
  for (const other of byId("routes-table").tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", sortOrder.descending ? "descending" : "ascending");
  renderTable();
}

for (const header of byId("routes-table").tHead.querySelectorAll("[data-sort]")) {
  header.querySelector("button").addEventListener("click", () => sortBy(header));
}
byId("routes-table").tHead.querySelector("[data-sort=name]").setAttribute("aria-sort", "ascending");
byId("routes-filter").addEventListener("input", renderTable);

/** Minimum sample size per percentile: below it, the percentile is just the slowest call. */
const MIN_CALLS = { p50_ms: 1, p95_ms: 20, p99_ms: 100 };

/** Returns a percentile, or null if there were too few calls for it to be meaningful. */
const percentile = (key, history) => (history.calls >= MIN_CALLS[key] ? history[key] : null);

function drawPlots(history) {
  const perSecond = history.calls.map((calls, index) =>
    history.seconds[index] > 0 ? calls / history.seconds[index] : 0,
  );
  // The current interval is too short for a rate yet; repeat the previous value.
  if (history.seconds.at(-1) < 3 && perSecond.length > 1) perSecond[perSecond.length - 1] = perSecond.at(-2);
  const { calls, errors } = history.hour;
  const [p50_ms, p95_ms, p99_ms] = ["p50_ms", "p95_ms", "p99_ms"].map((key) => percentile(key, history.hour));
  // The p99 line accepts fewer calls than the table: a slightly high line is more useful than one with gaps.
  const hasEnoughCalls = (key, calls) => calls >= Math.min(MIN_CALLS[key], MIN_CALLS.p95_ms);
  const points = (key) =>
    history[key].map((value, index) => (hasEnoughCalls(key, history.calls[index]) ? value : null));
  const sampleSize = (calls) =>
    calls > 0 && calls < MIN_CALLS.p99_ms ? `of ${pluralize(calls, "call")}` : "";
  ratePlot(
    [{ name: "calls", values: perSecond, kind: "area", style: "s1" }],
    history.ended,
    `${pluralize(calls, "call")} in the hour`,
  );
  const series = (name, values, style, hour) => ({ name, values, kind: "line", style, hour });
  timesPlot(
    [
      series("p50", points("p50_ms"), "s1", p50_ms),
      series("p95", points("p95_ms"), "s2", p95_ms),
      series("p99", points("p99_ms"), "s3", p99_ms),
    ],
    history.ended,
    `In the hour: p50 ${formatDuration(p50_ms)}, p95 ${formatDuration(p95_ms)}, p99 ${formatDuration(p99_ms)} of ${pluralize(calls, "call")}`,
    (index) => sampleSize(index === null ? calls : history.calls[index]),
  );
  errorsPlot(
    [{ name: "errors", values: history.errors, kind: "bars" }],
    history.ended,
    errors ? `${formatCount(errors)}, ${formatPercent(errors, calls)} of calls` : "none",
  );
}

const NO_CALLS = { calls: 0, errors: 0, p50_ms: null, p95_ms: null, p99_ms: null };

function renderHeader(route) {
  byId("routes-title").textContent = selected ?? "All routes";
  const links =
    selected === null
      ? []
      : [
          el("a", { href: "#routes" }, "All routes"),
          el("a", { href: `#failures/${selected}` }, "Failures"),
          el("a", { href: `#playground/${selected}` }, "Playground"),
        ];
  if (byId("routes-links").dataset.of !== String(selected)) {
    byId("routes-links").dataset.of = String(selected);
    byId("routes-links").replaceChildren(...links);
  }
  const about = [];
  if (selected !== null && route?.upstream !== undefined) {
    about.push(
      `upstream ${route.upstream}`,
      pluralize(route.rules, "rule"),
      `timeout ${formatDuration(route.timeout_ms)}`,
      ...route.endpoints,
    );
    if (route.resource) about.push(route.resource);
  } else if (selected !== null) {
    about.push("no longer in the configuration");
  }
  setText(byId("routes-about"), about.join(" · "));
}

export async function routesView([name]) {
  selected = name || null;
  const [data, history, routeHistory] = await Promise.all([
    getJson("/routes"),
    getJson("/history"),
    selected === null ? null : fetchJson(`/history/${encodeURIComponent(selected)}`),
  ]);
  const configured = new Set(data.routes.map((route) => route.name));
  routes = data.routes.map((route) => ({ ...route, ...history.routes[route.name] }));
  for (const [name, stats] of Object.entries(history.routes)) {
    if (!configured.has(name)) routes.push({ name, ...stats });
  }
  renderHeader(routes.find((route) => route.name === selected));
  const zeros = history.all.ended.map(() => 0);
  const nulls = history.all.ended.map(() => null);
  const emptyHistory = {
    ...history.all,
    calls: zeros,
    errors: zeros,
    p50_ms: nulls,
    p95_ms: nulls,
    p99_ms: nulls,
    hour: NO_CALLS,
  };
  drawPlots(
    routeHistory === null ? history.all : routeHistory.status === 200 ? routeHistory.body : emptyHistory,
  );
  renderTable();
  if (history.omitted_routes)
    setText(
      byId("routes-count"),
      `${byId("routes-count").textContent}; ` +
      `${pluralize(history.omitted_routes, "more was", "more were")} called than are tracked separately`,
    );
}
