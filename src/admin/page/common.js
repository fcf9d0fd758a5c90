// Helpers shared by all views: DOM elements, requests, number formatting.
//
// All displayed data is untrusted. It is inserted as text, never as HTML.

const TOKEN_KEY = "glossator-token";

/** Creates an element. `on…` attributes are event listeners; children are elements or text. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Returns the element with this id. */
export const byId = (id) => document.getElementById(id);

/** Sets the text content only if it differs, to preserve the user's selection. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The token was missing or rejected (401). */
export class UnauthorizedError extends Error {}

export const storeToken = (token) => sessionStorage.setItem(TOKEN_KEY, token);
export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;
export const clearToken = () => sessionStorage.removeItem(TOKEN_KEY);

/** Sends a request to the admin API, optionally with a JSON text as body; returns `{ status, body }` with the parsed body. */
export async function fetchJson(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method === "POST") headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method,
    headers,
    signal,
    body,
    cache: "no-store",
    credentials: "omit",
  });
  if (response.status === 401) throw new UnauthorizedError();
  return { status: response.status, body: await response.json() };
}

/** Sends a GET request and returns the body; throws unless the status is 200. */
export async function getJson(path) {
  const { status, body } = await fetchJson(path);
  if (status !== 200) throw new Error(body.error ?? `status ${status}`);
  return body;
}

/** Returns a function that reconciles table rows with items: creates, updates, reorders and removes rows by key. */
export function createRowUpdater(body, createRow) {
  const rowsByKey = new Map();
  return (items, getKey) => {
    const focused = document.activeElement;
    const currentKeys = new Set(items.map(getKey));
    for (const [key, row] of rowsByKey) {
      if (!currentKeys.has(key)) {
        row.element.remove();
        rowsByKey.delete(key);
      }
    }
    let nextRow = body.firstChild;
    for (const item of items) {
      const key = getKey(item);
      if (!rowsByKey.has(key)) rowsByKey.set(key, createRow(item));
      const row = rowsByKey.get(key);
      row.update?.(item);
      if (row.element === nextRow) nextRow = nextRow.nextSibling;
      else body.insertBefore(row.element, nextRow);
    }
    // Moving a row drops its focus; restore it.
    if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
  };
}

const NO_VALUE = "–";

export const formatCount = (number) =>
  number === undefined || number === null ? NO_VALUE : number.toLocaleString("en");

/** Formats milliseconds with a precision that fits the magnitude. */
export function formatDuration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return NO_VALUE;
  if (milliseconds >= 10_000) return `${Math.round(milliseconds / 1000)} s`;
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  if (milliseconds >= 10) return `${Math.round(milliseconds)} ms`;
  return `${milliseconds.toFixed(1)} ms`;
}

export function formatRate(perSecond) {
  if (perSecond === null || perSecond === undefined) return NO_VALUE;
  if (perSecond === 0) return "0";
  if (perSecond < 0.1) return perSecond.toFixed(2);
  return perSecond < 100 ? perSecond.toFixed(1) : formatCount(Math.round(perSecond));
}

export function formatPercent(part, total) {
  if (!total) return NO_VALUE;
  const percent = (100 * part) / total;
  if (part === 0) return "0 %";
  return percent < 0.1 ? "<0.1 %" : `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

const padTwo = (number) => String(number).padStart(2, "0");

/** Formats a Unix timestamp as local time of day. */
export function formatTime(seconds, withSeconds = true) {
  const time = new Date(seconds * 1000);
  const minutes = `${padTwo(time.getHours())}:${padTwo(time.getMinutes())}`;
  return withSeconds ? `${minutes}:${padTwo(time.getSeconds())}` : minutes;
}

/** Formats a Unix timestamp as local time, with the date unless it is today. */
export function formatTimestamp(seconds, now = Date.now() / 1000) {
  const time = new Date(seconds * 1000);
  const formatDate = (date) =>
    `${date.getFullYear()}-${padTwo(date.getMonth() + 1)}-${padTwo(date.getDate())}`;
  return formatDate(time) === formatDate(new Date(now * 1000))
    ? formatTime(seconds)
    : `${formatDate(time)} ${formatTime(seconds)}`;
}

/** Formats a number of seconds in its two largest units at most. */
export function formatTimeSpan(seconds) {
  const units = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const index = units.findIndex(([length]) => seconds >= length);
  if (index < 0) return "0 s";
  const [length, unit] = units[index];
  const whole = `${Math.floor(seconds / length)} ${unit}`;
  const next = units[index + 1];
  const remainder = next ? Math.floor((seconds % length) / next[0]) : 0;
  return remainder > 0 && index < 2 ? `${whole} ${remainder} ${next[1]}` : whole;
}

/** Formats a count with its noun: `1 route`, `2 routes`. */
export const pluralize = (number, singular, plural = `${singular}s`) =>
  `${formatCount(number)} ${number === 1 ? singular : plural}`;
