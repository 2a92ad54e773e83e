// The only way to the server. The token is kept for this tab alone and sent as a header: a cookie
// would be sent to every port of this machine.

const KEY = "holdfast.token";
const SILENT_MS = 25000; // the server says something every 10 s
const RETRY_MS = [300, 1000, 2000, 5000];

/** Keeps the token of an address such as `#token=...`; whether there was one. */
export function takeToken() {
  const given = new URLSearchParams(location.hash.replace(/^#/, "")).get("token");
  if (!given) return false;
  setToken(given);
  history.replaceState(null, "", `${location.pathname}#/`);
  return true;
}

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

/** @param {string} value */
export function setToken(value) {
  sessionStorage.setItem(KEY, value.trim());
}

export class Refusal extends Error {
  /** @param {number} status @param {{message?: string, hint?: string | null}} said */
  constructor(status, said) {
    super(said.message ?? `HTTP ${status}`);
    this.status = status;
    this.hint = said.hint ?? "";
  }
}

/** @param {string} path @param {RequestInit} [options] */
async function ask(path, options = {}) {
  const headers = { authorization: `Bearer ${token()}`, ...(options.headers ?? {}) };
  const answer = await fetch(`/api/v1/${path}`, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  let said = {};
  try {
    said = (await answer.json()).error ?? {};
  } catch {
    // not an answer of ours: its code is all that is known
  }
  throw new Refusal(answer.status, said);
}

/** @param {string} path @returns {Promise<any>} */
export async function get(path) {
  return (await ask(path)).json();
}

/** @param {string} path @returns {Promise<string>} */
export async function text(path) {
  return new TextDecoder().decode(await (await ask(path)).arrayBuffer());
}

/** @param {string} path @param {object} [body] @returns {Promise<any>} */
export async function post(path, body = {}) {
  const headers = { "content-type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** @param {string} path @returns {Promise<any>} */
export async function remove(path) {
  return (await ask(path, { method: "DELETE" })).json();
}

/**
 * Follows server-sent events until `signal` is aborted; comes back after a lost connection. What the
 * server refuses is not asked again: `refused` is told, and that was all.
 * @param {() => string} path asked at each connection
 * @param {{message: (kind: string, data: any) => void, open?: () => void, lost: (why: string) => void, refused: (error: Refusal) => void}} on
 * @param {AbortSignal} signal
 */
export async function follow(path, on, signal) {
  let lastId = "";
  let tries = 0;
  while (!signal.aborted) {
    const one = new AbortController();
    const stop = () => one.abort();
    signal.addEventListener("abort", stop);
    let timer = setTimeout(stop, SILENT_MS);
    try {
      const headers = lastId ? { "last-event-id": lastId } : {};
      const answer = await ask(path(), { headers, signal: one.signal });
      on.open?.();
      tries = 0;
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(stop, SILENT_MS);
        const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
        rest = parts.pop() ?? "";
        for (const part of parts) {
          const message = parse(part);
          if (message.id) lastId = message.id;
          if (message.event === "end") {
            on.message("end", message.data);
            return;
          }
          if (message.event) on.message(message.event, message.data);
        }
      }
      if (!signal.aborted) on.lost("the server ended the connection");
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && error.status !== 503) {
        on.refused(error);
        return;
      }
      on.lost(error instanceof Refusal ? error.message : "the server can't be reached");
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
    const wait = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)];
    tries += 1;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** @param {string} part */
function parse(part) {
  const message = { id: "", event: "", data: null };
  for (const line of part.split("\n")) {
    if (line.startsWith("id: ")) message.id = line.slice(4);
    else if (line.startsWith("event: ")) message.event = line.slice(7);
    else if (line.startsWith("data: ")) message.data = JSON.parse(line.slice(6));
  }
  return message;
}
