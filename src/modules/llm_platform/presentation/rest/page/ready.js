// An answer that came while the reader looked elsewhere: the name of the tab says so, and a notification where that was chosen.

import { isOn } from "./preferences.js";
import { t } from "./texts.js";

/** Tell that the answer of the run `id` is there, until the reader looks. */
export function tellReady(id, { query, depth }) {
  if (!document.hidden) return;
  document.title = `✓ ${document.title.replace(/^✓ /, "")}`;
  const shown = isOn("notify") && notification(id, depth === "report" ? t("The report is ready") : t("The answer is ready"), query);
  const looked = new AbortController();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    looked.abort();
    document.title = document.title.replace(/^✓ /, "");
    if (shown) shown.close();
  }, { signal: looked.signal });
}

/** A notification that leads to the page, where the browser allows one. Some browsers of phones have them for installed pages alone. */
function notification(id, title, body) {
  if (globalThis.Notification?.permission !== "granted") return null;
  try {
    const shown = new Notification(title, { body, tag: `llm-platform ${id}`, icon: new URL("icon.svg", import.meta.url).href });
    shown.addEventListener("click", () => {
      focus();
      shown.close();
    });
    return shown;
  } catch {
    return null;
  }
}
