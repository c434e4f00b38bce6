// The menu of the files of an answer, and of its thread. What makes a file is loaded when one is chosen.

import { closeMenu, menu } from "./actions.js";
import { errorParts } from "./api.js";
import { copied } from "./clipboard.js";
import { announce, el } from "./dom.js";
import { t } from "./texts.js";

const KINDS = { md: "Markdown", html: "HTML", json: "JSON", "csl.json": "CSL-JSON", bib: "BibTeX" };
const PICTURES = ["png", "svg"];
const files = () => import("./export_files.js");

/** `thread` is the thread of the answer, if there is one; `texts` are the texts of the sources; `storedId` is set if the server stores the answer. */
export function exportMenu(response, thread, texts, storedId) {
  const item = (label, action) => el("button", { type: "button", onclick: () => {
    closeMenu(made);
    return action();
  } }, label);
  const ofThread = el("div", { class: "menu-group", role: "group", "aria-label": t("The whole thread"), hidden: true });
  const made = menu(t("Export"), [
    ...Object.entries(KINDS).map(([kind, name]) => item(name, async () => (await files()).saveAnswer(response, kind))),
    ...PICTURES.map((kind) => item(t("Picture ({kind})", { kind: kind.toUpperCase() }), async () => (await import("./picture.js")).savePicture(response, kind, texts))),
    item(t("Print"), () => window.print()),
    storedId ? el("button", { type: "button", onclick: async ({ currentTarget }) => (await files()).saveSealed(response, storedId, currentTarget) },
      t("Sealed, with its sources")) : null,
    ofThread,
  ]);
  made.addEventListener("toggle", () => {
    if (made.open && thread?.turns.length > 1 && ofThread.hidden) fillGroup(ofThread, thread, () => closeMenu(made));
  });
  return made;
}

/** What there is for a whole thread; a long one takes a moment to collect, and `close()` follows a file that was made. */
function fillGroup(group, thread, close) {
  const note = el("p", { class: "hint", role: "status" });
  const item = (label, act) => el("button", { type: "button", onclick: async () => {
    note.textContent = t("Collecting the answers…");
    try {
      note.textContent = (await act()) ?? "";
      if (!note.textContent) close();
    } catch (error) {
      note.replaceChildren(...errorParts(error));
    }
  } }, label);
  group.replaceChildren(
    el("p", { class: "menu-title", "aria-hidden": "true" }, t("The whole thread")),
    item(t("Copy"), async () => {
      const said = (await copied(await (await files()).markedThread(thread))) ? t("Copied") : t("The browser does not allow copying");
      announce(said);
      return said;
    }),
    ...Object.entries(KINDS).map(([kind, name]) => item(name, async () => (await files()).saveThread(thread, kind))),
    note);
  group.hidden = false;
}
