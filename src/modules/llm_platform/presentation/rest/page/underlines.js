// Lines under sentences of an answer that a reader should doubt: drawn on ranges of the text, so that no element is added.

const BLOCKS = "p, li, td, th, h1, h2, h3, h4, h5, h6, pre";
// Markdown that is not in the text of the page: markers, the address of a link, and the row below the heads of a table.
const UNSEEN = /\[\d{1,4}\]|(?<=\])\([^\s()]*(?:\([^\s()]*\)[^\s()]*)*\)|^[ \t|:-]{3,}$/gm;
const SYNTAX_CHARS = 32; // a character that does not follow within this length was written as another one, such as an entity

const lines = "highlights" in CSS ? Object.fromEntries(["unsupported", "absent", "partial", "uncited", "shown"].map((name) => [name, new Highlight()])) : {};
for (const [name, highlight] of Object.entries(lines)) CSS.highlights.set(`sentence-${name}`, highlight);

/** The lines of one answer; another call replaces them. */
export class Underlines {
  constructor() {
    this.drawn = [];
  }

  /** `doubted` and `uncited` have offsets in the text whose `places` these are. */
  draw(places, doubted, uncited) {
    this.clear();
    if (!lines.partial) return;
    for (const { verdict, start, end } of doubted) this.#line(verdict, places.slice(start, end));
    for (const { start, end } of uncited) this.#line("uncited", places.slice(start, end));
  }

  clear() {
    for (const [name, range] of this.drawn) lines[name].delete(range);
    this.drawn = [];
  }

  /** Mark the sentence that a reader has gone to, in the place of the one before. */
  point(range) {
    lines.shown?.clear();
    lines.shown?.add(range);
  }

  #line(name, places) {
    const characters = places.filter(Boolean);
    if (!characters.length) return;
    const [first, last] = [characters[0], characters.at(-1)];
    // A live range would collapse when the answer moves into its tab.
    const range = new StaticRange({ startContainer: first.node, startOffset: first.offset, endContainer: last.node, endOffset: last.offset + 1 });
    lines[name].add(range);
    this.drawn.push([name, range]);
  }
}

/** The range from the first of these places to the last one; null without any. */
export function rangeOf(places) {
  const characters = places.filter(Boolean);
  if (!characters.length) return null;
  const range = new Range();
  range.setStart(characters[0].node, characters[0].offset);
  range.setEnd(characters.at(-1).node, characters.at(-1).offset + 1);
  return range;
}

/** For each character of the Markdown that a reader sees, where it stands: {node, offset}. */
export function placedCharacters(element, text) {
  const placed = new Array(text.length);
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const seen = text.replace(UNSEEN, (unseen) => " ".repeat(unseen.length));
  const places = [...Array(seen.length).keys()].filter((place) => seen[place].trim());
  const compact = places.map((place) => seen[place]).join("");
  let position = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest(BLOCKS) || node.parentElement.closest("button, .marker-text, math, .code-language")) continue;
    for (let offset = 0; offset < node.data.length; offset += 1) {
      const found = node.data[offset].trim() ? compact.slice(position, position + SYNTAX_CHARS).indexOf(node.data[offset]) : -1;
      if (found >= 0) placed[places[position + found]] = { node, offset };
      position += found + 1;
    }
  }
  return placed;
}
