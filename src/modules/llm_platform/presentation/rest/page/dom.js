// Elements without markup in strings: what comes from outside is only ever a text node.

import { harmless, isUntranslated } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  supported: "M3.500 8.500l3 3 6-7",
  partial: "M8 2.500a5.500 5.500 0 0 1 0 11|M8 2.500a5.500 5.500 0 0 0 0 11z", // behind the bar: filled
  unsupported: "M4 4l8 8M12 4l-8 8",
  absent: "M8 3a5 5 0 1 0 0 10a5 5 0 0 0 0-10",
  unchecked: "M5.500 6a2.500 2.500 0 1 1 3.600 2.200c-.8.4-1.100.9-1.100 1.700M8 12.800v.1",
  quoted: "M4 5h3v3.500a3 3 0 0 1-3 3M9.500 5h3v3.500a3 3 0 0 1-3 3",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  close: "M4 4l8 8M12 4l-8 8",
  warning: "M8 2.500l6 11H2zM8 7v3M8 11.800v.1",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 7.500V11M8 5v.1",
  folder: "M2 12.500V4h4l1.500 2H14v6.500z",
  edit: "M3 13l.700-3L10.500 3.200l2.300 2.300L6 12.300zM9 4.700L11.300 7",
  pin: "M5.500 2.500h5M6.200 2.500v4L4.500 9h7L9.800 6.500v-4M8 9v4.500",
  bell: "M8 2.500a3.500 3.500 0 0 0-3.500 3.500v3L3 11.500h10L11.500 9V6A3.500 3.500 0 0 0 8 2.500M6.500 13.500h3",
  bin: "M3 4.500h10M6.500 4.500V3h3v1.500M4.500 4.500l.6 8.500h5.800l.6-8.500M6.800 7v3.500M9.200 7v3.500",
  keys: "M2.500 4h11a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-11a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1M4.500 6.800h.1M7 6.800h.1M9.500 6.800h.1M11.700 6.800h.1M5 9.500h6",
  system: "M8 2.500a5.500 5.500 0 0 0 0 11|M8 2.500a5.500 5.500 0 0 1 0 11z",
  light: "M8 5a3 3 0 1 0 0 6A3 3 0 0 0 8 5M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  dark: "M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z",
  clip: "M11.500 4.500v6.500a3.500 3.500 0 0 1-7 0V4a2.300 2.300 0 0 1 4.600 0v6.600a1.100 1.100 0 0 1-2.200 0V5",
  sliders: "M2 5h6.500M12.500 5H14M2 11h1.500M7.500 11H14M10.500 3.200v3.600M5.500 9.200v3.600",
  more: "M3 8h.1M8 8h.1M13 8h.1",
  chevron: "M4.500 6.500L8 10l3.500-3.500",
  out: "M9.500 3H13v3.500M13 3L7 9M11.500 9v4H3V4.500h4",
};

export const byId = (id) => document.getElementById(id);

/** An element; attributes are set as they are named, `on…` are listeners, children are nodes or text. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(inLanguage));
  return element;
}

/** A text that has no translation says that it is English. */
function inLanguage(child) {
  if (typeof child !== "string" || !isUntranslated(child)) return child;
  const english = document.createElement("span");
  english.lang = "en";
  english.append(child);
  return english;
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", class: `icon ${name}-icon`, "aria-hidden": "true" }))
    svg.setAttribute(key, value);
  const [drawn, filled] = ICONS[name].split("|");
  for (const d of [drawn, filled].filter(Boolean)) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", d);
    if (d === filled) path.setAttribute("fill", "currentcolor");
    svg.append(path);
  }
  return svg;
}

/** The address without a name or a key before its host, which would look like the host: `https://bank.example@evil.example`. */
export function withoutUser(url) {
  if (!URL.canParse(url)) return url;
  const parsed = new URL(url);
  if (!parsed.username && !parsed.password) return url;
  parsed.username = parsed.password = "";
  return parsed.href;
}

/** A link to a page of the web, or plain text for any other address, such as a document's. A label may be the address. */
export function sourceLink(url, label) {
  if (!/^https?:\/\//i.test(url)) return el("span", { class: "path", dir: "auto" }, label);
  return el("a", { href: withoutUser(url), target: "_blank", rel: "noopener noreferrer nofollow", dir: "auto" }, withoutUser(label));
}

/** What a reader recognises of an address: the host, or the path of a document. */
export function shortAddress(url) {
  try {
    const { protocol, host, pathname } = new URL(url);
    return /^https?:$/.test(protocol) ? host.replace(/^www\./, "") : harmless(decodeURIComponent(pathname));
  } catch {
    return harmless(url);
  }
}

/** Say something to a screen reader; what is said in a row replaces what came before. */
export function announce(text) {
  byId("status").textContent = text;
}

/** Offsets count code points, and strings of JavaScript UTF-16 units: a function from the one to the other. */
export function unitOffsets(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (point) => point;
  const offsets = [0];
  for (const character of text) offsets.push(offsets.at(-1) + character.length);
  return (point) => offsets[Math.min(point, offsets.length - 1)];
}

/** Let the browser draw, and take what the reader does. */
export const pause = (milliseconds = 0) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const STEP_MS = 25; // of work: a reader notices a pause of 100

/** A stretch of work that ends before the reader notices: while it `hasTime`, go on; else wait for the `next()` one. */
export class Step {
  began = performance.now();

  get hasTime() {
    return performance.now() - this.began < STEP_MS;
  }

  async next() {
    await pause();
    this.began = performance.now();
  }
}
