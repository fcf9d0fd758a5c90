// Drives yaml-language-server over standard input and output, as an editor does, and prints a line for each
// check: `  passed NAME`, or `  FAILED NAME: why`.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { SERVER, SCHEMA, FILES } = process.env;
const TIMEOUT_MS = 20_000;

/** A connection to the language server: JSON-RPC with `Content-Length` headers. */
class Connection {
  #child = spawn(process.execPath, [SERVER, "--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
  #buffer = Buffer.alloc(0);
  #last_id = 0;
  #pending = new Map();
  #diagnostics = new Map();

  constructor() {
    this.#child.stdout.on("data", (data) => this.#read(data));
    this.#child.on("exit", (code) => {
      for (const { reject } of this.#pending.values()) reject(new Error(`the server exited with ${code}`));
    });
  }

  #send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.#child.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.#child.stdin.write(body);
  }

  #read(data) {
    this.#buffer = Buffer.concat([this.#buffer, data]);
    for (;;) {
      const end = this.#buffer.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number(/content-length: *(\d+)/i.exec(this.#buffer.subarray(0, end).toString())[1]);
      if (this.#buffer.length < end + 4 + length) return;
      const body = this.#buffer.subarray(end + 4, end + 4 + length).toString();
      this.#buffer = this.#buffer.subarray(end + 4 + length);
      this.#receive(JSON.parse(body));
    }
  }

  #receive(message) {
    if (message.method === "textDocument/publishDiagnostics") {
      const { uri, diagnostics } = message.params;
      const waiting = this.#diagnostics.get(uri);
      if (typeof waiting === "function") waiting(diagnostics);
      this.#diagnostics.set(uri, diagnostics);
    } else if (message.method !== undefined && message.id !== undefined) {
      // A request of the server; it has no use for our answer.
      this.#send({ id: message.id, result: null });
    } else if (this.#pending.has(message.id)) {
      const { resolve, reject } = this.#pending.get(message.id);
      this.#pending.delete(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
    }
  }

  notify(method, params) { this.#send({ method, params }); }

  request(method, params) {
    const id = ++this.#last_id;
    return within(method, new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#send({ id, method, params });
    }));
  }

  /** Opens a text as a document, and waits for its diagnostics. */
  open(uri, text) {
    const published = new Promise((resolve) => this.#diagnostics.set(uri, resolve));
    this.notify("textDocument/didOpen", { textDocument: { uri, languageId: "yaml", version: 1, text } });
    return within(`diagnostics of ${uri}`, published);
  }

  async close() {
    await this.request("shutdown", null);
    this.notify("exit", null);
  }
}

function within(what, promise) {
  const late = new Promise((_, reject) => {
    setTimeout(reject, TIMEOUT_MS, new Error(`no answer: ${what}`)).unref();
  });
  return Promise.race([promise, late]);
}

/** Position behind the first `words` of a text. */
function behind(text, words) {
  const at = text.indexOf(words);
  if (at < 0) throw new Error(`\`${words}\` is not in the file`);
  const before = text.slice(0, at + words.length).split("\n");
  return { line: before.length - 1, character: before.at(-1).length };
}

/** Position in the middle of a key. */
function inside(text, key) {
  const { line, character } = behind(text, key);
  return { line, character: character - 2 };
}

const connection = new Connection();
await connection.request("initialize", {
  processId: process.pid,
  rootUri: null,
  capabilities: { textDocument: { hover: { contentFormat: ["markdown"] } } },
});
connection.notify("initialized", {});

let documents = 0;
async function open(text) {
  const uri = `file:///editor/${++documents}.yaml`;
  return { textDocument: { uri }, diagnostics: await connection.open(uri, text) };
}

async function check(name, run) {
  try {
    const why = await run();
    console.log(why === undefined ? `  passed ${name}` : `  FAILED ${name}: ${why}`);
  } catch (error) {
    console.log(`  FAILED ${name}: ${error.message}`);
  }
}

/** The labels that are proposed at a new line behind `words`. */
async function completions(text, words, indent) {
  const at = behind(text, words);
  const lines = text.split("\n");
  lines.splice(at.line + 1, 0, indent);
  const { textDocument } = await open(lines.join("\n"));
  const position = { line: at.line + 1, character: indent.length };
  const list = await connection.request("textDocument/completion", { textDocument, position });
  return (Array.isArray(list) ? list : list.items).map((item) => item.label);
}

async function hover(text, key) {
  const { textDocument } = await open(text);
  const position = inside(text, key);
  const found = await connection.request("textDocument/hover", { textDocument, position });
  return JSON.stringify(found?.contents ?? null);
}

const missing = (found, wanted) => {
  const absent = wanted.filter((word) => !found.includes(word));
  return absent.length ? `no ${absent.join(", ")} in ${found}` : undefined;
};

const cases = [
  {
    file: "minimal.yaml",
    completes: [
      ["    timeout: 5s", "    ", ["retry", "cache", "response", "scopes"]],
      ["http://127.0.0.1:9000", "", ["server", "defaults", "prompts"]],
    ],
    wrong: ["    timeout", "    timout", "timout"],
    hovers: [["timeout", ["Timeout of a call"]], ["upstreams", ["Upstream servers, by name"]]],
  },
  {
    file: "server.yaml",
    completes: [
      ["listen: 127.0.0.1:8080", "  ", ["write_timeout", "tls", "max_streams"]],
      ["url: http://127.0.0.1:9000", "    ", ["circuit_breaker", "health_check", "headers"]],
    ],
    wrong: ["max_connections", "max_conections", "max_conections"],
    hovers: [
      ["max_connections", ["Maximum number of open connections", "Default 4096"]],
      ["level", ["Lowest level that is logged", "Default `info`", "Allowed Values"]],
      ["max_attempts", ["Maximum number of attempts", "Default 3"]],
    ],
  },
  {
    file: "rules.yaml",
    completes: [
      ["error: There is no status page.", "        ", ["extract", "content", "limit"]],
      ["separator: \":\"", "            ", ["pattern", "sections", "indented"]],
    ],
    wrong: ["separator", "seperator", "seperator"],
    hovers: [
      ["separator", ["Separator of key and value", "Default `:`"]],
      ["extract", ["Extractor that parses the response"]],
    ],
  },
];

for (const { file, completes, wrong, hovers } of cases) {
  // The first line names the schema as the reference advises.
  const schema = pathToFileURL(SCHEMA).href;
  const text = `# yaml-language-server: $schema=${schema}\n${readFileSync(`${FILES}/${file}`, "utf8")}`;
  await check(`${file} has no diagnostics`, async () => {
    const { diagnostics } = await open(text);
    return diagnostics.length > 0 ? JSON.stringify(diagnostics) : undefined;
  });
  for (const [words, indent, wanted] of completes) {
    await check(`${file}: completion after \`${words.trim()}\``, async () =>
      missing(await completions(text, words, indent), wanted));
  }
  const [right, replacement, key] = wrong;
  await check(`${file}: a diagnostic at the wrong key \`${key}\``, async () => {
    const broken = text.replace(right, replacement);
    const { diagnostics } = await open(broken);
    const { line } = inside(broken, key);
    const found = diagnostics.some(({ message, range }) => message.includes(key) && range.start.line === line);
    return found ? undefined : JSON.stringify(diagnostics);
  });
  for (const [key, wanted] of hovers) {
    await check(`${file}: description of \`${key}\``, async () =>
      missing(await hover(text, key), wanted));
  }
}
await connection.close();
