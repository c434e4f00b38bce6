// Formulas of an answer as MathML. Temml makes elements and no markup in strings; it is loaded with the first formula.

import temml from "./vendor/temml.js";

const MAX_EXPANSIONS = 200; // of macros in one formula
const MAX_SIZE = [20, 200]; // em, and percent of a line, of what a formula may ask for
const ALLOWED_TAGS = new Set(["math", "semantics", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "merror", "mpadded",
  "mphantom", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd", "menclose"]);
const ALLOWED_ATTRIBUTES = new Set(["display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "separator", "form", "largeop", "movablelimits",
  "symmetric", "accent", "accentunder", "lspace", "rspace", "minsize", "maxsize", "linethickness", "width", "height", "depth", "voffset", "columnalign",
  "rowalign", "columnspacing", "rowspacing", "columnspan", "rowspan", "notation"]);
const HIDDEN = "formula-source"; // the text of a copied formula

/** Set a formula in the place of its source: {element, tex, isDisplay}. One that cannot be read stays as it is written. */
export function typeset({ element, tex, isDisplay }) {
  const made = document.createElement("div");
  try {
    temml.render(tex, made, { displayMode: isDisplay, throwOnError: true, trust: false, strict: false, maxExpand: MAX_EXPANSIONS, maxSize: MAX_SIZE });
  } catch {
    return; // TeX that it does not know, or that is nested too deep
  }
  const math = made.querySelector("math");
  if (!math || !isClean(math)) return;
  const source = document.createElement("span");
  source.className = HIDDEN;
  source.setAttribute("aria-hidden", "true");
  source.append(element.textContent);
  element.replaceChildren(source, math);
}

/** Whether there is nothing but MathML; attributes that are no part of a formula, such as links, are taken away. */
function isClean(math) {
  for (const element of [math, ...math.querySelectorAll("*")]) {
    if (!ALLOWED_TAGS.has(element.localName) || element.namespaceURI !== math.namespaceURI) return false;
    for (const { name } of [...element.attributes]) if (!ALLOWED_ATTRIBUTES.has(name)) element.removeAttribute(name);
  }
  return true;
}
