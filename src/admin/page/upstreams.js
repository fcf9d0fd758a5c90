// Upstreams: where they are, and their policies.

import { at, count, el, get, many, rows, span, write } from "./common.js";

const BREAKER = { closed: "closed", open: "open", half_open: "half-open", off: "off" };
const ENDPOINT = { healthy: "healthy", ejected: "ejected", probing: "probing", unhealthy: "unhealthy" };

function endpointItem(endpoint) {
  const state = el("span", { class: endpoint.state === "healthy" ? "good" : endpoint.state === "probing" ? "warn" : "bad" },
    ENDPOINT[endpoint.state] + (endpoint.ejected_for_ms ? ` for ${span(endpoint.ejected_for_ms / 1000)}` : ""));
  return el("li", {}, el("span", { class: "mono" }, endpoint.address), " ", state, endpoint.in_flight ? ` (${count(endpoint.in_flight)} in flight)` : "");
}

const PROGRAM = {
  running: "running",
  starting: "starting",
  stopped: "not running",
  restarting: "restarting",
};

// The program of an MCP server. One that is not running is started by the next call.
function programState({ state, starts_in_ms }) {
  const style = state === "running" ? "good" : state === "restarting" ? "bad" : "warn";
  const when = starts_in_ms ? ` in ${span(starts_in_ms / 1000)}` : "";
  return el("span", { class: style }, `program ${PROGRAM[state]}${when}`);
}

const fill = rows(at("upstreams-table").tBodies[0], (upstream) => {
  const kind = el("td", { class: "muted nowrap" });
  const [breaker, endpoints] = [el("td", { class: "nowrap" }), el("td")];
  const numbers = ["in_flight", "queued", "retries", "timeouts", "rejected", "routes"].map(() => el("td", { class: "number" }));
  const element = el("tr", {}, el("th", { scope: "row" }, upstream.name), kind, breaker, endpoints, ...numbers);
  let before = "";
  return {
    element,
    update(upstream) {
      write(kind, upstream.kind === "mcp" ? "MCP server" : upstream.kind);
      const { state, consecutive_failures: failures, half_open_in_ms } = upstream.circuit_breaker;
      const more = state === "open" ? ` for ${span(half_open_in_ms / 1000)}` : failures ? `, ${many(failures, "consecutive failure")}` : "";
      write(breaker, BREAKER[state] + more);
      breaker.className = `nowrap ${state === "open" || state === "half_open" ? "bad" : failures ? "warn" : state === "off" ? "muted" : "good"}`;
      const now = JSON.stringify([upstream.endpoints, upstream.program]);
      if (now !== before) {
        before = now;
        const none = upstream.kind === "http" ? "not resolved yet" : "–";
        const list = upstream.endpoints.length
          ? el("ul", {}, ...upstream.endpoints.map(endpointItem))
          : upstream.program ? programState(upstream.program) : el("span", { class: "muted" }, none);
        endpoints.replaceChildren(list);
      }
      const events = upstream.policy_events ?? {};
      const sum = (...names) => names.reduce((all, name) => all + (events[name] ?? 0), 0);
      const texts = [
        `${count(upstream.in_flight)} / ${count(upstream.max_in_flight)}`,
        `${count(upstream.queued)} / ${count(upstream.max_queued)}`,
        count(sum("retry")), count(sum("timeout", "attempt_timeout")),
        count(sum("circuit_breaker_rejected", "queue_rejected", "rate_limited", "client_rate_limited")), count(upstream.routes),
      ];
      texts.forEach((text, index) => write(numbers[index], text));
      numbers[4].title = `by the circuit breaker ${count(sum("circuit_breaker_rejected"))}, a full queue ${count(sum("queue_rejected"))}, rate limits ${count(sum("rate_limited", "client_rate_limited"))}`;
    },
  };
});

export async function upstreamsView() {
  const { upstreams } = await get("/upstreams");
  fill(upstreams, (upstream) => upstream.name);
  const open = upstreams.filter((upstream) => ["open", "half_open"].includes(upstream.circuit_breaker.state)).length;
  write(at("upstreams-about"), many(upstreams.length, "upstream") + (open ? `, ${open} with an open circuit breaker` : ""));
}
