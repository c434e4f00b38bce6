// The icons of sites, where the operator lets the server ask for them: else letters stay, and no site hears of a reader.

import { getIcon, options } from "./api.js";
import { el } from "./dom.js";

const known = new Map(); // by host: the promise of an address with the image in it, or of nothing
let last = Promise.resolve();

/** Put the icons of sources of the run `id` in the place of letters: [{letter, host, index}]. */
export async function showIcons(id, places) {
  if (!(await options().catch(() => null))?.favicons) return;
  for (const { letter, host, index } of places) {
    if (!known.has(host)) known.set(host, last = last.then(() => getIcon(id, index)).catch(() => null));
    const src = await known.get(host);
    if (src) letter.replaceWith(el("img", { class: "site-icon", alt: "", src }));
  }
}
