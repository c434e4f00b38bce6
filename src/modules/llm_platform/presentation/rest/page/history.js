// The background researches that the server has stored, newest first.

import { errorText, listResearches } from "./api.js";
import { byId, el } from "./dom.js";
import { dateTime, t } from "./texts.js";

export const STATUSES = {
  queued: () => t("waiting"),
  running: () => t("running"),
  done: () => t("done"),
  failed: () => t("failed"),
  cancelled: () => t("cancelled"),
};

export async function showHistory() {
  const list = el("ul", { class: "history-list" });
  const note = el("p", { class: "hint" });
  const more = el("button", { type: "button", hidden: true }, t("Show more"));
  byId("history").replaceChildren(
    el("h1", { id: "history-title", tabindex: "-1" }, t("History")),
    el("p", { class: "hint" }, t("Reports are stored on the server. Quick and deep answers are not.")),
    list, note, more);
  let before = null;
  const load = async () => {
    note.textContent = t("Loading…");
    try {
      const page = await listResearches(before);
      list.append(...page.researches.map(entry));
      before = page.next;
      note.textContent = list.children.length ? "" : t("There are no reports yet.");
    } catch (error) {
      note.textContent = errorText(error);
    }
    more.hidden = !before;
  };
  more.addEventListener("click", load);
  await load();
}

function entry(job) {
  return el("li", {},
    el("a", { href: `#research/${job.id}`, dir: "auto" }, job.query),
    el("span", { class: "muted" }, `${dateTime(job.created_at)} · `, el("span", { class: `state ${job.status}` }, STATUSES[job.status]())));
}
