// Takes pictures of the admin UI of a running demo.
import { createRequire } from "node:module";

const { CHROMIUM, PICTURES, NODE_FOLDER, DEMO_ADMIN, LEGACY_URL } = process.env;
const { chromium } = createRequire(`${NODE_FOLDER}/node_modules/`)("playwright-core");

// Wide enough for the three columns of the playground.
const SIZE = { width: 1440, height: 780 };

// What `curl -i` prints of the legacy server, pasted into the playground.
const response = await fetch(`${LEGACY_URL}/report/Bergen`);
const pasted = [
  `HTTP/1.1 ${response.status} ${response.statusText}`,
  `Content-Type: ${response.headers.get("content-type")}`,
  "",
  await response.text(),
].join("\r\n");

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
for (const colorScheme of ["light", "dark"]) {
  const context = await browser.newContext({ viewport: SIZE, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const shows = (id, text) =>
    page.waitForFunction(([id, text]) => document.getElementById(id).textContent.includes(text), [id, text]);
  await page.goto(`${DEMO_ADMIN}/#playground/get_weather`);
  await shows("playground-state", "tool result");
  await page.fill("#playground-body", pasted);
  await page.fill("#playground-arguments", '{"city": "Bergen"}');
  await shows("playground-structured", "7.5");
  await shows("playground-state", "tool result");
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  await page.screenshot({ path: `${PICTURES}/playground-${colorScheme}.png` });
}
await browser.close();
