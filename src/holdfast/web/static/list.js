// The list of runs, by attention. Only rows that changed are drawn again.

import { h, plain, show } from "./dom.js";
import { age, count, money, percent, size } from "./words.js";

const COLUMNS = ["Name", "Node", "State", "Age", "CPU", "Mem", "Output", "Tokens", "Cost", "Note"];

/** @type {Map<string, any>} */
const rows = new Map();
/** @type {Map<string, HTMLElement>} */
const drawn = new Map();
let standing = { is_whole: false, trouble: null, trouble_elsewhere: null };
/** @type {HTMLElement | null} */
let table = null;
let isDue = false;
/** @type {HTMLElement | null} */
let body = null;
/** @type {HTMLElement | null} */
let summary = null;
let filter = "";
let ahead = 0; // seconds by which the server's clock differs from ours

/** @param {string} kind @param {any} data */
export function take(kind, data) {
  if (kind === "snapshot") {
    ahead = data.now - Date.now() / 1000;
    rows.clear();
    for (const row of data.rows) rows.set(row.id, row);
  } else {
    for (const row of data.rows) rows.set(row.id, row);
    for (const id of data.gone) rows.delete(id);
  }
  for (const row of data.rows) drawn.get(row.id)?.setAttribute("data-old", "1");
  standing = data;
  draw();
}

/** @param {HTMLElement} main */
export function open(main) {
  drawn.clear();
  const find = h("input", {
    type: "search", id: "filter", value: filter, autocomplete: "off", spellcheck: "false",
    placeholder: "text, state:running, node:n1, tag:K=V, !not",
    oninput: (/** @type {any} */ event) => { filter = event.target.value; draw(); },
  });
  body = h("tbody");
  table = h("table", { class: "runs" },
    h("caption", { class: "hidden" }, "Runs, those that need you first"),
    h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col", class: name === "Node" ? "node" : null }, name)))),
    body);
  summary = h("p", { id: "summary" });
  show(
    main,
    h("h1", {}, "Runs"),
    h("p", {}, h("label", { for: "filter" }, "Filter "), find, " ", h("small", {}, "press / to filter, j and k to move")),
    h("div", { class: "wide" }, table),
    summary,
  );
  draw();
  const timer = setInterval(() => { for (const row of drawn.values()) row.setAttribute("data-old", "1"); draw(); }, 5000);
  return () => { clearInterval(timer); body = null; };
}

function draw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; if (body) drawNow(body); });
}

/** @param {HTMLElement} into */
function drawNow(into) {
  const now = Date.now() / 1000 + ahead;
  const listed = [...rows.values()].filter(fits).sort((a, b) => a.place - b.place || (b.ended ?? b.created ?? 0) - (a.ended ?? a.created ?? 0));
  const there = new Set(listed.map((row) => row.id));
  for (const [id, element] of drawn) if (!there.has(id)) { element.remove(); drawn.delete(id); }
  let before = null;
  for (const row of listed) {
    let element = drawn.get(row.id);
    if (!element) {
      element = h("tr", { "data-id": row.id });
      drawn.set(row.id, element);
      fillRow(element, row, now);
    } else if (element.hasAttribute("data-old")) {
      fillRow(element, row, now);
    }
    const next = before ? before.nextSibling : into.firstChild;
    if (next !== element) into.insertBefore(element, next);
    before = element;
  }
  table?.classList.toggle("fleet", [...rows.values()].some((row) => row.node));
  if (summary) show(summary, words(listed));
}

/** @param {any} row */
function cells(row, now = 0) {
  const link = h("a", { href: `#/run/${encodeURIComponent(row.id)}` }, row.name);
  const state = row.outcome ? `${row.state}: ${row.outcome}` : row.state;
  const quiet = row.output === null ? "" : `${age(now - row.output)} ago`;
  return [
    link, row.node, h("span", { class: `state ${row.urgency}` }, state), row.created === null ? "" : age(now - row.created),
    percent(row.cpu_percent), size(row.memory_bytes), quiet, count(row.tokens), money(row.cost_usd), row.note,
  ];
}

/** @param {HTMLElement} element @param {any} row @param {number} now */
function fillRow(element, row, now) {
  element.removeAttribute("data-old");
  const isFocused = element.contains(document.activeElement);
  const made = cells(row, now).map((cell, place) =>
    h(place ? "td" : "th", { "data-label": COLUMNS[place], class: place === 1 ? "node" : null, scope: place ? null : "row" }, cell));
  element.replaceChildren(...made);
  if (isFocused) element.querySelector("a")?.focus();
}

/** @param {any} row */
function fits(row) {
  return filter.toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
    const isNot = word.startsWith("!");
    return isNot !== holds(row, isNot ? word.slice(1) : word);
  });
}

/** @param {any} row @param {string} word */
function holds(row, word) {
  const [kind, ...more] = word.split(":");
  const value = more.join(":");
  if (kind === "state" && value) return row.state.startsWith(value) || (row.outcome ?? "").startsWith(value);
  if (kind === "agent" && value) return (row.agent ?? "").toLowerCase().startsWith(value);
  if (kind === "node" && value) return row.node.toLowerCase().startsWith(value);
  if (kind === "tag" && value) return Object.entries(row.tags).some(([key, one]) => `${key}=${one}`.toLowerCase().startsWith(value));
  return `${row.name} ${row.note} ${row.id}`.toLowerCase().includes(word);
}

/** @param {any[]} listed */
function words(listed) {
  if (standing.trouble) return plain(`What is shown may be old: ${/** @type {any} */ (standing.trouble).message}`);
  if (standing.trouble_elsewhere) return plain(`What is shown of other machines may be old: ${/** @type {any} */ (standing.trouble_elsewhere).message}`);
  if (!standing.is_whole && !rows.size) return "reading...";
  const counts = new Map();
  for (const row of listed) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  return [...counts].map(([state, many]) => `${many} ${state}`).join(", ") || "no runs in 24h";
}
