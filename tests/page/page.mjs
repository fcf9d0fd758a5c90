// Drives the admin UI in Chromium; prints a line for each check.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const { CHROMIUM, PICTURES, CONFIG, NODE_FOLDER, OPEN_URL, OPEN_OPERATORS, LOCKED_OPERATORS } = process.env;
const require = createRequire(`${NODE_FOLDER}/node_modules/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const HOSTILE = "<img/src=x/onerror=hacked=1>";
const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 360, height: 740 };
const SECTIONS = ["routes", "failures", "upstreams", "configuration", "playground"];

async function check(what, work) {
  try {
    await work();
    console.log(`  passed  ${what}`);
  } catch (error) {
    console.log(`  FAILED  ${what}: ${String(error.message).split("\n").slice(0, 6).join(" | ")}`);
  }
}
function equal(actual, expected, what = "") {
  const [actualJson, expectedJson] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (actualJson !== expectedJson) throw new Error(`${what} expected ${expectedJson}, found ${actualJson}`);
}
function assert(condition, message) {
  if (!condition) throw new Error(message);
}
async function until(what, test) {
  const end = Date.now() + 15_000;
  let found;
  do {
    found = await test();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  } while (Date.now() < end);
  throw new Error(`not within 15 s: ${what}`);
}

async function call(tool, body, requestId) {
  const headers = { "content-type": "application/json", ...(requestId ? { "x-request-id": requestId } : {}) };
  const response = await fetch(`${OPEN_URL}/tools/${tool}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  return response.json();
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const browserErrors = [];
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("console", (message) => {
    // Chromium logs every unsuccessful response; some tests trigger them on purpose.
    if (message.type() === "error" && !/Failed to load resource/.test(message.text()))
      browserErrors.push(message.text());
  });
  page.on("pageerror", (error) => browserErrors.push(error.message));
  page.on("dialog", (dialog) => {
    browserErrors.push("a dialog");
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url.split("#")[0])) browserErrors.push(`requested ${request.url()}`);
  });
  await page.goto(url);
  return page;
}
const section = async (page, name) => {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, name);
  await page.waitForSelector(`#${name.split("/")[0]}:not([hidden])`);
  await page.waitForFunction((title) => document.title.toLowerCase().startsWith(title), name.split("/")[0]);
};
const names = (page) =>
  page.$$eval("#routes-table tbody th", (cells) => cells.map((cell) => cell.textContent));

// Calls of all kinds, as data for the views.
for (let number = 0; number < 20; number += 1) await call("get_weather", { city: "Oslo" });
await call("list_stations", {});
await call("get_weather", { city: "Paris" }, "no-such-city");
await call("get_weather", { city: "Broken" }, HOSTILE);
await call("get_weather", {}, "no-arguments");
for (let number = 0; number < 5; number += 1) await call("get_tides", {});

const page = await open(`${OPEN_OPERATORS}/`);

await check("the page shows the routes and how they are called", async () => {
  await page.waitForSelector("#routes:not([hidden])");
  equal(await names(page), ["count_words", "get_tides", "get_weather", "list_stations"]);
  const row = page.locator("#routes-table tbody tr", { hasText: "get_weather" });
  equal((await row.locator("td").allTextContents()).slice(0, 1), ["station"]);
  equal((await row.locator("td").allTextContents()).slice(3, 5), ["23", "3 (13 %)"]);
  assert(
    (await page.textContent("#plot-rate")).includes("29 calls in the hour"),
    await page.textContent("#plot-rate"),
  );
  assert(
    (await page.textContent("#server-status")).startsWith("ready, up"),
    await page.textContent("#server-status"),
  );
});

await check(
  "a few calls are seen in the plot of times, and no percentile of fewer calls than it needs",
  async () => {
    assert(
      (await page.$$("#plot-times .dot")).length > 0 ||
        (await page.getAttribute("#plot-times path.s1", "d")).includes("L"),
      "nothing is drawn",
    );
    assert(
      (await page.textContent("#plot-times .readout")).includes("of 29 calls"),
      await page.textContent("#plot-times .readout"),
    );
    const percentiles = async (route) =>
      (await page.locator("#routes-table tbody tr", { hasText: route }).locator("td").allTextContents())
        .slice(5)
        .map((text) => text === "–");
    equal(await percentiles("list_stations"), [false, true, true]);
    equal(await percentiles("get_weather"), [false, false, true]);
  },
);

await check("the table sorts and filters, and keeps the focus during updates", async () => {
  const button = page.locator("#routes-table th[data-sort=calls] button");
  await button.click();
  equal((await names(page))[0], "get_weather");
  equal(await page.getAttribute("#routes-table th[data-sort=calls]", "aria-sort"), "descending");
  await button.click();
  equal((await names(page)).at(-1), "get_weather");
  await page.fill("#routes-filter", "GONE");
  equal(await names(page), ["get_tides"]);
  equal(await page.textContent("#routes-count"), "1 of 4 routes");
  await page.fill("#routes-filter", "");
  await page.focus("#routes-table tbody tr:nth-child(2) a");
  const focused = await page.evaluate(() => document.activeElement.textContent);
  await page.evaluate(() => dispatchEvent(new HashChangeEvent("hashchange")));
  await page.waitForTimeout(300);
  equal(await page.evaluate(() => document.activeElement.textContent), focused);
});

await check("one route has plots of its own, and ways to its failures and its rule", async () => {
  await page.click("#routes-table a:text-is('get_weather')");
  await page.waitForFunction(() => document.getElementById("routes-title").textContent === "get_weather");
  await page.waitForFunction(() =>
    document.getElementById("plot-rate").textContent.includes("23 calls in the hour"),
  );
  assert((await page.textContent("#routes-about")).includes("POST /weather"), "no endpoint");
  await page.click("#routes-links a:text-is('Failures')");
  await page.waitForSelector("#failures:not([hidden])");
  equal(await page.inputValue("#failures-route"), "get_weather");
  await until("its failures only", async () => (await page.$$("#failures-table tbody tr")).length === 3);
});

await check("a plot is read with the arrow keys", async () => {
  await section(page, "routes");
  await page.focus("#plot-rate svg");
  await page.keyboard.press("End");
  assert(
    /\d\d:\d\d:\d\d: [\d.]+\/s/.test(await page.textContent("#plot-rate .readout")),
    await page.textContent("#plot-rate .readout"),
  );
  assert(
    (await page.getAttribute("#plot-rate svg.plot", "aria-label")).startsWith(
      "Calls per second of the last hour.",
    ),
    "no label",
  );
  await page.keyboard.press("Escape");
});

await check("failures show rule and reason, and markup in them is escaped", async () => {
  await section(page, "failures");
  const total = async () =>
    (
      await page.$$eval("#failures-table tbody tr", (rows) =>
        rows.map((row) => Number(row.cells[8].textContent)),
      )
    ).reduce((all, one) => all + one, 0);
  await until("all of them", async () => (await total()) === 8);
  // Similar failures are grouped in one row.
  equal(
    await page.locator("#failures-table tbody tr", { hasText: "upstream `gone`: could not connect" }).count(),
    1,
  );
  const rejected = page.locator("#failures-table tbody tr", {
    hasText: "upstream `gone`: the upstream circuit breaker",
  });
  equal([await rejected.count(), await rejected.locator("td").nth(8).textContent()], [1, "2"]);
  equal(
    await page
      .locator("#failures-table tbody tr", { hasText: "no-such-city" })
      .locator("td:nth-child(5) a")
      .getAttribute("href"),
    "#playground/get_weather",
  );
  const broken = page.locator("#failures-table tbody tr", { hasText: HOSTILE });
  equal(await broken.count(), 1);
  const cells = await broken.locator("td").allTextContents();
  equal([cells[3], cells[4], cells[6]], ["unparseable_response", "2", "200"]);
  assert(cells[7].includes("the response could not be processed: pairs"), cells[7]);
  assert(
    (await page.textContent("#failures-table")).includes("upstream `gone`: could not connect"),
    "no reason",
  );
});

await check("failures are filtered by request id", async () => {
  await page.fill("#failures-id", "no-such-city");
  await until("the one", async () => (await page.$$("#failures-table tbody tr")).length === 1);
  await page.fill("#failures-id", "nobody");
  await page.waitForFunction(() =>
    document.getElementById("failures-none").textContent.includes("another replica"),
  );
  await page.fill("#failures-id", "");
});

await check("upstreams show their addresses, and the open circuit breaker", async () => {
  await section(page, "upstreams");
  const gone = page.locator("#upstreams-table tbody tr", { hasText: "gone" });
  assert(/open for 9 min/.test(await gone.textContent()), await gone.textContent());
  const station = page.locator("#upstreams-table tbody tr", { hasText: "station" });
  assert(/http:\/\/127.0.0.1:\d+\/? healthy/.test(await station.textContent()), await station.textContent());
  equal(await page.textContent("#upstreams-about"), "3 upstreams, 1 with an open circuit breaker");
});

await check("a failed reload is shown on every section, with its report on one", async () => {
  const good = readFileSync(CONFIG, "utf8");
  writeFileSync(CONFIG, `${good}rotues: {}\n`);
  await until("the notice", async () =>
    (await page.textContent("#notice")).includes("The last reload failed"),
  );
  await section(page, "configuration");
  await page.waitForSelector("#reload-failed:not([hidden])");
  assert((await page.textContent("#reload-failed-report")).includes("did you mean `routes`?"), "no report");
  await page.screenshot({ path: `${PICTURES}/refused.png`, fullPage: true });
  await page.click("#reload");
  await page.waitForFunction(() =>
    document.getElementById("reload-status").textContent.includes("it has errors"),
  );
  writeFileSync(CONFIG, good);
  await page.waitForTimeout(50);
  await page.click("#reload");
  await page.waitForFunction(() =>
    document.getElementById("reload-status").textContent.includes("; active."),
  );
  await page.waitForSelector("#reload-failed", { state: "hidden" });
});

await check("the active configuration unfolds", async () => {
  await page.click("#config-tree summary:has-text('routes')");
  await page.click("#config-tree summary:has-text('get_tides')");
  await until("its description", async () =>
    (await page.textContent("#config-tree")).includes("<script>hacked = 1</script>"),
  );
});

const state = (text) =>
  page.waitForFunction(
    (text) => document.getElementById("playground-state").textContent.includes(text),
    text,
  );

await check("the playground begins with a route and its tests", async () => {
  await section(page, "playground");
  await state("tool result");
  await page.selectOption("#playground-route", "get_weather");
  await state("Rule 2 matches: tool result");
  assert(
    (await page.inputValue("#playground-rule")).includes("# Not every city has a station."),
    "no comment",
  );
  assert(!(await page.inputValue("#playground-rule")).includes("tests:"), "tests are in it");
  assert(
    (await page.textContent("#playground-structured")).includes('"temperature": 5.0,'),
    await page.textContent("#playground-structured"),
  );
  equal(await page.textContent("#playground-content pre"), "5.0 °C, cloudy");
  assert((await page.textContent("#playground-steps")).includes("extract pairs"), "no step");
  assert((await page.textContent("#playground-schema")).includes('"required"'), "no schema");
  await page.selectOption("#playground-test", { label: "no such city" });
  await state("Rule 1 matches: tool error");
  equal(await page.textContent("#playground-content pre"), "There is no station in Paris.");
});

await check("markup in a response is escaped", async () => {
  await page.selectOption("#playground-test", { label: "markup in the reply" });
  await state("Rule 2 matches: tool result");
  assert(
    (await page.textContent("#playground-structured")).includes("<img src=x onerror=hacked=1>"),
    "not shown",
  );
  // The line endings of the original are preserved.
  assert(
    (await page.textContent("#playground-steps")).includes("43 characters"),
    await page.textContent("#playground-steps"),
  );
  equal(await page.$$eval("#playground-result img, #playground-steps img", (images) => images.length), 0);
});

await check("a rule is evaluated while it is typed, without becoming active", async () => {
  const rule = await page.inputValue("#playground-rule");
  await page.fill("#playground-rule", rule.replace("Temp", "Sky"));
  await state("Rule 2 matches: tool error");
  await page.fill("#playground-rule", rule.replace("number", "string"));
  await state("Rule 2 matches: tool result");
  equal(JSON.parse(await page.textContent("#playground-structured")).temperature, "1");
  equal((await call("get_weather", { city: "Oslo" })).structuredContent.temperature, 5);
});

await check("a click on a problem moves the cursor to its position", async () => {
  const rule = await page.inputValue("#playground-rule");
  await page.fill("#playground-rule", rule.replace("separator", "seperator"));
  await state("problem");
  const problem = await page.textContent("#playground-problems li");
  assert(problem.includes("did you mean `separator`?"), problem);
  await page.click("#playground-problems li button");
  const word = await page.evaluate(() => {
    const { value, selectionStart } = document.activeElement;
    return value.slice(selectionStart, selectionStart + 9);
  });
  equal(word, "seperator");
  await page.screenshot({ path: `${PICTURES}/playground-problem.png`, fullPage: true });
  await page.fill("#playground-rule", rule);
});

await check("pasted curl output is parsed", async () => {
  await page.fill(
    "#playground-body",
    "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ngone",
  );
  equal(await page.inputValue("#playground-status"), "404");
  equal(await page.inputValue("#playground-headers"), "Content-Type: text/plain");
  equal(await page.inputValue("#playground-body"), "gone");
  await state("Rule 1 matches: tool error");
});

await check("a route that runs a program has an exit status in place of an HTTP status", async () => {
  await section(page, "playground/count_words");
  await page.waitForSelector("#playground-program:not([hidden])");
  await state("Rule 1 matches: tool result");
  await page.fill("#playground-exit", "3");
  await state("tool error");
});

await check("variables and files are not read", async () => {
  await section(page, "playground");
  await page.selectOption("#playground-route", "");
  await page.fill(
    "#playground-rule",
    "request: GET station/${LEGACY_URL}\ntests: [ { response: { recording: /etc/passwd }, expect: {} } ]",
  );
  await state("problem");
  const problems = await page.textContent("#playground-problems");
  assert(problems.includes("needs a configuration file"), problems);
  assert(!(await page.content()).includes("root:"), "a file was read");
});

await check("everything can be reached with the keyboard", async () => {
  const fresh = await open(`${OPEN_OPERATORS}/`);
  await fresh.waitForSelector("#routes:not([hidden])");
  const focused = () => fresh.evaluate(() => document.activeElement.textContent || document.activeElement.id);
  await fresh.keyboard.press("Tab");
  equal(await focused(), "Skip to content");
  const outline = await fresh.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  equal(outline, "solid");
  for (const name of ["Routes", "Failures", "Upstreams", "Configuration", "Playground"]) {
    await fresh.keyboard.press("Tab");
    equal(await focused(), name);
  }
  await fresh.keyboard.press("Enter");
  await fresh.waitForSelector("#playground:not([hidden])");
  await until("main has the focus", () => fresh.evaluate(() => document.activeElement.id === "main"));
  await fresh.keyboard.press("Tab");
  equal(await fresh.evaluate(() => document.activeElement.id), "playground-route");
  await fresh.focus("#playground-rule");
  await fresh.keyboard.press("Tab");
  equal(await fresh.evaluate(() => document.activeElement.id), "playground-status");
  await section(fresh, "routes");
  await fresh.focus("#routes-table th[data-sort=errors] button");
  await fresh.keyboard.press("Enter");
  equal(await fresh.getAttribute("#routes-table th[data-sort=errors]", "aria-sort"), "descending");
  await fresh.context().close();
});

await check("a token is requested, stored for the tab, and sent as a header only", async () => {
  const locked = await open(`${LOCKED_OPERATORS}/`);
  await locked.waitForSelector("#token:not([hidden])");
  assert(!(await locked.textContent("#routes-table tbody")).includes("get_weather"), "shown without a token");
  await locked.fill("#token-input", "sesame");
  await locked.keyboard.press("Enter");
  await locked.waitForFunction(() => document.getElementById("token-error").textContent === "Wrong token.");
  await locked.screenshot({ path: `${PICTURES}/token.png` });
  await locked.fill("#token-input", "sesame, open sesame");
  await locked.keyboard.press("Enter");
  await locked.waitForSelector("#routes:not([hidden])");
  await locked.reload();
  await locked.waitForSelector("#routes:not([hidden])");
  equal(await locked.context().cookies(), []);
  assert(!locked.url().includes("sesame"), "the token is in the address");
  await section(locked, "playground/get_weather");
  await locked.waitForFunction(() =>
    document.getElementById("playground-state").textContent.includes("tool result"),
  );
  await locked.context().close();
});

// Generates an hour of synthetic calls for the screenshots.
function hour() {
  const length = 241;
  const wave = (index, period, least, most) =>
    least + ((most - least) * (1 + Math.sin((index / period) * 6.283))) / 2;
  const list = (make) => Array.from({ length }, (_, index) => make(index));
  const now = Math.floor(Date.now() / 1000);
  const noise = (index) => ((index * 7919) % 97) / 97;
  const calls = list((index) => Math.round(15 * (wave(index, 180, 6, 14) + 3 * noise(index))));
  const errors = list((index) =>
    index % 41 === 7 || (index > 150 && index < 168) ? Math.round(2 + 9 * noise(index)) : 0,
  );
  const p50 = list((index) => 6 + 3 * noise(index));
  const p95 = list(
    (index) => wave(index, 120, 18, 30) + 12 * noise(index + 3) + (index > 150 && index < 168 ? 60 : 0),
  );
  const p99 = p95.map((value, index) => value * (1.3 + 0.6 * noise(index + 9)));
  const sum = (values) => values.reduce((one, other) => one + other, 0);
  const past = {
    ended: list((index) => now - 15 * (length - 1 - index)),
    seconds: list(() => 15),
    calls,
    errors,
    p50_ms: p50,
    p95_ms: p95,
    p99_ms: p99,
    hour: { calls: sum(calls), errors: sum(errors), p50_ms: 7.2, p95_ms: 34, p99_ms: 61 },
  };
  const points = (values) =>
    Array.from({ length: 41 }, (_, index) => sum(values.slice(index * 6, index * 6 + 6)));
  const route = (part, wrong) => ({
    calls: Math.round(past.hour.calls * part),
    errors: wrong,
    p50_ms: 6 + 4 * part,
    p95_ms: 20 + 40 * part,
    p99_ms: 40 + 50 * part,
    per_second: 11 * part,
    calls_by_point: points(calls).map(
      (value, index) => value * part * (0.6 + 0.8 * noise(index + Math.round(part * 50))),
    ),
    errors_by_point: points(errors).map((value) => (wrong > 100 ? value : 0)),
  });
  return {
    now,
    all: past,
    point_slots: 6,
    omitted_routes: 0,
    routes: {
      get_weather: route(0.7, past.hour.errors),
      list_stations: route(0.28, 0),
      get_tides: route(0.02, 4),
    },
  };
}

for (const scheme of ["light", "dark"]) {
  for (const [size, viewport] of [
    ["wide", WIDE],
    ["narrow", NARROW],
  ]) {
    const shown = await open(`${OPEN_OPERATORS}/`, {
      colorScheme: scheme,
      viewport,
      reducedMotion: "reduce",
    });
    await shown.route("**/history", (route) => route.fulfill({ json: hour() }));
    for (const name of SECTIONS) {
      await check(`${name}, ${scheme} and ${size}: no axe violations, no horizontal scrolling`, async () => {
        await section(shown, name === "playground" ? "playground/get_weather" : name);
        if (name === "playground")
          await shown.waitForFunction(() =>
            document.getElementById("playground-state").textContent.includes("matches"),
          );
        if (name === "routes")
          await shown.waitForFunction(() => document.querySelectorAll("#plot-errors path").length > 0);
        await shown.screenshot({ path: `${PICTURES}/${name}-${scheme}-${size}.png`, fullPage: true });
        await shown.evaluate(axe);
        const { violations } = await shown.evaluate(() =>
          globalThis.axe.run(document, { resultTypes: ["violations"] }),
        );
        equal(
          violations.map(
            ({ id, nodes }) =>
              `${id}: ${nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).join("; ")}`,
          ),
          [],
        );
        const wider = await shown.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert(wider <= 0, `the document is ${wider} pixels wider than the window`);
      });
    }
    await shown.context().close();
  }
}

await check("only our own scripts ran, and no requests went to other hosts", async () => {
  equal(await page.evaluate(() => globalThis.hacked), undefined);
  equal(browserErrors, []);
});
await browser.close();
