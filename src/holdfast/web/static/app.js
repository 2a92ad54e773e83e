// Which page is open; the one stream of changes; the keys.

import { follow, get, setToken, takeToken, token } from "./api.js";
import { h, show } from "./dom.js";
import * as list from "./list.js";
import { open as openRun } from "./run.js";
import { openQueues, openUsage } from "./tables.js";

const WRONG_TOKEN = "That is not the token of this server. Open the URL that it printed, or paste its token.";
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const connection = /** @type {HTMLElement} */ (document.getElementById("connection"));
let health = { read_only: true, may_start: false };
/** @type {() => void} */
let close = () => {};
/** @type {((kind: string, data: any) => void) | null} */
let takes = null;
let isOpen = true; // no more once the server does not know our token

/** @param {string} why */
function askForToken(why) {
  const field = h("input", { id: "token", type: "password", size: "50", autocomplete: "off" });
  show(main, h("h1", {}, "Holdfast"), h("p", {}, why),
    h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); setToken(field.value); location.reload(); } },
      h("label", { for: "token" }, "Token "), field, " ", h("button", {}, "Open")));
}

/** @param {string} text of an address, which anybody may have typed */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  close();
  takes = null;
  const [, page, id] = location.hash.split("/");
  if (page === "run" && id) {
    const run = openRun(main, decoded(id), health);
    close = run.close;
    takes = run.take;
  } else if (page === "queues") close = openQueues(main);
  else if (page === "usage") close = openUsage(main);
  else close = list.open(main);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === (page ? `#/${page}` : "#/")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.key === "/") {
    const field = /** @type {HTMLElement | null} */ (document.querySelector("input[type=search]"));
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key === "j" || event.key === "k") {
    const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("table.runs tbody a")]);
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + (event.key === "j" ? 1 : -1)))]?.focus();
  }
});

/** @param {string} text @param {boolean} isLost */
function tell(text, isLost) {
  show(connection, text);
  connection.classList.toggle("lost", isLost);
}

async function start() {
  if (!token()) {
    askForToken("Open the URL that `holdfast serve` printed, or paste its token.");
    return;
  }
  try {
    health = await get("health");
  } catch (error) {
    if (error.status === 401) { askForToken(WRONG_TOKEN); return; }
    tell(`Not connected: ${error.message}`, true);
    setTimeout(start, 2000);
    return;
  }
  addEventListener("hashchange", () => { if (isOpen && (location.hash.startsWith("#/") || !location.hash)) { route(); main.focus(); } });
  route();
  follow(() => "events", {
    open: () => tell(health.read_only ? "live, read-only" : "live", false),
    lost: (why) => tell(`Connection lost: ${why}. What is shown is old; trying again.`, true),
    refused: (error) => {
      tell(`Not connected: ${error.message}. What is shown is old; load the page again.`, true);
      if (error.status !== 401) return;
      isOpen = false;
      close();
      takes = null;
      askForToken(WRONG_TOKEN);
    },
    message: (kind, data) => {
      if (kind !== "fact") list.take(kind, data);
      if (kind === "snapshot" && data.lost) tell(`live; ${data.lost} messages were missed`, false);
      takes?.(kind, data);
    },
  }, new AbortController().signal);
}

takeToken();
addEventListener("hashchange", () => { if (takeToken()) location.reload(); }); // opened in this tab again
start();
