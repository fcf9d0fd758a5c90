// Upstreams view: endpoints, circuit breakers and policy counters.

import {
  byId,
  createRowUpdater,
  el,
  formatTimeSpan,
  formatCount,
  getJson,
  pluralize,
  setText,
} from "./common.js";

const BREAKER_LABELS = { closed: "closed", open: "open", half_open: "half-open", off: "off" };
const ENDPOINT_LABELS = {
  healthy: "healthy",
  ejected: "ejected",
  probing: "probing",
  unhealthy: "unhealthy",
};

function endpointItem(endpoint) {
  const state = el(
    "span",
    { class: endpoint.state === "healthy" ? "good" : endpoint.state === "probing" ? "warn" : "bad" },
    ENDPOINT_LABELS[endpoint.state] +
      (endpoint.ejected_for_ms ? ` for ${formatTimeSpan(endpoint.ejected_for_ms / 1000)}` : ""),
  );
  return el(
    "li",
    {},
    el("span", { class: "mono" }, endpoint.address),
    " ",
    state,
    endpoint.in_flight ? ` (${formatCount(endpoint.in_flight)} in flight)` : "",
  );
}

const PROGRAM_LABELS = {
  running: "running",
  starting: "starting",
  stopped: "not running",
  restarting: "restarting",
};

// State of the process of a stdio MCP server. A stopped process is started by the next call.
function programState({ state, starts_in_ms }) {
  const style = state === "running" ? "good" : state === "restarting" ? "bad" : "warn";
  const delay = starts_in_ms ? ` in ${formatTimeSpan(starts_in_ms / 1000)}` : "";
  return el("span", { class: style }, `program ${PROGRAM_LABELS[state]}${delay}`);
}

const updateRows = createRowUpdater(byId("upstreams-table").tBodies[0], (upstream) => {
  const kind = el("td", { class: "muted nowrap" });
  const [breaker, endpoints] = [el("td", { class: "nowrap" }), el("td")];
  const numberCells = ["in_flight", "queued", "retries", "timeouts", "rejected", "routes"].map(() =>
    el("td", { class: "number" }),
  );
  const element = el(
    "tr",
    {},
    el("th", { scope: "row" }, upstream.name),
    kind,
    breaker,
    endpoints,
    ...numberCells,
  );
  let renderedEndpoints = "";
  return {
    element,
    update(upstream) {
      setText(kind, upstream.kind === "mcp" ? "MCP server" : upstream.kind);
      const { state, consecutive_failures: failures, half_open_in_ms } = upstream.circuit_breaker;
      const detail =
        state === "open"
          ? ` for ${formatTimeSpan(half_open_in_ms / 1000)}`
          : failures
            ? `, ${pluralize(failures, "consecutive failure")}`
            : "";
      setText(breaker, BREAKER_LABELS[state] + detail);
      breaker.className = `nowrap ${state === "open" || state === "half_open" ? "bad" : failures ? "warn" : state === "off" ? "muted" : "good"}`;
      const endpointsJson = JSON.stringify([upstream.endpoints, upstream.program]);
      if (endpointsJson !== renderedEndpoints) {
        renderedEndpoints = endpointsJson;
        const placeholder = upstream.kind === "http" ? "not resolved yet" : "–";
        const list = upstream.endpoints.length
          ? el("ul", {}, ...upstream.endpoints.map(endpointItem))
          : upstream.program
            ? programState(upstream.program)
            : el("span", { class: "muted" }, placeholder);
        endpoints.replaceChildren(list);
      }
      const events = upstream.policy_events ?? {};
      const sum = (...names) => names.reduce((total, name) => total + (events[name] ?? 0), 0);
      const texts = [
        `${formatCount(upstream.in_flight)} / ${formatCount(upstream.max_in_flight)}`,
        `${formatCount(upstream.queued)} / ${formatCount(upstream.max_queued)}`,
        formatCount(sum("retry")),
        formatCount(sum("timeout", "attempt_timeout")),
        formatCount(sum("circuit_breaker_rejected", "queue_rejected", "rate_limited", "client_rate_limited")),
        formatCount(upstream.routes),
      ];
      texts.forEach((text, index) => setText(numberCells[index], text));
      numberCells[4].title = `by the circuit breaker ${formatCount(sum("circuit_breaker_rejected"))}, a full queue ${formatCount(sum("queue_rejected"))}, rate limits ${formatCount(sum("rate_limited", "client_rate_limited"))}`;
    },
  };
});

export async function upstreamsView() {
  const { upstreams } = await getJson("/upstreams");
  updateRows(upstreams, (upstream) => upstream.name);
  const openCount = upstreams.filter((upstream) =>
    ["open", "half_open"].includes(upstream.circuit_breaker.state),
  ).length;
  setText(
    byId("upstreams-about"),
    pluralize(upstreams.length, "upstream") +
      (openCount ? `, ${openCount} with an open circuit breaker` : ""),
  );
}
