// The playground: the result of a rule on an upstream response, updated while you type.

import { ask, at, el, get, many, NoToken, write } from "./common.js";

const PAUSE = 250;
const EMPTY_RULE = `response:
  - extract:
      pairs:
        separator: ":"
`;
const EMPTY_BODY = "temp: 5\nsky: Cloudy\n";

const inputs = ["rule", "status", "headers", "exit", "stderr", "body", "arguments"].map((name) => at(`bench-${name}`));
const rule = at("bench-rule");

let tests = [];
let answers = {};
let bytes = null;
// What a field shows has other line ends than what it was given.
let whole = { shown: null, text: "" };
let loaded = null;
let timer = 0;
let running = null;
let needsToken = () => {};

/** Who has to be told that the token is not good any more. */
export const onNoToken = (listener) => { needsToken = listener; };

function say(text, kind = "") {
  at("bench-state").className = `state ${kind}`;
  write(at("bench-state"), text);
}

function number() {
  const lines = rule.value.split("\n").length;
  rule.rows = Math.min(44, Math.max(matchMedia("(max-width: 860px)").matches ? 12 : 24, lines + 1));
  write(at("bench-lines"), Array.from({ length: lines }, (_, index) => index + 1).join("\n"));
  at("bench-lines").scrollTop = rule.scrollTop;
}

/** A place in the rule, as problems name it: characters, not the units of strings. */
function go(line, column) {
  const lines = rule.value.split("\n");
  const before = lines.slice(0, line - 1).reduce((all, text) => all + text.length + 1, 0);
  const inside = [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  rule.focus();
  rule.setSelectionRange(before + inside, before + inside);
  rule.scrollTop = Math.max(0, (line - 6) * 18.75);
}

function given() {
  const isProgram = at("bench-of-server").hidden;
  const { value } = at("bench-body");
  const body = bytes === null ? { body: value === whole.shown ? whole.text : value } : { body_base64: bytes };
  if (isProgram) return { ...body, exit_status: at("bench-exit").value.trim() || "0", stderr: at("bench-stderr").value };
  const headers = at("bench-headers").value.split("\n").filter((line) => line.trim()).map((line) => {
    const colon = line.indexOf(":");
    return colon < 0 ? [line.trim(), ""] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
  });
  const status = at("bench-status").value.trim();
  return { ...body, status: status === "" ? 200 : Number.isNaN(Number(status)) ? status : Number(status), headers };
}

function problemItem(problem) {
  const words = [problem.message];
  const isHere = problem.file === "draft" && problem.line !== null;
  const place = problem.line === null ? problem.file : isHere ? `line ${problem.line}, column ${problem.column}` : `${problem.file}:${problem.line}:${problem.column}`;
  const item = el("li", { class: problem.severity },
    isHere ? el("button", { class: "plain", type: "button", onclick: () => go(problem.line, problem.column) }, place) : el("span", { class: "mono muted" }, place),
    problem.severity === "warning" ? el("span", { class: "warn" }, " warning") : null,
    el("div", {}, ...words));
  if (problem.help) item.append(el("div", { class: "help" }, problem.help));
  return item;
}

function block(content) {
  if (content.type === "text") return el("pre", {}, content.text);
  return el("pre", {}, JSON.stringify(content, (_, value) => (typeof value === "string" && value.length > 400 ? `${value.slice(0, 400)}…` : value), 2));
}

function outcome(told) {
  const problems = [...told.problems];
  if (told.arguments_problem) problems.push({ severity: "error", file: "arguments", line: null, message: told.arguments_problem, help: null });
  const errors = problems.filter((problem) => problem.severity === "error").length;
  at("bench-problems").hidden = problems.length === 0;
  at("bench-problems").querySelector("ol").replaceChildren(...problems.map(problemItem));
  const { result } = told;
  for (const id of ["bench-steps", "bench-result", "bench-schema"]) at(id).classList.toggle("stale", result === undefined);
  if (told.result_bytes !== undefined) {
    say(`The result has ${told.result_bytes.toLocaleString("en")} bytes, too long to be shown`, "warn");
    return;
  }
  if (result === undefined) {
    say(`${many(errors, "problem")}: the rule is invalid`, "bad");
    return;
  }
  at("bench-steps").hidden = false;
  at("bench-steps").querySelector("dl").replaceChildren(
    ...[...told.steps, ...told.notes.map((note) => ({ what: "log", found: note }))].flatMap((step) => {
      const isTall = step.found.split("\n").length > 12;
      return [el("dt", {}, step.what), el("dd", isTall ? { class: "tall", tabindex: "0" } : {}, step.found)];
    }));
  at("bench-result").hidden = false;
  at("bench-content").replaceChildren(...result.content.map(block));
  const structured = at("bench-structured");
  structured.hidden = structured.previousElementSibling.hidden = result.structuredContent === undefined;
  structured.textContent = result.structuredContent === undefined ? "" : told.structured_text;
  at("bench-schema").hidden = told.output_schema === null || told.output_schema === undefined;
  if (told.output_schema) at("bench-schema").querySelector("pre").textContent = JSON.stringify(told.output_schema, null, 2);
  at("bench-of-server").hidden = told.upstream_kind === "program";
  at("bench-of-program").hidden = told.upstream_kind !== "program";
  const by = told.rule === null ? "The default rules match" : `Rule ${told.rule} matches`;
  const warned = problems.length ? `, ${many(problems.length, "warning")}` : "";
  say(`${by}: ${result.isError ? "tool error" : "tool result"}${warned}`, result.isError ? "bad" : "good");
}

async function run() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const written = at("bench-arguments").value.trim() || "{}";
  try {
    JSON.parse(written);
  } catch {
    say("The arguments are not JSON", "bad");
    return;
  }
  const rest = JSON.stringify({ route: loaded || "draft", rule: rule.value, input_responses: answers, response: given() });
  // As it is written, with every digit.
  const body = `{"arguments":${written},${rest.slice(1)}`;
  try {
    const { status, body: told } = await ask("/playground", { method: "POST", body, signal });
    if (status === 200) outcome(told);
    else say(told.error ?? `status ${status}`, "bad");
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof NoToken) needsToken();
    else say("The process does not respond", "bad");
  }
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(run, PAUSE);
}

/** What `curl -i` prints, taken apart. */
function takeApart() {
  const body = at("bench-body");
  const found = /^HTTP\/[0-9.]+ (\d{3})[^\n]*\n((?:[^\n]+\n)*)\r?\n([\s\S]*)$/.exec(body.value.replace(/\r\n/g, "\n"));
  if (!found) return;
  const framing = /^(content-length|transfer-encoding|content-encoding|connection):/i;
  at("bench-status").value = found[1];
  at("bench-headers").value = found[2].split("\n").filter((line) => line && !framing.test(line)).join("\n");
  body.value = found[3];
}

function place(test) {
  const reply = test?.response ?? { status: 200, headers: [["content-type", "text/plain"]], body: EMPTY_BODY };
  answers = test?.input_responses ?? {};
  at("bench-status").value = reply.status ?? 200;
  at("bench-headers").value = (reply.headers ?? []).map(([name, value]) => `${name}: ${value}`).join("\n");
  at("bench-exit").value = reply.exit_status ?? 0;
  at("bench-stderr").value = reply.stderr ?? "";
  bytes = reply.body_base64 ?? null;
  const body = at("bench-body");
  body.value = bytes === null ? reply.body ?? "" : `(${Math.floor((bytes.length * 3) / 4)} bytes of binary data; type to replace them)`;
  whole = { shown: body.value, text: reply.body ?? "" };
  const called = test?.arguments ?? {};
  at("bench-arguments").value = Object.keys(called).length ? JSON.stringify(called) : "";
}

async function begin(name) {
  loaded = name;
  let own = { rule: EMPTY_RULE, tests: [], upstream_kind: "server" };
  if (name) {
    const { status, body } = await ask(`/playground/${encodeURIComponent(name)}`);
    if (status === 200) own = body;
    else say(body.error, "bad");
  }
  rule.value = own.rule;
  tests = own.tests;
  at("bench-of-server").hidden = own.upstream_kind === "program";
  at("bench-of-program").hidden = own.upstream_kind !== "program";
  const select = at("bench-test");
  select.disabled = tests.length === 0;
  select.replaceChildren(...(tests.length ? tests.map((test, index) => el("option", { value: index }, test.name)) : [el("option", { value: "" }, "none")]));
  place(tests[0]);
  number();
  await run();
}

for (const input of inputs) input.addEventListener("input", later);
rule.addEventListener("input", number);
rule.addEventListener("scroll", () => { at("bench-lines").scrollTop = rule.scrollTop; });
rule.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  const line = rule.value.slice(rule.value.lastIndexOf("\n", rule.selectionStart - 1) + 1, rule.selectionStart);
  const margin = /^ */.exec(line)[0];
  if (!margin) return;
  event.preventDefault();
  rule.setRangeText(`\n${margin}`, rule.selectionStart, rule.selectionEnd, "end");
  rule.dispatchEvent(new Event("input"));
});
at("bench-body").addEventListener("input", () => { bytes = null; takeApart(); });
at("bench-test").addEventListener("change", () => { place(tests[Number(at("bench-test").value)]); run(); });
at("bench-route").addEventListener("change", () => {
  location.hash = at("bench-route").value ? `#playground/${at("bench-route").value}` : "#playground";
});

/** Shows the playground; what is being written there stays while the same route is meant. */
export async function playgroundView([name = ""]) {
  if (loaded === name) return;
  const { routes } = await get("/playground");
  const names = routes.map((route) => route.name);
  if (name && !names.includes(name)) names.push(name);
  at("bench-route").replaceChildren(el("option", { value: "" }, "an empty rule"), ...names.map((name) => el("option", { value: name }, name)));
  at("bench-route").value = name;
  await begin(name);
}
