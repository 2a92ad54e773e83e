// Elements from plain values. Text is always a text node: nothing that a run wrote becomes markup.

const SVG = "http://www.w3.org/2000/svg";
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Text without anything that moves, hides or reverses what is shown.
 * @param {unknown} value
 * @returns {string}
 */
export function plain(value) {
  return String(value ?? "").replace(CONTROLS, (one) => {
    const code = one.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/**
 * @param {string} name
 * @param {Record<string, any>} [attributes] on* are listeners; true and false set and leave out
 * @param {...(Node | string | number | null | undefined)} children
 * @returns {any}
 */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/**
 * @param {string} name
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | number | null | undefined)} children
 * @returns {any}
 */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/**
 * @param {Element} element
 * @param {Record<string, any>} attributes
 * @param {(Node | string | number | null | undefined)[]} children
 */
function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : plain(child));
  }
  return element;
}

/**
 * @param {Element} element
 * @param {...(Node | string | null | undefined)} children
 */
export function show(element, ...children) {
  element.replaceChildren(...children.filter((one) => one !== null && one !== undefined).map((one) => (one instanceof Node ? one : plain(one))));
}
