// The icons of sites, where the operator lets the server ask for them: else letters stay, and no site hears of a reader.

import { getIcon, options, Refused } from "./api.js";
import { el } from "./dom.js";

const NOT_FOUND = 404;
const known = new Map(); // by host: the promise of an address with the image in it, or of nothing
let last = Promise.resolve();

/** The icon of a host, or null. That it has none is remembered; that it could not be asked for is not. */
async function iconOf(host, id, index) {
  try {
    return await getIcon(id, index);
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== NOT_FOUND) known.delete(host);
    return null;
  }
}

/** Put the icons of sources of the run `id` in the place of letters: [{letters, host, index}]. */
export async function showIcons(id, places) {
  if (!(await options().catch(() => null))?.favicons) return;
  for (const { letters, host, index } of places) {
    if (!known.has(host)) known.set(host, last = last.then(() => iconOf(host, id, index)));
    const src = await known.get(host);
    if (src) for (const letter of letters) letter.replaceWith(el("img", { class: "site-icon", alt: "", src }));
  }
}
