// Plots of the last hour, as SVG. They can be read with the pointer and with the arrow keys.

import { clock, el, write } from "./common.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 132;
const LEFT = 50;
const BOTTOM = 18;
const TOP = 8;
const RIGHT = 5;
/** How large a value without neighbours is drawn: a line would be too short to be seen. */
const DOT = 2.5;
// A process that has just begun has little to show: an hour of it would be a line at the margin.
const WINDOWS = [300, 900, 1800, 3600];

function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A round number not below `most`. */
function ceiling(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= most * 0.999);
}

/**
 * A plot in a figure. `series` are `{ name, values, kind: "area" | "line" | "bars", style }` over the same times, `show`
 * writes a value, `axis` one at the axis. Called again, it draws the new numbers in the place of the old; `basis` says of how
 * many calls the values are, of a time or of the whole hour.
 */
export function plot(figure, what, show, axis = show) {
  const title = el("span", { class: "what" }, what);
  const keys = el("span", { class: "keys" });
  const read = el("span", { class: "read" });
  const drawing = shape("svg", { class: "plot", role: "img", tabindex: "0" });
  figure.append(el("figcaption", {}, title, keys, read), drawing);
  let drawn = null;
  let chosen = null;
  let width = 420;

  const x = (index) => {
    const { ended, now, window } = drawn;
    return LEFT + (width - LEFT - RIGHT) * Math.min(1, Math.max(0, 1 - (now - ended[index]) / window));
  };
  const values = (index) => drawn.series.map((one) => `${drawn.series.length > 1 ? `${one.name} ` : ""}${show(one.values[index])}`);
  const isOne = () => drawn.series.length === 1;

  function tell() {
    drawing.querySelector(".cursor")?.remove();
    const last = drawn.ended.length - 1;
    const index = chosen ?? last;
    if (chosen !== null) {
      drawing.append(shape("line", { class: "cursor", x1: x(index), x2: x(index), y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    const words = values(index).join(", ");
    const time = clock(drawn.ended[index]);
    // Of several lines the values stand beside their keys.
    const several = [chosen === null ? "" : time, drawn.basis?.(chosen) ?? ""].filter(Boolean).join(", ");
    write(read, isOne() ? (chosen === null ? drawn.summary : `${time}: ${words}`) : several);
    if (!isOne()) {
      drawn.series.forEach((one, place) => write(keys.children[place].lastChild, `${one.name} ${show(chosen === null ? one.hour : one.values[index])}`));
    }
    drawing.setAttribute("aria-label", `${what} of the last hour. ${time}: ${words}. ${drawn.summary}`);
  }
  function choose(index) {
    if (!drawn) return;
    chosen = index === null ? null : Math.min(drawn.ended.length - 1, Math.max(0, index));
    tell();
  }
  drawing.addEventListener("pointermove", (event) => {
    if (!drawn) return;
    const box = drawing.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * width;
    let nearest = 0;
    drawn.ended.forEach((_, index) => {
      if (Math.abs(x(index) - wanted) < Math.abs(x(nearest) - wanted)) nearest = index;
    });
    choose(nearest);
  });
  drawing.addEventListener("pointerleave", () => choose(null));
  drawing.addEventListener("blur", () => choose(null));
  drawing.addEventListener("keydown", (event) => {
    if (!drawn) return;
    const last = drawn.ended.length - 1;
    const to = { ArrowLeft: (chosen ?? last + 1) - 1, ArrowRight: (chosen ?? last) + 1, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  });

  function draw(series, ended, summary, basis) {
    width = Math.max(200, drawing.clientWidth || width);
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const now = ended.at(-1);
    const window = WINDOWS.find((length) => length >= now - ended[0]) ?? WINDOWS.at(-1);
    drawn = { series, ended, now, window, summary, basis };
    const most = ceiling(Math.max(0, ...series.flatMap((one) => one.values.filter((value) => value !== null))));
    const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value / most);
    const parts = [];
    for (const value of [0, most / 2, most]) {
      parts.push(shape("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }));
      parts.push(shape("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, axis(value)));
    }
    for (const third of [0, 1, 2, 3]) {
      const place = LEFT + ((width - LEFT - RIGHT) * third) / 3;
      const anchor = third === 0 ? "start" : third === 3 ? "end" : "middle";
      parts.push(shape("text", { x: place, y: HEIGHT - 4, "text-anchor": anchor }, clock(now - window * (1 - third / 3), window < 900)));
    }
    for (const one of series) {
      const bar = Math.max(1.2, (((width - LEFT) * 15) / window) * 0.85);
      if (one.kind === "bars") {
        const bars = one.values.map((value, index) => value > 0
          ? `M${(x(index) - bar).toFixed(1)},${y(0)}V${y(value).toFixed(1)}h${bar.toFixed(1)}V${y(0)}z` : "");
        parts.push(shape("path", { class: "bars", d: bars.join("") }));
        continue;
      }
      // Where there is no value, there is no line; a value alone is a dot.
      let path = "";
      const has = (index) => (one.values[index] ?? null) !== null;
      one.values.forEach((value, index) => {
        if (value === null) return;
        const place = [x(index).toFixed(1), y(value).toFixed(1)];
        if (has(index - 1) || has(index + 1)) path += `${has(index - 1) ? "L" : "M"}${place}`;
        else parts.push(shape("circle", { class: `dot ${one.style}`, cx: place[0], cy: place[1], r: DOT }));
      });
      if (one.kind === "area" && one.values.length > 1) {
        const top = one.values.map((value, index) => `L${x(index).toFixed(1)},${y(value ?? 0).toFixed(1)}`).join("");
        parts.push(shape("path", { class: "area", d: `M${x(0).toFixed(1)},${y(0)}${top}L${x(one.values.length - 1).toFixed(1)},${y(0)}z` }));
      }
      parts.push(shape("path", { class: `line ${one.style}`, d: path, "stroke-linecap": "round" }));
    }
    drawing.replaceChildren(...parts);
    if (series.length > 1 && keys.childElementCount !== series.length) {
      keys.replaceChildren(...series.map((one) => {
        const mark = shape("svg", { viewBox: "0 0 12 3", "aria-hidden": "true" });
        mark.append(shape("path", { class: `line ${one.style}`, d: "M0,1.5H12" }));
        return el("span", { class: "key" }, mark, el("span", {}, one.name));
      }));
    }
    if (chosen !== null && chosen >= ended.length) chosen = null;
    tell();
  }
  new ResizeObserver(() => {
    if (drawn && drawing.clientWidth && Math.abs(drawing.clientWidth - width) > 1) draw(drawn.series, drawn.ended, drawn.summary, drawn.basis);
  }).observe(drawing);
  return draw;
}

/** A small picture of calls, with errors in their own colour. */
export function spark() {
  const [width, height] = [110, 20];
  const calls = shape("path", { class: "line s1" });
  const errors = shape("path", { class: "bars" });
  const element = shape("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  element.append(errors, calls);
  return {
    element,
    update(values, wrong) {
      const length = 41;
      const most = Math.max(1, ...values);
      const x = (index) => width - ((values.length - 1 - index) * width) / (length - 1);
      const y = (value) => height - 1 - (height - 3) * (value / most);
      const line = values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)},${y(value).toFixed(1)}`);
      calls.setAttribute("d", line.join(""));
      const bars = wrong.map((value, index) => value > 0 ? `M${(x(index) - 1).toFixed(1)},${height}V${Math.min(height - 3, y(value)).toFixed(1)}h2V${height}z` : "");
      errors.setAttribute("d", bars.join(""));
    },
  };
}
