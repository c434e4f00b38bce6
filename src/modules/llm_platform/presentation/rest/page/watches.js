// Watched questions: the bell below an answer, and the list with both quotes of each change side by side.

import { addWatch, errorParts, listChanges, listWatches, removeWatch, runWatch } from "./api.js";
import { announce, byId, el, sourceLink } from "./dom.js";
import { dateTime, day, number, t } from "./texts.js";

const EVERY_S = 86_400;
const KINDS = { changed: () => t("Changed"), new: () => t("New"), gone: () => t("Gone"), disputed: () => t("Disputed") };

let opened = 0; // counts up: only the last opening is drawn

/** Watch the question of an answer once a day; return what takes the place of the bell. */
export async function watchQuestion(view, response) {
  const { depth, sources, language, urls } = view.request;
  await addWatch({
    query: response.metadata.understood_question ?? response.query, every_s: EVERY_S,
    ...(depth === "report" && { depth }), ...(sources?.length && { sources }), ...(language && { language }), ...(urls?.length && { urls }),
  });
  announce(t("Watched each day"));
  return el("a", { href: "#watches" }, t("Watched each day"));
}

/** Show the watched questions with their changes. */
export async function openWatches() {
  const shown = (opened += 1);
  const list = el("div", { class: "watches" }, el("p", { class: "hint", role: "status" }, t("Loading…")));
  byId("result").replaceChildren(el("h1", { id: "result-title", tabindex: "-1" }, t("Watched questions")), list);
  document.title = t("Watched questions");
  try {
    await fill(list, () => shown === opened);
  } catch (error) {
    if (shown === opened) list.replaceChildren(...errorParts(error));
  }
}

async function fill(list, isShown, before = null) {
  const page = await listWatches(before);
  if (!isShown()) return;
  if (!before) list.replaceChildren();
  if (!before && !page.watches.length) list.append(el("p", { class: "hint" }, t("You are not watching any questions yet. Click the bell below an answer to watch its question.")));
  const cards = page.watches.map(watchCard);
  list.append(...cards.map(([card]) => card));
  if (page.next) list.append(moreButton(() => fill(list, isShown, page.next)));
  await Promise.all(cards.map(([, filled]) => filled));
}

/** A button that goes when it has shown more, and stays, with the reason beside it, when it could not. */
function moreButton(showMore) {
  const failed = el("p", { role: "status" });
  const button = el("button", { type: "button", onclick: async () => {
    button.disabled = true;
    failed.replaceChildren();
    try {
      await showMore();
      place.remove();
    } catch (error) {
      failed.replaceChildren(...errorParts(error));
      button.disabled = false;
    }
  } }, t("Show more"));
  const place = el("div", {}, button, failed);
  return place;
}

/** The card of a watch, and the promise of its changes. It keeps its place and says so if they cannot be read. */

function watchCard(watch) {
  const state = el("p", { class: "muted" }, watch.next_at
    ? t("Next: {time}", { time: dateTime(watch.next_at) })
    : t("Paused"), ` · ${t("Runs: {count}", { count: number(watch.runs) })}`);
  const problems = [watch.problem, watch.remedy].filter(Boolean).map((text) => el("p", { class: "note" }, text));
  const changes = el("div", { class: "watch-changes" });
  const failed = el("p", { role: "status" });
  const act = (label, work) => el("button", { type: "button", onclick: async ({ currentTarget }) => {
    currentTarget.disabled = true;
    try {
      await work();
    } catch (error) {
      failed.replaceChildren(...errorParts(error));
      currentTarget.disabled = false;
    }
  } }, label);
  const card = el("section", { class: "watch-card" },
    el("h2", { dir: "auto" }, watch.query), state, ...problems, changes,
    el("p", { class: "actions" },
      act(t("Ask now"), async () => {
        await runWatch(watch.id);
        state.replaceChildren(t("Run requested. Changes will appear here when it ends."));
      }),
      act(t("Delete"), async () => {
        await removeWatch(watch.id);
        card.remove();
      })), failed);
  const filled = showChanges(changes, watch.id).catch((error) => changes.replaceChildren(...errorParts(error)));
  return [card, filled];
}

async function showChanges(place, id, before = null) {
  const page = await listChanges(id, before);
  if (!before && !page.changes.length) place.append(el("p", { class: "hint" }, t("No change yet")));
  for (const change of page.changes) place.append(changeTable(change));
  if (page.next) place.append(moreButton(() => showChanges(place, id, page.next)));
}

/** Both quotes side by side; the side that a change does not have stays empty. */
function changeTable(change) {
  const head = (side, name) => el("th", { scope: "col" }, name, side ? ` · ${day(side.at)}` : "");
  const cell = (side) => el("td", { dir: "auto" }, side
    ? [el("blockquote", {}, ...marked(side)), sourceLink(side.source, side.source)]
    : "—");
  return el("div", { class: "scroller" }, el("table", { class: "change" },
    el("caption", { dir: "auto" }, `${KINDS[change.kind]?.() ?? change.kind}: ${change.fact}`),
    el("thead", {}, el("tr", {}, head(change.was, t("Before")), head(change.now, t("Now")))),
    el("tbody", {}, el("tr", {}, cell(change.was), cell(change.now)))));
}

/** The quote with its value marked. */
function marked({ quote, value }) {
  const at = value ? quote.indexOf(value) : -1;
  return at < 0 ? [quote] : [quote.slice(0, at), el("mark", {}, value), quote.slice(at + value.length)];
}
