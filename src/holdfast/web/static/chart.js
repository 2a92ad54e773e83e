// Charts as SVG, from the points of `samples`: what is not known is a gap, never a zero.

import { h, svg } from "./dom.js";
import { age, percent, size } from "./words.js";

const WIDTH = 640;
const HEIGHT = 120;
const BUCKETS = 600;

/** @param {any} samples @returns {HTMLElement[]} */
export function charts(samples) {
  return samples.charts.filter((/** @type {any} */ one) => one.lines.some((/** @type {any} */ line) => line.points.length)).map((/** @type {any} */ one) => chart(one, samples));
}

/** @param {string} unit @param {number} value */
function figure(unit, value) {
  if (unit.startsWith("percent")) return percent(value);
  if (unit.startsWith("bytes")) return size(value) + (unit.includes("second") ? "/s" : "");
  return String(Math.round(value * 10) / 10);
}

/** @param {any} one @param {any} samples */
function chart(one, samples) {
  const seconds = Math.max(samples.seconds || 0, 1);
  const known = one.lines.flatMap((/** @type {any} */ line) => line.points.map((/** @type {any} */ point) => point[1])).filter((/** @type {any} */ value) => value !== null);
  const highest = Math.max(...known, one.limit ?? 0, one.unit.startsWith("percent") ? 5 : 1);
  const x = (/** @type {number} */ at) => (at / seconds) * WIDTH;
  const y = (/** @type {number} */ value) => HEIGHT - 4 - (value / highest) * (HEIGHT - 12);
  const newest = known.length ? figure(one.unit, lastOf(one.lines[0])) : "not known";
  const title = `${one.title}: now ${newest}, highest ${figure(one.unit, Math.max(...known, 0))}, over ${age(seconds)}`;
  const marks = samples.marks.map((/** @type {any} */ mark) =>
    svg("line", { class: `mark ${kindOf(mark.kind)}`, x1: x(mark.seconds), x2: x(mark.seconds), y1: 0, y2: HEIGHT },
      svg("title", {}, `${mark.label}${mark.text ? `: ${mark.text}` : ""}`)));
  const limit = one.limit ? [svg("line", { class: "limit", x1: 0, x2: WIDTH, y1: y(one.limit), y2: y(one.limit) })] : [];
  const lines = one.lines.map((/** @type {any} */ line, /** @type {number} */ place) => svg("path", { class: `curve line-${place}`, d: path(line.points, x, y, seconds) }));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, preserveAspectRatio: "none" }, ...limit, ...marks, ...lines);
  const legend = one.lines.length > 1 ? h("small", {}, one.lines.map((/** @type {any} */ line) => line.name).join(", ")) : null;
  return h("figure", { "data-chart": one.key }, h("figcaption", {}, title, " ", legend), picture);
}

/** @param {any} line */
function lastOf(line) {
  for (let at = line.points.length - 1; at >= 0; at -= 1) if (line.points[at][1] !== null) return line.points[at][1];
  return 0;
}

/** @param {string} kind */
function kindOf(kind) {
  return ["anomaly", "exit", "start", "signal", "note"].find((one) => kind.startsWith(one)) ?? "stop";
}

/**
 * Of each part of the width the lowest and the highest: no peak is lost.
 * @param {[number, number | null][]} points @param {(at: number) => number} x @param {(value: number) => number} y @param {number} seconds
 */
function path(points, x, y, seconds) {
  let drawn = "";
  let isOpen = false;
  for (const [at, value] of thin(points, seconds)) {
    if (value === null) { isOpen = false; continue; }
    drawn += `${isOpen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    isOpen = true;
  }
  return drawn || "M0 0";
}

/** @param {[number, number | null][]} points @param {number} seconds @returns {[number, number | null][]} */
function thin(points, seconds) {
  if (points.length <= 2 * BUCKETS) return points;
  /** @type {[number, number | null][]} */
  const kept = [];
  let bucket = -1;
  /** @type {[number, number | null][]} */
  let group = [];
  const close = () => {
    const known = group.filter((one) => one[1] !== null);
    if (known.length < group.length) kept.push([group[0][0], null]);
    if (known.length) {
      const low = known.reduce((a, b) => (Number(b[1]) < Number(a[1]) ? b : a));
      const high = known.reduce((a, b) => (Number(b[1]) > Number(a[1]) ? b : a));
      kept.push(...(low[0] <= high[0] ? [low, high] : [high, low]));
    }
  };
  for (const point of points) {
    const place = Math.floor((point[0] / seconds) * BUCKETS);
    if (place !== bucket && group.length) { close(); group = []; }
    bucket = place;
    group.push(point);
  }
  if (group.length) close();
  return kept;
}
