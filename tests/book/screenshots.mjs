// Takes pictures of the admin UI of a running demo.
import { createRequire } from "node:module";

const { CHROMIUM, PICTURES, NODE_FOLDER, DEMO_URL, DEMO_ADMIN, LEGACY_URL, MINUTES } = process.env;
const { chromium } = createRequire(`${NODE_FOLDER}/node_modules/`)("playwright-core");

// Wide enough for the three columns of the playground.
const SIZE = { width: 1440, height: 780 };
const SCHEMES = ["light", "dark"];

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function call(tool, body) {
  const headers = { "content-type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(`${DEMO_URL}/tools/${tool}`, request);
  await response.text();
}

// Calls such as clients make: some tools often, some seldom, and a few errors. Their rate changes.
async function makeCalls(minutes) {
  const begin = Date.now();
  const passed = () => (Date.now() - begin) / 60_000;
  const cities = ["Oslo", "Bergen", "Tromsø"];
  for (let number = 0; passed() < minutes; number += 1) {
    const calls = [call("get_weather", { city: number % 23 === 22 ? "Paris" : cities[number % 3] })];
    if (number % 2 === 0) calls.push(call("get_station", { id: 1 + (number % 3) }));
    if (number % 5 === 0) calls.push(call("list_stations", {}));
    if (number % 11 === 0) calls.push(call("count_stations", {}));
    if (number % 37 === 0) calls.push(call("book_visit", { station: 1 + (number % 3), day: "friday" }));
    if (number % 211 === 210) calls.push(call("get_statistics", {}));
    if (number % 401 === 400) calls.push(call("get_radar", {}));
    await Promise.all(calls);
    await pause(350 + 200 * Math.sin(passed() / 4) + 100 * Math.sin(passed()));
  }
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });

async function picture(name, section, prepare) {
  for (const colorScheme of SCHEMES) {
    const context = await browser.newContext({ viewport: SIZE, colorScheme, reducedMotion: "reduce" });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    await page.goto(`${DEMO_ADMIN}/#${section}`);
    await prepare(page);
    await page.screenshot({ path: `${PICTURES}/${name}-${colorScheme}.png` });
    await context.close();
  }
}

// What `curl -i` prints of the legacy server, pasted into the playground.
const response = await fetch(`${LEGACY_URL}/report/Bergen`);
const pasted = [
  `HTTP/1.1 ${response.status} ${response.statusText}`,
  `Content-Type: ${response.headers.get("content-type")}`,
  "",
  await response.text(),
].join("\r\n");

if (Number(MINUTES) > 0) {
  await makeCalls(Number(MINUTES));
  await picture("routes", "routes", async (page) => {
    await page.waitForFunction(() => document.querySelectorAll("#plot-times path").length > 0);
  });
}
await picture("playground", "playground/get_weather", async (page) => {
  const state = (text) =>
    page.waitForFunction((text) => document.getElementById("bench-state").textContent.includes(text), text);
  await state("tool result");
  await page.fill("#bench-body", pasted);
  await page.fill("#bench-arguments", '{"city": "Bergen"}');
  await page.waitForFunction(() => document.getElementById("bench-structured").textContent.includes("7.5"));
  await state("tool result");
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
});
await browser.close();
