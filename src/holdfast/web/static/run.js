// One run: evidence, what can be done, charts, processes, output, and its terminal's screen.

import { get, post, remove } from "./api.js";
import { charts } from "./chart.js";
import { h, plain, show } from "./dom.js";
import { logOf } from "./log.js";

const CHART_MS = 5000;
const SCREEN_MS = 1000;

/** @param {HTMLElement} main @param {string} id @param {any} health */
export function open(main, id, health) {
  const over = new AbortController();
  const path = `runs/${encodeURIComponent(id)}`;
  const shows = health.read_only ? "this server only shows" : "";
  const starts = shows || (health.may_start ? "" : "this server starts nothing (--allow-start)");
  const parts = {
    title: h("h1", { id: "title" }, id), said: h("p", { id: "said", role: "status" }), asked: h("div", { id: "asked" }),
    buttons: h("p", { id: "buttons", role: "group", "aria-label": "Actions" }), facts: h("dl", { id: "facts" }),
    result: h("section", { hidden: true }), charts: h("div", { id: "charts" }), tree: h("pre", { id: "tree", tabindex: "0", role: "region", "aria-label": "Processes" }),
    screen: h("section", { hidden: true }), log: h("div"),
  };
  show(main, h("p", {}, h("a", { href: "#/" }, "All runs")), parts.title, parts.said, parts.asked, parts.buttons, parts.facts, parts.result,
    h("h2", {}, "Over time"), parts.charts, h("h2", {}, "Processes"), parts.tree, parts.screen, parts.log);

  /** @type {any} */
  let run = null;
  let timer = 0;
  let isReading = false;
  let isDue = false;

  async function look() {
    if (isReading) { isDue = true; return; }
    isReading = true;
    isDue = false;
    try {
      const found = await get(path);
      if (over.signal.aborted) return;
      const isFirst = run === null;
      run = found;
      draw();
      if (isFirst) { show(parts.log, logOf(run, over.signal)); if (run.pty) screen(); }
    } catch (error) {
      if (over.signal.aborted) return;
      if (error.status === 404) gone(error.message);
      else say(error.message, error.hint);
    } finally {
      isReading = false;
      if (isDue && !over.signal.aborted) soon();
    }
  }

  /** @param {string} why */
  function gone(why) {
    over.abort();
    clearInterval(rereading);
    parts.asked.replaceChildren();
    parts.buttons.replaceChildren();
    if (run === null) { say(why); return; }
    show(parts.title, `${run.name ?? ""} (${run.id})  removed`);
    document.title = `${run.name ?? run.id} removed - Holdfast`;
    say("This run is removed. What is below is as it was seen last.");
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(look, 250);
  }

  function draw() {
    show(parts.title, run.shown.headline);
    document.title = `${run.name ?? run.id} ${run.state} - Holdfast`;
    drawFacts();
    const tree = JSON.stringify(run.shown.tree);
    if (parts.tree.dataset.key !== tree) show(parts.tree, ...run.shown.tree.flatMap(([head, verdict, tail]) => [h("span", {}, head), h("span", { class: `verdict ${verdict}` }, verdict), h("span", {}, ` ${tail}`), document.createTextNode("\n")]));
    parts.tree.dataset.key = tree;
    drawQuestion();
    drawButtons();
    parts.result.hidden = run.result === null;
    if (run.result) show(parts.result, h("h2", {}, "Result"), h("pre", { id: "result", tabindex: "0" }, ...String(run.result.text ?? "").split(/(\n)/).map((one) => (one === "\n" ? document.createTextNode("\n") : one))));
  }

  /** Only what changed: what somebody has selected stays so. */
  function drawFacts() {
    const lines = run.shown.lines;
    const labels = JSON.stringify(lines.map(([label]) => label));
    if (parts.facts.dataset.labels !== labels) {
      parts.facts.dataset.labels = labels;
      show(parts.facts, ...lines.flatMap(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]));
      return;
    }
    const shown = parts.facts.querySelectorAll("dd");
    lines.forEach(([, text], place) => { if (shown[place].textContent !== plain(text)) show(shown[place], text); });
  }

  /** @param {string} text @param {string} [hint] */
  function say(text, hint) {
    show(parts.said, hint ? `${text} (${hint})` : text);
  }

  /** @param {string} verb @param {() => Promise<any>} what */
  async function act(verb, what) {
    say(`${verb} ...`);
    try {
      const done = await what();
      say(done.stop?.said ?? done.answered?.how ?? `${verb}: done`, done.stop?.hint);
      return done;
    } catch (error) {
      say(`${verb}: ${error.message}`, error.hint);
      return null;
    } finally {
      soon();
    }
  }

  function drawQuestion() {
    const questions = run.attention ? [run.attention, ...(run.attention.others ?? [])] : [];
    const key = JSON.stringify(questions);
    if (parts.asked.dataset.key === key) return;
    parts.asked.dataset.key = key;
    show(parts.asked, ...questions.map((one) => h("section", { class: "question", "aria-label": "It needs you" },
      h("p", {}, h("strong", {}, `Needs you: ${one.kind}`)), h("pre", { tabindex: "0" }, one.text ?? ""),
      one.kind === "permission" && !health.read_only && !run.shown.refusals.approve
        ? h("p", {}, h("button", { type: "button", onclick: () => act("approve", () => post(`${path}/approve`, { id: one.id })) }, "Approve"), " ",
          h("button", { type: "button", onclick: () => act("deny", () => post(`${path}/deny`, { id: one.id })) }, "Deny"))
        : null)));
  }

  /** @param {string} name @param {string} why empty: it can be done @param {() => void} press */
  function button(name, why, press) {
    return h("button", { type: "button", "data-verb": name.toLowerCase(), "aria-disabled": why ? "true" : "false", title: why,
      onclick: () => (why ? say(`${name}: ${why}`) : press()) }, name);
  }

  function drawButtons() {
    const refused = run.shown.refusals;
    const made = [
      button("Stop", shows || refused.stop, () => confirm("Stop its whole tree?", () => act("stop", () => post(`${path}/stop`)))),
      run.paused
        ? button("Unpause", shows || refused.pause, () => act("unpause", () => post(`${path}/unpause`)))
        : button("Pause", shows || refused.pause, () => act("pause", () => post(`${path}/pause`))),
      button("Resume", starts || refused.resume, () => ask("Go on with what prompt?", (prompt) => newRun("resume", () => post(`${path}/resume`, prompt ? { prompt } : {})))),
      button("Rerun", starts || refused.rerun, () => newRun("rerun", () => post(`${path}/rerun`))),
      button("Recover", shows || refused.recover, () => act("recover", () => post(`${path}/recover`))),
      button("Remove", shows || refused.remove, () => confirm("Remove it, its output and its records?", async () => {
        if (await act("remove", () => remove(path))) location.hash = "#/";
      })),
    ];
    if (parts.buttons.querySelector(".confirm")) return;
    const key = made.map((one) => one.dataset.verb + one.title).join();
    if (parts.buttons.dataset.key === key && parts.buttons.childElementCount) return;
    parts.buttons.dataset.key = key;
    const active = /** @type {HTMLElement} */ (document.activeElement);
    const focused = parts.buttons.contains(active) ? active.dataset.verb : "";
    show(parts.buttons, ...made.flatMap((one) => [one, " "]));
    if (focused) parts.buttons.querySelector(`[data-verb="${focused}"]`)?.focus();
  }

  /** @param {string} verb @param {() => Promise<any>} what */
  async function newRun(verb, what) {
    const done = await act(verb, what);
    if (done) location.hash = `#/run/${encodeURIComponent(done.id)}`;
  }

  /** @param {string} question @param {() => void} yes */
  function confirm(question, yes) {
    const close = () => { show(parts.buttons); drawButtons(); };
    const sure = h("button", { type: "button", class: "danger", onclick: () => { close(); yes(); } }, "Yes");
    show(parts.buttons, h("span", { class: "confirm", role: "alert" }, question), " ", sure, " ", h("button", { type: "button", onclick: close }, "No"));
    sure.focus();
  }

  /** @param {string} question @param {(answer: string) => void} done */
  function ask(question, done) {
    const close = () => { show(parts.buttons); drawButtons(); };
    const field = h("input", { id: "prompt", size: "40" });
    show(parts.buttons, h("form", { class: "confirm", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); const answer = field.value; close(); done(answer); } },
      h("label", { for: "prompt" }, question, " "), field, " ", h("button", {}, "Go on"), " ", h("button", { type: "button", onclick: close }, "Cancel")));
    field.focus();
  }

  async function drawCharts() {
    if (document.hidden || over.signal.aborted || (run && run.state === "ended" && parts.charts.childElementCount)) return;
    try {
      const made = charts(await get(`${path}/samples`));
      show(parts.charts, ...(made.length ? made : ["nothing was measured yet"]));
    } catch (error) {
      if (!parts.charts.childElementCount) show(parts.charts, error.message);
    }
  }

  function screen() {
    const picture = h("pre", { id: "screen", tabindex: "0", role: "region", "aria-label": "Screen of its terminal" });
    const line = h("input", { id: "line", autocomplete: "off", size: "40" });
    const form = h("form", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const text = `${line.value}\n`;
      line.value = "";
      act("send", () => post(`${path}/send`, { text }));
    } }, h("label", { for: "line" }, "Send a line "), line, " ", h("button", {}, "Send"));
    const unsent = starts || run.shown.refusals.send;
    parts.screen.hidden = false;
    show(parts.screen, h("h2", {}, "Screen"), picture, unsent ? h("p", {}, h("small", {}, `No lines are sent: ${unsent}.`)) : form);
    let bytes = -1;
    const read = async () => {
      if (document.hidden || over.signal.aborted || run.log_bytes === undefined) return;
      try {
        const now = await get(`${path}/screen`);
        if (now.at_byte === bytes) return;
        bytes = now.at_byte;
        show(picture, ...now.lines.flatMap((/** @type {any[]} */ spans) => [...spans.map(([text, look]) => h("span", { class: look }, text)), document.createTextNode("\n")]));
      } catch (error) {
        show(picture, error.message);
      }
    };
    read();
    const every = setInterval(read, SCREEN_MS);
    over.signal.addEventListener("abort", () => clearInterval(every));
  }

  look();
  drawCharts();
  const every = setInterval(drawCharts, CHART_MS);
  // Ages and times pass although nothing happens: they are in the server's words.
  const rereading = setInterval(() => { if (!document.hidden && run && run.state !== "ended") look(); }, CHART_MS);
  return {
    close() { over.abort(); clearInterval(every); clearInterval(rereading); clearTimeout(timer); document.title = "Holdfast"; },
    /** @param {string} kind @param {any} data */
    take(kind, data) {
      const known = run?.id ?? id; // it may have been opened by its name
      const isAbout = kind === "snapshot" || (kind === "fact" ? data.run === known : data.rows.some((/** @type {any} */ row) => row.id === known) || data.gone.includes(known));
      if (isAbout) soon();
    },
  };
}
