// SVG plots of the last hour, with a cursor for pointer and arrow keys.

import { el, formatTime, setText } from "./common.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 132;
const LEFT = 50;
const BOTTOM = 18;
const TOP = 8;
const RIGHT = 5;
/** Radius of an isolated data point, which has no neighbor to draw a line to. */
const DOT_RADIUS = 2.5;
// Time windows in seconds; the smallest that fits is used, so that the plot of a new process is not squeezed to the right edge.
const WINDOWS = [300, 900, 1800, 3600];

function svg(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Rounds up to a round number for the top of the axis. */
function niceCeiling(max) {
  if (!(max > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= max * 0.999);
}

/**
 * Creates a plot in a figure and returns its draw function, which replaces the data on each call. `series` are
 * `{ name, values, kind: "area" | "line" | "bars", style }` with shared timestamps. `format` formats a value, `formatAxis` an
 * axis label. `sampleSize` returns a text with the number of calls behind the values at an index, or of the hour if it is null.
 */
export function createPlot(figure, label, format, formatAxis = format) {
  const title = el("span", { class: "plot-title" }, label);
  const legend = el("span", { class: "legend" });
  const readout = el("span", { class: "readout" });
  const chart = svg("svg", { class: "plot", role: "img", tabindex: "0" });
  figure.append(el("figcaption", {}, title, legend, readout), chart);
  let data = null;
  let cursorIndex = null;
  let width = 420;

  const x = (index) => {
    const { ended, now, window } = data;
    return LEFT + (width - LEFT - RIGHT) * Math.min(1, Math.max(0, 1 - (now - ended[index]) / window));
  };
  const values = (index) =>
    data.series.map(
      (item) => `${data.series.length > 1 ? `${item.name} ` : ""}${format(item.values[index])}`,
    );
  const isSingleSeries = () => data.series.length === 1;

  function updateReadout() {
    chart.querySelector(".cursor")?.remove();
    const last = data.ended.length - 1;
    const index = cursorIndex ?? last;
    if (cursorIndex !== null) {
      chart.append(
        svg("line", { class: "cursor", x1: x(index), x2: x(index), y1: TOP, y2: HEIGHT - BOTTOM }),
      );
    }
    const valuesText = values(index).join(", ");
    const time = formatTime(data.ended[index]);
    // With several series, the legend shows the values.
    const multiSeriesText = [cursorIndex === null ? "" : time, data.sampleSize?.(cursorIndex) ?? ""]
      .filter(Boolean)
      .join(", ");
    setText(
      readout,
      isSingleSeries() ? (cursorIndex === null ? data.summary : `${time}: ${valuesText}`) : multiSeriesText,
    );
    if (!isSingleSeries()) {
      data.series.forEach((item, position) =>
        setText(
          legend.children[position].lastChild,
          `${item.name} ${format(cursorIndex === null ? item.hour : item.values[index])}`,
        ),
      );
    }
    chart.setAttribute("aria-label", `${label} of the last hour. ${time}: ${valuesText}. ${data.summary}`);
  }
  function moveCursor(index) {
    if (!data) return;
    cursorIndex = index === null ? null : Math.min(data.ended.length - 1, Math.max(0, index));
    updateReadout();
  }
  chart.addEventListener("pointermove", (event) => {
    if (!data) return;
    const box = chart.getBoundingClientRect();
    const pointerX = ((event.clientX - box.left) / box.width) * width;
    let nearest = 0;
    data.ended.forEach((_, index) => {
      if (Math.abs(x(index) - pointerX) < Math.abs(x(nearest) - pointerX)) nearest = index;
    });
    moveCursor(nearest);
  });
  chart.addEventListener("pointerleave", () => moveCursor(null));
  chart.addEventListener("blur", () => moveCursor(null));
  chart.addEventListener("keydown", (event) => {
    if (!data) return;
    const last = data.ended.length - 1;
    const target = {
      ArrowLeft: (cursorIndex ?? last + 1) - 1,
      ArrowRight: (cursorIndex ?? last) + 1,
      Home: 0,
      End: last,
      Escape: null,
    }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    moveCursor(target);
  });

  function draw(series, ended, summary, sampleSize) {
    width = Math.max(200, chart.clientWidth || width);
    chart.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const now = ended.at(-1);
    const window = WINDOWS.find((length) => length >= now - ended[0]) ?? WINDOWS.at(-1);
    data = { series, ended, now, window, summary, sampleSize };
    const max = niceCeiling(
      Math.max(0, ...series.flatMap((item) => item.values.filter((value) => value !== null))),
    );
    const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value / max);
    const elements = [];
    for (const value of [0, max / 2, max]) {
      elements.push(svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }));
      elements.push(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, formatAxis(value)));
    }
    for (const third of [0, 1, 2, 3]) {
      const tickX = LEFT + ((width - LEFT - RIGHT) * third) / 3;
      const anchor = third === 0 ? "start" : third === 3 ? "end" : "middle";
      elements.push(
        svg(
          "text",
          { x: tickX, y: HEIGHT - 4, "text-anchor": anchor },
          formatTime(now - window * (1 - third / 3), window < 900),
        ),
      );
    }
    for (const item of series) {
      const barWidth = Math.max(1.2, (((width - LEFT) * 15) / window) * 0.85);
      if (item.kind === "bars") {
        const bars = item.values.map((value, index) =>
          value > 0
            ? `M${(x(index) - barWidth).toFixed(1)},${y(0)}` +
              `V${y(value).toFixed(1)}h${barWidth.toFixed(1)}V${y(0)}z`
            : "",
        );
        elements.push(svg("path", { class: "bars", d: bars.join("") }));
        continue;
      }
      // Missing values leave a gap; an isolated value is drawn as a dot.
      let path = "";
      const hasValue = (index) => (item.values[index] ?? null) !== null;
      item.values.forEach((value, index) => {
        if (value === null) return;
        const point = [x(index).toFixed(1), y(value).toFixed(1)];
        if (hasValue(index - 1) || hasValue(index + 1)) path += `${hasValue(index - 1) ? "L" : "M"}${point}`;
        else
          elements.push(
            svg("circle", { class: `dot ${item.style}`, cx: point[0], cy: point[1], r: DOT_RADIUS }),
          );
      });
      if (item.kind === "area" && item.values.length > 1) {
        const top = item.values
          .map((value, index) => `L${x(index).toFixed(1)},${y(value ?? 0).toFixed(1)}`)
          .join("");
        elements.push(
          svg("path", {
            class: "area",
            d: `M${x(0).toFixed(1)},${y(0)}${top}L${x(item.values.length - 1).toFixed(1)},${y(0)}z`,
          }),
        );
      }
      elements.push(svg("path", { class: `line ${item.style}`, d: path, "stroke-linecap": "round" }));
    }
    chart.replaceChildren(...elements);
    if (series.length > 1 && legend.childElementCount !== series.length) {
      legend.replaceChildren(
        ...series.map((item) => {
          const swatch = svg("svg", { viewBox: "0 0 12 3", "aria-hidden": "true" });
          swatch.append(svg("path", { class: `line ${item.style}`, d: "M0,1.5H12" }));
          return el("span", { class: "legend-item" }, swatch, el("span", {}, item.name));
        }),
      );
    }
    if (cursorIndex !== null && cursorIndex >= ended.length) cursorIndex = null;
    updateReadout();
  }
  new ResizeObserver(() => {
    if (data && chart.clientWidth && Math.abs(chart.clientWidth - width) > 1)
      draw(data.series, data.ended, data.summary, data.sampleSize);
  }).observe(chart);
  return draw;
}

/** Creates a sparkline of calls, with errors as bars. */
export function createSparkline() {
  const [width, height] = [110, 20];
  const calls = svg("path", { class: "line s1" });
  const errors = svg("path", { class: "bars" });
  const element = svg("svg", {
    class: "sparkline",
    viewBox: `0 0 ${width} ${height}`,
    "aria-hidden": "true",
  });
  element.append(errors, calls);
  return {
    element,
    update(values, errorCounts) {
      const length = 41;
      const max = Math.max(1, ...values);
      const x = (index) => width - ((values.length - 1 - index) * width) / (length - 1);
      const y = (value) => height - 1 - (height - 3) * (value / max);
      const line = values.map(
        (value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)},${y(value).toFixed(1)}`,
      );
      calls.setAttribute("d", line.join(""));
      const bars = errorCounts.map((value, index) =>
        value > 0
          ? `M${(x(index) - 1).toFixed(1)},${height}` +
            `V${Math.min(height - 3, y(value)).toFixed(1)}h2V${height}z`
          : "",
      );
      errors.setAttribute("d", bars.join(""));
    },
  };
}
