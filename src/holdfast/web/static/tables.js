// Queues with the reason of each wait, and what was used by day and by agent.

import { get } from "./api.js";
import { h, show } from "./dom.js";
import { age, count, money } from "./words.js";

/** @param {string} caption @param {string[]} head @param {any[][]} rows */
function table(caption, head, rows) {
  return h("div", { class: "wide" }, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...head.map((one) => h("th", { scope: "col" }, one)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, place) => h(place ? "td" : "th", { scope: place ? null : "row" }, cell)))))));
}

/** @param {any} run */
function link(run) {
  return h("a", { href: `#/run/${encodeURIComponent(run.id)}` }, run.name ?? run.id);
}

/** @param {HTMLElement} main */
export function openQueues(main) {
  const body = h("div");
  show(main, h("h1", {}, "Queues"), body);
  const read = async () => {
    try {
      const { queues } = await get("queues");
      show(body, ...(queues.length ? queues.map((/** @type {any} */ queue) => table(
        `${queue.name}: ${queue.active.length} of ${queue.limit ?? "?"} active${queue.paused ? ", paused" : ""}${queue.error ? `, ${queue.error}` : ""}`,
        ["Run", "Place", "Waits for"],
        [...queue.active.map((/** @type {any} */ one) => [link(one), "active", one.waits_for?.detail ?? ""]),
          ...queue.unknown.map((/** @type {any} */ one) => [link(one), "unknown", ""]),
          ...queue.waiting.map((/** @type {any} */ one) => [link(one), String(one.position ?? ""), one.waits_for?.detail ?? "about to start"])])) : ["There are no queues."]));
    } catch (error) {
      show(body, error.message);
    }
  };
  read();
  const every = setInterval(read, 2000);
  return () => clearInterval(every);
}

/** @param {HTMLElement} main */
export function openUsage(main) {
  const body = h("div");
  show(main, h("h1", {}, "Usage"), body);
  const head = ["", "Runs", "Tokens in", "Tokens out", "Cost", "CPU time"];
  /** @param {string} name @param {any} one */
  const row = (name, one) => [name, String(one.runs), count(one.tokens_in), count(one.tokens_out), money(one.cost_usd), age(one.cpu_seconds)];
  (async () => {
    try {
      const [days, agents] = await Promise.all([get("usage?by=day"), get("usage?by=agent")]);
      const rows = (/** @type {any} */ found, /** @type {string} */ by) => [...Object.entries(found.by?.[by] ?? {}).map(([name, one]) => row(name, one)), row("total", found.total)];
      show(body, table("By day", head, rows(days, "day").reverse()), table("By agent", head, rows(agents, "agent")));
    } catch (error) {
      show(body, error.message);
    }
  })();
  return () => {};
}
