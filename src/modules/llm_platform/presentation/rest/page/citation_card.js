// The card of a citation: what the source says, beside the marker that the pointer or the focus is on.

import { byId, el, icon, shortAddress, sourceLink } from "./dom.js";
import { differenceLine, differenceOf } from "./receipts.js";
import { plainQuote } from "./source_text.js";
import { t } from "./texts.js";
import { explanation, pageOf, verdictBadge } from "./verdicts.js";

const SHOW_MS = 120; // a pointer that only passes opens nothing
const HIDE_MS = 250; // long enough to move from the marker into the card
const GAP_PX = 6;
const EDGE_PX = 8; // of the window

const STAYING = ["", "Enter", " ", "Escape"]; // after these, and after a click, the focus only comes back
const isWeb = (url) => /^https?:\/\//i.test(url);

let card = null;
let owner = null; // the marker whose card is shown
let timer = 0;
let lastKey = "";

/** Show a card for a marker by hover, by Tab and by tap; a click of a mouse and Enter open the quote. */
export function attachCard(marker, about) {
  marker.addEventListener("pointermove", (event) => {
    const isMoved = event.pointerType === "mouse" && (event.movementX || event.movementY); // not the page below a still pointer
    if (isMoved && owner !== marker) later(() => show(marker, about), SHOW_MS);
    if (isMoved && owner === marker) clearTimeout(timer);
  });
  marker.addEventListener("pointerleave", () => later(hideCard, HIDE_MS));
  marker.addEventListener("focus", () => !STAYING.includes(lastKey) && show(marker, about));
  marker.addEventListener("blur", () => later(hideCard, HIDE_MS));
  marker.addEventListener("click", (event) => {
    if (event.pointerType === "touch" && owner !== marker) return show(marker, about);
    hideCard();
    about.open();
  });
}

export function hideCard() {
  clearTimeout(timer);
  owner = null;
  if (card?.matches(":popover-open")) card.hidePopover();
}

function later(action, milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(action, milliseconds);
}

function show(marker, about) {
  clearTimeout(timer);
  if (!marker.isConnected) return;
  card ??= newCard();
  byId("result").append(card);
  owner = marker;
  card.replaceChildren(...content(about));
  card.showPopover();
  place(marker.getBoundingClientRect());
}

function content({ source, citation, isWriting, waiting, text, synthesis = "", open }) {
  const difference = isWriting ? null : differenceOf(citation, synthesis, text);
  const address = citation?.quote_url ?? source.url;
  const parts = [
    el("p", { class: "card-title", dir: "auto" }, source.title || shortAddress(source.url)),
    el("p", { class: "muted" }, shortAddress(source.url), pageOf(citation)),
    isWriting ? el("p", { class: "muted" }, waiting?.() ?? t("The answer is still being written. Citations are checked at its end."))
      : el("p", { class: "card-verdict" }, verdictBadge(citation, text), " ", explanation(citation, text, source)),
    difference && differenceLine(difference),
    citation?.quote && el("blockquote", { dir: "auto" }, plainQuote(citation.quote)),
    el("p", { class: "card-actions" },
      el("button", { type: "button", class: "link", onclick: () => { hideCard(); open(); } }, t("Show in the source")),
      isWeb(address) && el("span", {}, sourceLink(address, citation?.quote ? t("Open the page at the quote") : t("Open the page")), " ", icon("out"))),
  ];
  return parts.filter(Boolean);
}

/** Below the marker, so that the sentence stays readable; above it where there is no room. */
function place(marker) {
  const { offsetWidth: width, offsetHeight: height } = card;
  const left = Math.min(Math.max(EDGE_PX, marker.left - width / 4), innerWidth - width - EDGE_PX);
  const below = marker.bottom + GAP_PX;
  const hasRoom = below + height <= innerHeight - EDGE_PX;
  card.style.left = `${left}px`;
  card.style.top = `${hasRoom ? below : Math.max(EDGE_PX, marker.top - height - GAP_PX)}px`;
}

function newCard() {
  const made = el("div", { class: "cite-card", popover: "manual", role: "group", "aria-label": t("Citation") });
  made.addEventListener("pointerenter", () => clearTimeout(timer));
  made.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && later(hideCard, HIDE_MS));
  made.addEventListener("focusin", () => clearTimeout(timer));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideCard(); });
  document.addEventListener("pointerdown", (event) => {
    if (!made.contains(event.target) && !event.target.closest?.(".cite")) hideCard();
  });
  document.addEventListener("scroll", hideCard, { passive: true });
  return made;
}

document.addEventListener("keydown", (event) => { lastKey = event.key; }, true);
document.addEventListener("pointerdown", () => { lastKey = ""; }, true);
