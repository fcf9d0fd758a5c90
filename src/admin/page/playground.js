// Playground view: live preview of a rule applied to an upstream response.

import { byId, el, fetchJson, getJson, pluralize, setText, UnauthorizedError } from "./common.js";

const DEBOUNCE_MS = 250;
const EMPTY_RULE = `response:
  - extract:
      pairs:
        separator: ":"
`;
const EMPTY_BODY = "temp: 5\nsky: Cloudy\n";

const inputs = ["rule", "status", "headers", "exit", "stderr", "body", "arguments"].map((name) =>
  byId(`playground-${name}`),
);
const editor = byId("playground-rule");

let tests = [];
let inputResponses = {};
let binaryBody = null;
// A textarea normalizes line endings; the original text is stored and sent while the field is unchanged.
let originalBody = { normalized: null, text: "" };
let loadedRoute = null;
let debounceTimer = 0;
let pendingRequest = null;
let tokenRejectedListener = () => {};

/** Registers the listener for a rejected token. */
export const onTokenRejected = (listener) => {
  tokenRejectedListener = listener;
};

function showStatus(text, severity = "") {
  byId("playground-state").className = `state ${severity}`;
  setText(byId("playground-state"), text);
}

function updateLineNumbers() {
  const lines = editor.value.split("\n").length;
  editor.rows = Math.min(44, Math.max(matchMedia("(max-width: 860px)").matches ? 12 : 24, lines + 1));
  setText(byId("playground-lines"), Array.from({ length: lines }, (_, index) => index + 1).join("\n"));
  byId("playground-lines").scrollTop = editor.scrollTop;
}

/** Moves the cursor to a line and column. Columns count code points, not UTF-16 code units. */
function goToPosition(line, column) {
  const lines = editor.value.split("\n");
  const lineStart = lines.slice(0, line - 1).reduce((total, text) => total + text.length + 1, 0);
  const offset = [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  editor.focus();
  editor.setSelectionRange(lineStart + offset, lineStart + offset);
  editor.scrollTop = Math.max(0, (line - 6) * 18.75);
}

/** Builds the upstream response of the request from the form fields. */
function readResponse() {
  const isProgram = byId("playground-http").hidden;
  const { value } = byId("playground-body");
  const body =
    binaryBody === null
      ? { body: value === originalBody.normalized ? originalBody.text : value }
      : { body_base64: binaryBody };
  if (isProgram)
    return {
      ...body,
      exit_status: byId("playground-exit").value.trim() || "0",
      stderr: byId("playground-stderr").value,
    };
  const headers = byId("playground-headers")
    .value.split("\n")
    .filter((line) => line.trim())
    .map((line) => {
      const colon = line.indexOf(":");
      return colon < 0 ? [line.trim(), ""] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    });
  const status = byId("playground-status").value.trim();
  return {
    ...body,
    status: status === "" ? 200 : Number.isNaN(Number(status)) ? status : Number(status),
    headers,
  };
}

function problemItem(problem) {
  const isInEditor = problem.file === "draft" && problem.line !== null;
  const position =
    problem.line === null
      ? problem.file
      : isInEditor
        ? `line ${problem.line}, column ${problem.column}`
        : `${problem.file}:${problem.line}:${problem.column}`;
  const item = el(
    "li",
    { class: problem.severity },
    isInEditor
      ? el(
          "button",
          { class: "plain", type: "button", onclick: () => goToPosition(problem.line, problem.column) },
          position,
        )
      : el("span", { class: "mono muted" }, position),
    problem.severity === "warning" ? el("span", { class: "warn" }, " warning") : null,
    el("div", {}, problem.message),
  );
  if (problem.help) item.append(el("div", { class: "help" }, problem.help));
  return item;
}

function renderContentBlock(content) {
  if (content.type === "text") return el("pre", {}, content.text);
  return el(
    "pre",
    {},
    JSON.stringify(
      content,
      (_, value) => (typeof value === "string" && value.length > 400 ? `${value.slice(0, 400)}…` : value),
      2,
    ),
  );
}

function renderOutcome(data) {
  const problems = [...data.problems];
  if (data.arguments_problem)
    problems.push({
      severity: "error",
      file: "arguments",
      line: null,
      message: data.arguments_problem,
      help: null,
    });
  const errors = problems.filter((problem) => problem.severity === "error").length;
  byId("playground-problems").hidden = problems.length === 0;
  byId("playground-problems")
    .querySelector("ol")
    .replaceChildren(...problems.map(problemItem));
  const { result } = data;
  for (const id of ["playground-steps", "playground-result", "playground-schema"])
    byId(id).classList.toggle("stale", result === undefined);
  if (data.result_bytes !== undefined) {
    showStatus(
      `The result has ${data.result_bytes.toLocaleString("en")} bytes, too large to display`,
      "warn",
    );
    return;
  }
  if (result === undefined) {
    showStatus(`${pluralize(errors, "problem")}: the rule is invalid`, "bad");
    return;
  }
  byId("playground-steps").hidden = false;
  byId("playground-steps")
    .querySelector("dl")
    .replaceChildren(
      ...[...data.steps, ...data.notes.map((note) => ({ what: "log", found: note }))].flatMap((step) => {
        const isTall = step.found.split("\n").length > 12;
        return [
          el("dt", {}, step.what),
          el("dd", isTall ? { class: "tall", tabindex: "0" } : {}, step.found),
        ];
      }),
    );
  byId("playground-result").hidden = false;
  byId("playground-content").replaceChildren(...result.content.map(renderContentBlock));
  const structured = byId("playground-structured");
  structured.hidden = structured.previousElementSibling.hidden = result.structuredContent === undefined;
  structured.textContent = result.structuredContent === undefined ? "" : data.structured_text;
  byId("playground-schema").hidden = data.output_schema === null || data.output_schema === undefined;
  if (data.output_schema)
    byId("playground-schema").querySelector("pre").textContent = JSON.stringify(data.output_schema, null, 2);
  byId("playground-http").hidden = data.upstream_kind === "program";
  byId("playground-program").hidden = data.upstream_kind !== "program";
  const matched = data.rule === null ? "The default rules match" : `Rule ${data.rule} matches`;
  const warnings = problems.length ? `, ${pluralize(problems.length, "warning")}` : "";
  showStatus(
    `${matched}: ${result.isError ? "tool error" : "tool result"}${warnings}`,
    result.isError ? "bad" : "good",
  );
}

async function run() {
  pendingRequest?.abort();
  pendingRequest = new AbortController();
  const { signal } = pendingRequest;
  const argumentsJson = byId("playground-arguments").value.trim() || "{}";
  try {
    JSON.parse(argumentsJson);
  } catch {
    showStatus("The arguments are not valid JSON", "bad");
    return;
  }
  const fields = JSON.stringify({
    route: loadedRoute || "draft",
    rule: editor.value,
    input_responses: inputResponses,
    response: readResponse(),
  });
  // The arguments are sent verbatim: parsing would lose the precision of large numbers.
  const body = `{"arguments":${argumentsJson},${fields.slice(1)}`;
  try {
    const { status, body: data } = await fetchJson("/playground", { method: "POST", body, signal });
    if (status === 200) renderOutcome(data);
    else showStatus(data.error ?? `status ${status}`, "bad");
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof UnauthorizedError) tokenRejectedListener();
    else showStatus("The process does not respond", "bad");
  }
}

function runDebounced() {
  clearTimeout(debounceTimer);
  debounceTimer = setTimeout(run, DEBOUNCE_MS);
}

/** Splits pasted `curl -i` output into status, headers and body. */
function parseCurlOutput() {
  const body = byId("playground-body");
  const match = /^HTTP\/[0-9.]+ (\d{3})[^\n]*\n((?:[^\n]+\n)*)\r?\n([\s\S]*)$/.exec(
    body.value.replace(/\r\n/g, "\n"),
  );
  if (!match) return;
  const framingHeaders = /^(content-length|transfer-encoding|content-encoding|connection):/i;
  byId("playground-status").value = match[1];
  byId("playground-headers").value = match[2]
    .split("\n")
    .filter((line) => line && !framingHeaders.test(line))
    .join("\n");
  body.value = match[3];
}

function fillResponse(test) {
  const response = test?.response ?? {
    status: 200,
    headers: [["content-type", "text/plain"]],
    body: EMPTY_BODY,
  };
  inputResponses = test?.input_responses ?? {};
  byId("playground-status").value = response.status ?? 200;
  byId("playground-headers").value = (response.headers ?? [])
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");
  byId("playground-exit").value = response.exit_status ?? 0;
  byId("playground-stderr").value = response.stderr ?? "";
  binaryBody = response.body_base64 ?? null;
  const body = byId("playground-body");
  body.value =
    binaryBody === null
      ? (response.body ?? "")
      : `(${Math.floor((binaryBody.length * 3) / 4)} bytes of binary data; type to replace them)`;
  originalBody = { normalized: body.value, text: response.body ?? "" };
  const args = test?.arguments ?? {};
  byId("playground-arguments").value = Object.keys(args).length ? JSON.stringify(args) : "";
}

async function loadRoute(name) {
  loadedRoute = name;
  let route = { rule: EMPTY_RULE, tests: [], upstream_kind: "server" };
  if (name) {
    const { status, body } = await fetchJson(`/playground/${encodeURIComponent(name)}`);
    if (status === 200) route = body;
    else showStatus(body.error, "bad");
  }
  editor.value = route.rule;
  tests = route.tests;
  byId("playground-http").hidden = route.upstream_kind === "program";
  byId("playground-program").hidden = route.upstream_kind !== "program";
  const select = byId("playground-test");
  select.disabled = tests.length === 0;
  select.replaceChildren(
    ...(tests.length
      ? tests.map((test, index) => el("option", { value: index }, test.name))
      : [el("option", { value: "" }, "none")]),
  );
  fillResponse(tests[0]);
  updateLineNumbers();
  await run();
}

for (const input of inputs) input.addEventListener("input", runDebounced);
editor.addEventListener("input", updateLineNumbers);
editor.addEventListener("scroll", () => {
  byId("playground-lines").scrollTop = editor.scrollTop;
});
editor.addEventListener("keydown", (event) => {
  if (
    event.key !== "Enter" ||
    event.shiftKey ||
    event.ctrlKey ||
    event.altKey ||
    event.metaKey ||
    event.isComposing
  )
    return;
  const line = editor.value.slice(
    editor.value.lastIndexOf("\n", editor.selectionStart - 1) + 1,
    editor.selectionStart,
  );
  const indent = /^ */.exec(line)[0];
  if (!indent) return;
  event.preventDefault();
  editor.setRangeText(`\n${indent}`, editor.selectionStart, editor.selectionEnd, "end");
  editor.dispatchEvent(new Event("input"));
});
byId("playground-body").addEventListener("input", () => {
  binaryBody = null;
  parseCurlOutput();
});
byId("playground-test").addEventListener("change", () => {
  fillResponse(tests[Number(byId("playground-test").value)]);
  run();
});
byId("playground-route").addEventListener("change", () => {
  location.hash = byId("playground-route").value
    ? `#playground/${byId("playground-route").value}`
    : "#playground";
});

/** Shows the playground. Edits are preserved while the same route is selected. */
export async function playgroundView([name = ""]) {
  if (loadedRoute === name) return;
  const { routes } = await getJson("/playground");
  const names = routes.map((route) => route.name);
  if (name && !names.includes(name)) names.push(name);
  byId("playground-route").replaceChildren(
    el("option", { value: "" }, "an empty rule"),
    ...names.map((name) => el("option", { value: name }, name)),
  );
  byId("playground-route").value = name;
  await loadRoute(name);
}
