// Entry point: hash routing and periodic refresh of the visible section.

import {
  byId,
  clearToken,
  formatTimeSpan,
  formatTimestamp,
  getJson,
  hasToken,
  setText,
  storeToken,
  UnauthorizedError,
} from "./common.js";
import { configurationView } from "./configuration.js";
import { failuresView } from "./failures.js";
import { routesView } from "./routes.js";
import { upstreamsView } from "./upstreams.js";
import { onTokenRejected, playgroundView } from "./playground.js";

const SECTIONS = {
  routes: { view: routesView, refreshInterval: 5000 },
  failures: { view: failuresView, refreshInterval: 5000 },
  upstreams: { view: upstreamsView, refreshInterval: 2000 },
  configuration: { view: configurationView, refreshInterval: 5000 },
  playground: { view: playgroundView, refreshInterval: 0 },
};

let currentSection = null;
let refreshTimer = 0;
let latestRender = 0;

function parseHash() {
  const [section, ...params] = location.hash.slice(1).split("/");
  return SECTIONS[section]
    ? { section, params: params.map(decodeURIComponent) }
    : { section: "routes", params: [] };
}

function showNotice(text) {
  setText(byId("notice"), text);
  byId("notice").hidden = text === "";
}

async function updateServerStatus() {
  const status = await getJson("/status");
  setText(byId("version"), status.version);
  const { since, failed_since } = status.configuration;
  const isReady = status.ready;
  const state = isReady ? "ready" : "not ready";
  const details = `up ${formatTimeSpan(status.now - status.started)}, configuration of ${formatTimestamp(since, status.now)}`;
  const stateElement = document.createElement("span");
  stateElement.className = isReady ? "good" : "bad";
  stateElement.textContent = state;
  if (byId("server-status").textContent !== `${state}, ${details}`)
    byId("server-status").replaceChildren(stateElement, `, ${details}`);
  showNotice(
    failed_since === undefined || parseHash().section === "configuration"
      ? ""
      : `The last reload failed at ${formatTimestamp(failed_since, status.now)}; see Configuration.`,
  );
}

function showTokenForm(isRejected) {
  for (const name of Object.keys(SECTIONS)) byId(name).hidden = true;
  byId("token").hidden = false;
  setText(byId("token-error"), isRejected ? "Wrong token." : "");
  byId("token-input").focus();
}

async function render(isNavigation) {
  clearTimeout(refreshTimer);
  const thisRender = ++latestRender;
  const { section, params } = parseHash();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${section}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${[section[0].toUpperCase() + section.slice(1), ...params].join(" ")} · glossator`;
  const { view, refreshInterval } = SECTIONS[section];
  try {
    await Promise.all([view(params), updateServerStatus()]);
    if (thisRender !== latestRender) return;
    byId("token").hidden = true;
    for (const name of Object.keys(SECTIONS)) byId(name).hidden = name !== section;
    if (isNavigation && currentSection !== section) {
      scrollTo(0, 0);
      if (currentSection !== null) byId("main").focus({ preventScroll: true });
    }
    currentSection = section;
  } catch (error) {
    if (thisRender !== latestRender) return;
    if (error instanceof UnauthorizedError) {
      const wasRejected = hasToken();
      clearToken();
      showTokenForm(wasRejected);
      return;
    }
    showNotice(error instanceof TypeError ? "The process does not respond; retrying." : error.message);
  }
  // A hidden tab does not poll.
  if (thisRender === latestRender)
    refreshTimer = setTimeout(() => (document.hidden ? null : render(false)), refreshInterval || 5000);
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  storeToken(byId("token-input").value);
  byId("token-input").value = "";
  render(true);
});
onTokenRejected(() => render(false));
addEventListener("hashchange", () => render(true));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) render(false);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
render(true);
