// A run's output as it comes. The page keeps its end; what it did not show is counted and said.

import { follow, get, text } from "./api.js";
import { Ansi } from "./ansi.js";
import { h, show } from "./dom.js";
import { size } from "./words.js";

const KEPT = 400_000; // characters in the page
const FRAME = 120_000; // characters drawn at once
const TAIL = 500; // lines at the start
const PIECE = 65_536;

/** @param {any} run @param {AbortSignal} signal @returns {HTMLElement} */
export function logOf(run, signal) {
  const state = { isFollowing: true, isPretty: false, isStderr: false, skipped: 0, hidden: 0, at: 0 };
  let ansi = new Ansi();
  let decoder = new TextDecoder();
  let pending = "";
  let unfinished = "";
  let isDue = false;
  let length = 0;
  /** @type {AbortController | null} */
  let stream = null;

  const output = h("pre", { id: "output", tabindex: "0", role: "region", "aria-label": "Output" });
  let lastLine = h("span");
  const status = h("p", { id: "log-status", role: "status" });
  const hits = h("ol", { id: "hits" });
  const search = h("input", { type: "search", id: "search", maxlength: "200", autocomplete: "off" });
  const form = h("form", { role: "search", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); find(); } },
    h("label", { for: "search" }, "Search the output "), search, " ", h("button", {}, "Search"));
  const bottom = h("button", { type: "button", id: "to-end", hidden: true, onclick: () => begin() }, "Follow the end");
  const pretty = run.agent ? h("button", {
    type: "button", id: "pretty", "aria-pressed": "false",
    onclick: () => { state.isPretty = !state.isPretty; pretty.setAttribute("aria-pressed", String(state.isPretty)); begin(); },
  }, "Pretty") : null;

  const stderr = run.wanted?.split_stderr ? h("button", {
    type: "button", id: "stderr", "aria-pressed": "false",
    onclick: () => { state.isStderr = !state.isStderr; stderr.setAttribute("aria-pressed", String(state.isStderr)); begin(); },
  }, "Stderr") : null;

  /** @param {string} path */
  const address = (path) => `runs/${encodeURIComponent(run.id)}/output?${path}${state.isStderr ? "&stderr=1" : ""}`;

  function clear() {
    pending = unfinished = "";
    length = 0;
    ansi = new Ansi();
    decoder = new TextDecoder();
    lastLine = h("span");
    output.replaceChildren(lastLine);
  }

  function begin() {
    stream?.abort();
    stream = new AbortController();
    const own = stream;
    signal.addEventListener("abort", () => own.abort());
    clear();
    Object.assign(state, { skipped: 0, hidden: 0, at: -1 });
    bottom.hidden = true;
    hits.replaceChildren();
    const from = () => `${state.at < 0 ? `tail=${TAIL}` : `since_byte=${state.at}`}&follow=1${state.isPretty && !state.isStderr ? "&pretty=1" : ""}`;
    follow(() => address(from()), { message, lost: (why) => tell(`Connection lost: ${why}. Trying again.`), refused: (error) => tell(`Not followed: ${error.message}.`), open: () => tell("") }, own.signal);
  }

  /** @param {string} kind @param {any} data */
  function message(kind, data) {
    if (kind === "begin" && state.at < 0) state.at = data.at_byte;
    if (kind === "skipped") { state.skipped += data.skipped_bytes; state.at = data.at_byte + data.skipped_bytes; pending += "\n"; }
    if (kind === "notice") { tell(data.text); return; }
    if (kind === "end") { state.isFollowing = false; tell(""); }
    if (kind !== "chunk") { due(); return; }
    if (data.was_truncated) clear();
    state.skipped += data.skipped_bytes;
    const bytes = data.base64 === undefined ? null : Uint8Array.from(atob(data.base64), (one) => one.charCodeAt(0));
    const piece = bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode() + data.text;
    state.at = data.at_byte + data.length;
    pending += piece;
    due();
  }

  function due() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => { isDue = false; draw(); });
  }

  function draw() {
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
    if (pending.length > FRAME) {
      const cut = pending.indexOf("\n", pending.length - FRAME) + 1 || pending.length - FRAME;
      state.hidden += cut + unfinished.length;
      pending = pending.slice(cut);
      unfinished = "";
      ansi.reset();
    }
    const whole = (unfinished + pending).replace(/\r+\n/g, "\n");
    pending = "";
    const end = whole.lastIndexOf("\n") + 1;
    unfinished = whole.slice(end).slice(-20_000);
    if (end) {
      const lines = whole.slice(0, end).split("\n").map((line) => line.slice(line.lastIndexOf("\r") + 1)).join("\n");
      output.insertBefore(h("span", {}, ...ansi.nodes(lines)), lastLine);
      length += lines.length;
    }
    lastLine.replaceChildren(...new Ansi().nodes(unfinished.slice(unfinished.lastIndexOf("\r") + 1)));
    while (length > KEPT && output.firstChild !== lastLine) {
      length -= output.firstChild.textContent.length;
      output.firstChild.remove();
    }
    if (isAtEnd) output.scrollTop = output.scrollHeight;
    tell();
  }

  let trouble = "";
  /** @param {string} [why] */
  function tell(why) {
    if (why !== undefined) trouble = why;
    const skipped = state.skipped ? `${size(state.skipped)} were skipped: the run writes faster than this page reads. ` : "";
    const hidden = state.hidden ? `${size(state.hidden)} came too fast to be drawn. ` : "";
    const told = `${trouble} ${skipped}${hidden}${state.isFollowing ? "" : "The run is over; this is its end."}`.trim();
    if (status.textContent !== told) show(status, told);
    status.dataset.skipped = String(state.skipped);
  }

  async function find() {
    const asked = search.value;
    if (!asked) return;
    try {
      const found = await get(address(`find=${encodeURIComponent(asked)}`));
      hits.replaceChildren(
        h("li", { class: "count" }, `${found.count} lines${found.count > found.hits.length ? `, the last ${found.hits.length} of them:` : ""}`),
        ...found.hits.slice(-100).map((/** @type {any} */ hit) => h("li", {},
          h("button", { type: "button", class: "link", onclick: () => goTo(hit.at_byte) }, `at byte ${hit.at_byte}`), " ", h("code", {}, hit.text))));
    } catch (error) {
      tell(String(error.message));
    }
  }

  /** @param {number} byte */
  async function goTo(byte) {
    stream?.abort();
    clear();
    let piece = "";
    try {
      piece = await text(address(`since_byte=${byte}&limit=${PIECE}`));
    } catch (error) {
      tell(String(error.message));
      return;
    }
    output.insertBefore(h("span", {}, ...ansi.nodes(piece.replace(/\r+\n/g, "\n"))), lastLine);
    output.scrollTop = 0;
    bottom.hidden = false;
    tell(`Shown from byte ${byte} on.`);
    output.focus();
  }

  begin();
  return h("section", { "aria-labelledby": "log-title" }, h("h2", { id: "log-title" }, "Output"), form, pretty, stderr, bottom, status, hits, output);
}
