// The page: which section is shown, and how often it is asked for anew.

import { at, forgetToken, get, hasToken, keepToken, moment, NoToken, span, write } from "./common.js";
import { configurationView } from "./configuration.js";
import { failuresView } from "./failures.js";
import { routesView } from "./routes.js";
import { upstreamsView } from "./upstreams.js";
import { onNoToken, playgroundView } from "./playground.js";

const SECTIONS = {
  routes: { view: routesView, every: 5000 },
  failures: { view: failuresView, every: 5000 },
  upstreams: { view: upstreamsView, every: 2000 },
  configuration: { view: configurationView, every: 5000 },
  playground: { view: playgroundView, every: 0 },
};

let current = null;
let timer = 0;
let turn = 0;

function place() {
  const [section, ...rest] = location.hash.slice(1).split("/");
  return SECTIONS[section] ? { section, rest: rest.map(decodeURIComponent) } : { section: "routes", rest: [] };
}

function notice(text) {
  write(at("notice"), text);
  at("notice").hidden = text === "";
}

async function standing() {
  const status = await get("/status");
  write(at("version"), status.version);
  const { since, failed_since } = status.configuration;
  const isReady = status.ready;
  const words = isReady ? "ready" : "ending";
  const line = `up ${span(status.now - status.started)}, configuration of ${moment(since, status.now)}`;
  const mark = document.createElement("span");
  mark.className = isReady ? "good" : "bad";
  mark.textContent = words;
  if (at("standing").textContent !== `${words}, ${line}`) at("standing").replaceChildren(mark, `, ${line}`);
  notice(failed_since === undefined || place().section === "configuration" ? ""
    : `The last reload failed at ${moment(failed_since, status.now)}; see Configuration.`);
}

function askForToken(isWrong) {
  for (const name of Object.keys(SECTIONS)) at(name).hidden = true;
  at("token").hidden = false;
  write(at("token-wrong"), isWrong ? "Wrong token." : "");
  at("token-input").focus();
}

async function show(moves) {
  clearTimeout(timer);
  const mine = ++turn;
  const { section, rest } = place();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${section}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${[section[0].toUpperCase() + section.slice(1), ...rest].join(" ")} · glossator`;
  const { view, every } = SECTIONS[section];
  try {
    await Promise.all([view(rest), standing()]);
    if (mine !== turn) return;
    at("token").hidden = true;
    for (const name of Object.keys(SECTIONS)) at(name).hidden = name !== section;
    if (moves && current !== section) {
      scrollTo(0, 0);
      if (current !== null) at("main").focus({ preventScroll: true });
    }
    current = section;
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof NoToken) {
      const wasWrong = hasToken();
      forgetToken();
      askForToken(wasWrong);
      return;
    }
    notice(error instanceof TypeError ? "The process does not respond; retrying." : error.message);
  }
  // A page that nobody looks at asks for nothing.
  if (mine === turn) timer = setTimeout(() => (document.hidden ? null : show(false)), every || 5000);
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(at("token-input").value);
  at("token-input").value = "";
  show(true);
});
onNoToken(() => show(false));
addEventListener("hashchange", () => show(true));
document.addEventListener("visibilitychange", () => { if (!document.hidden) show(false); });
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("main").focus();
});
show(true);
