// A run's output as text nodes and classes of ours. Of control sequences only colours are followed;
// all others are left out.

import { h, plain } from "./dom.js";

// eslint-disable-next-line no-control-regex
const SEQUENCE = /\x1b(?:\[([0-9;:<=>?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])/g;

export class Ansi {
  constructor() {
    this.reset();
  }

  reset() {
    this.front = "";
    this.back = "";
    this.marks = new Set();
  }

  /** @param {string} text one line, or several @returns {Node[]} */
  nodes(text) {
    const made = [];
    let at = 0;
    for (const found of text.matchAll(SEQUENCE)) {
      if (found.index > at) made.push(this.span(text.slice(at, found.index)));
      at = found.index + found[0].length;
      if (found[2] === "m") this.set(found[1]);
    }
    if (at < text.length) made.push(this.span(text.slice(at)));
    return made;
  }

  /** @param {string} text */
  span(text) {
    const look = [this.front && `f-${this.front}`, this.back && `b-${this.back}`, ...this.marks].filter(Boolean).join(" ");
    return look ? h("span", { class: look }, text) : document.createTextNode(plain(text));
  }

  /** @param {string} parameters */
  set(parameters) {
    const codes = parameters.split(/[;:]/).map(Number);
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at] || 0;
      if (code === 0) this.reset();
      else if (code === 1) this.marks.add("bold");
      else if (code === 3) this.marks.add("italics");
      else if (code === 4) this.marks.add("underscore");
      else if (code === 7) this.marks.add("inverse");
      else if (code === 22) this.marks.delete("bold");
      else if (code === 23) this.marks.delete("italics");
      else if (code === 24) this.marks.delete("underscore");
      else if (code === 27) this.marks.delete("inverse");
      else if (code >= 30 && code <= 37) this.front = `c${code - 30}`;
      else if (code >= 90 && code <= 97) this.front = `c${code - 82}`;
      else if (code === 39) this.front = "";
      else if (code >= 40 && code <= 47) this.back = `c${code - 40}`;
      else if (code >= 100 && code <= 107) this.back = `c${code - 92}`;
      else if (code === 49) this.back = "";
      else if (code === 38 || code === 48) {
        const colour = codes[at + 1] === 5 ? indexed(codes[at + 2]) : nearest(codes.slice(at + 2, at + 5));
        if (code === 38) this.front = colour;
        else this.back = colour;
        at += codes[at + 1] === 5 ? 2 : 4;
      }
    }
  }
}

/** @param {number} index */
function indexed(index) {
  if (!(index >= 0 && index < 256)) return "";
  if (index < 16) return `c${index}`;
  if (index >= 232) return nearest(Array(3).fill(8 + (index - 232) * 10));
  const cube = index - 16;
  return nearest([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((one) => one * 51));
}

/** @param {number[]} rgb */
function nearest(rgb) {
  const most = Math.max(...rgb, 0);
  const bits = rgb.reduce((sum, one, place) => sum + (one > Math.max(most / 2, 63) ? 1 << place : 0), 0);
  return `c${most > 191 ? bits + 8 : bits}`;
}
