// Elements without markup in strings: what comes from outside is only ever a text node.

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  supported: "M3.500 8.500l3 3 6-7",
  partial: "M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 0 1 0 11",
  unsupported: "M4 4l8 8M12 4l-8 8",
  unchecked: "M5.500 6a2.500 2.500 0 1 1 3.600 2.200c-.8.4-1.100.9-1.100 1.700M8 12.800v.1",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  close: "M4 4l8 8M12 4l-8 8",
  warning: "M8 2.500l6 11H2zM8 7v3M8 11.800v.1",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 7.500V11M8 5v.1",
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
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", class: `icon ${name}-icon`, "aria-hidden": "true" }))
    svg.setAttribute(key, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A link to a page of the web, or plain text for any other address, such as a document's. */
export function sourceLink(url, label) {
  if (!/^https?:\/\//i.test(url)) return el("span", { class: "path", dir: "auto" }, label);
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow", dir: "auto" }, label);
}

/** What a reader recognises of an address: the host, or the path of a document. */
export function shortAddress(url) {
  try {
    const { protocol, host, pathname } = new URL(url);
    return /^https?:$/.test(protocol) ? host.replace(/^www\./, "") : decodeURIComponent(pathname);
  } catch {
    return url;
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
