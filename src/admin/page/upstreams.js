// Upstreams: where they are, and what stands before them.

import { at, count, el, get, many, rows, span, write } from "./common.js";

const BREAKER = { closed: "closed", open: "open", half_open: "trying", off: "off" };
const ADDRESS = { up: "up", left_out: "left out", to_be_tried: "to be tried", unhealthy: "unhealthy" };

function addressItem(address) {
  const state = el("span", { class: address.state === "up" ? "good" : address.state === "to_be_tried" ? "warn" : "bad" },
    ADDRESS[address.state] + (address.rest_ms ? ` for ${span(address.rest_ms / 1000)}` : ""));
  return el("li", {}, el("span", { class: "mono" }, address.address), " ", state, address.in_flight ? ` (${count(address.in_flight)} in flight)` : "");
}

const fill = rows(at("upstreams-table").tBodies[0], (upstream) => {
  const kind = el("td", { class: "muted nowrap" });
  const [breaker, addresses] = [el("td", { class: "nowrap" }), el("td")];
  const numbers = ["in_flight", "waiting", "retries", "late", "away", "routes"].map(() => el("td", { class: "number" }));
  const element = el("tr", {}, el("th", { scope: "row" }, upstream.name), kind, breaker, addresses, ...numbers);
  let before = "";
  return {
    element,
    update(upstream) {
      write(kind, upstream.kind === "mcp" ? "MCP server" : upstream.kind);
      const { state, failures, rest_ms } = upstream.breaker;
      const more = state === "open" ? ` for ${span(rest_ms / 1000)}` : failures ? `, ${many(failures, "failure")} in a row` : "";
      write(breaker, BREAKER[state] + more);
      breaker.className = `nowrap ${state === "open" || state === "half_open" ? "bad" : failures ? "warn" : state === "off" ? "muted" : "good"}`;
      if (JSON.stringify(upstream.addresses) !== before) {
        before = JSON.stringify(upstream.addresses);
        addresses.replaceChildren(upstream.addresses.length ? el("ul", {}, ...upstream.addresses.map(addressItem)) : el("span", { class: "muted" }, upstream.kind === "http" ? "not looked up yet" : "–"));
      }
      const guards = upstream.guards ?? {};
      const sum = (...names) => names.reduce((all, name) => all + (guards[name] ?? 0), 0);
      const texts = [
        `${count(upstream.in_flight)} / ${count(upstream.in_flight_limit)}`,
        `${count(upstream.waiting)} / ${count(upstream.waiting_limit)}`,
        count(sum("retry")), count(sum("deadline", "attempt_deadline")),
        count(sum("breaker_rejected", "queue_rejected", "rate_rejected", "caller_rate_rejected")), count(upstream.routes),
      ];
      texts.forEach((text, index) => write(numbers[index], text));
      numbers[4].title = `by the breaker ${count(sum("breaker_rejected"))}, a full queue ${count(sum("queue_rejected"))}, rates ${count(sum("rate_rejected", "caller_rate_rejected"))}`;
    },
  };
});

export async function upstreamsView() {
  const { upstreams } = await get("/upstreams");
  fill(upstreams, (upstream) => upstream.name);
  const open = upstreams.filter((upstream) => ["open", "half_open"].includes(upstream.breaker.state)).length;
  write(at("upstreams-about"), many(upstreams.length, "upstream") + (open ? `, ${open} left alone` : ""));
}
