// What all parts of the page share: elements, requests, words for numbers.
//
// Whatever is shown came from other people. It is put in as text, never as markup.

const TOKEN = "glossator-token";

/** Makes an element. Attributes are set as such; `on…` are listeners; children are elements or text. */
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

/** The element of this id. */
export const at = (id) => document.getElementById(id);

/** Sets a text only where it differs, so that nobody's selection is lost. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A request was refused for its token, or the want of one. */
export class NoToken extends Error {}

export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);
export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export const forgetToken = () => sessionStorage.removeItem(TOKEN);

/** Asks the port, with a body of JSON text or none; gives `{ status, body }` with the body as JSON. */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method === "POST") headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method, headers, signal, body, cache: "no-store", credentials: "omit" });
  if (response.status === 401) throw new NoToken();
  return { status: response.status, body: await response.json() };
}

/** The same for what has to succeed. */
export async function get(path) {
  const { status, body } = await ask(path);
  if (status !== 200) throw new Error(body.error ?? `status ${status}`);
  return body;
}

/** Keeps the rows of a table: one for each item, made once, brought up to date, in the items' order. */
export function rows(body, make) {
  const known = new Map();
  return (items, key) => {
    const focused = document.activeElement;
    const wanted = new Set(items.map(key));
    for (const [name, row] of known) {
      if (!wanted.has(name)) {
        row.element.remove();
        known.delete(name);
      }
    }
    let before = body.firstChild;
    for (const item of items) {
      const name = key(item);
      if (!known.has(name)) known.set(name, make(item));
      const row = known.get(name);
      row.update?.(item);
      if (row.element === before) before = before.nextSibling;
      else body.insertBefore(row.element, before);
    }
    // A row that was moved has lost the focus.
    if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
  };
}

const NOTHING = "–";

export const count = (number) => (number === undefined || number === null ? NOTHING : number.toLocaleString("en"));

/** Milliseconds, with as many digits as mean something. */
export function took(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return NOTHING;
  if (milliseconds >= 10_000) return `${Math.round(milliseconds / 1000)} s`;
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  if (milliseconds >= 10) return `${Math.round(milliseconds)} ms`;
  return `${milliseconds.toFixed(1)} ms`;
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return NOTHING;
  if (perSecond === 0) return "0";
  if (perSecond < 0.1) return perSecond.toFixed(2);
  return perSecond < 100 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

export function share(part, whole) {
  if (!whole) return NOTHING;
  const percent = (100 * part) / whole;
  if (part === 0) return "0 %";
  return percent < 0.1 ? "<0.1 %" : `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

const two = (number) => String(number).padStart(2, "0");

/** The time of day where the reader is. */
export function clock(seconds, withSeconds = true) {
  const time = new Date(seconds * 1000);
  const minutes = `${two(time.getHours())}:${two(time.getMinutes())}`;
  return withSeconds ? `${minutes}:${two(time.getSeconds())}` : minutes;
}

/** The same, with the day where that is another one. */
export function moment(seconds, now = Date.now() / 1000) {
  const time = new Date(seconds * 1000);
  const day = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return day(time) === day(new Date(now * 1000)) ? clock(seconds) : `${day(time)} ${clock(seconds)}`;
}

export function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const index = units.findIndex(([length]) => seconds >= length);
  if (index < 0) return "0 s";
  const [length, unit] = units[index];
  const whole = `${Math.floor(seconds / length)} ${unit}`;
  const next = units[index + 1];
  const rest = next ? Math.floor((seconds % length) / next[0]) : 0;
  return rest > 0 && index < 2 ? `${whole} ${rest} ${next[1]}` : whole;
}

/** `1 route`, `2 routes`. */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;
