// The quote behind a citation, inside the text of its source.

import { VERDICTS } from "./answer.js";
import { errorText, getSource, Refused } from "./api.js";
import { byId, el, icon, shortAddress, sourceLink, unitOffsets } from "./dom.js";
import { t } from "./texts.js";

const NOT_FOUND = 404;
const EXPLANATIONS = {
  supported: () => t("The source says this."),
  partial: () => t("The source says a part of this, or says it in other words."),
  unsupported: () => t("The source does not say this, or says it differently."),
  unchecked: () => t("The text of the source could not be compared."),
};

const explanation = (verdict, citation) => verdict === "unchecked" && citation?.checked_against === "snippet"
  ? t("The page was not read, and the excerpt of the search engine does not say this.") : EXPLANATIONS[verdict]();

export const verdictBadge = (verdict) => el("span", { class: `badge ${verdict}` }, icon(verdict), VERDICTS[verdict]());

/** Reads the texts of the sources of one research, each once. */
export class SourceTexts {
  constructor() {
    this.id = "";
    this.response = null;
    this.loaded = new Map();
  }

  /** The text, or null when it is not stored any more; an error is not kept, so that the next look asks again. */
  async get(index) {
    if (!this.loaded.has(index)) this.loaded.set(index, this.#load(index));
    try {
      return await this.loaded.get(index);
    } catch (error) {
      this.loaded.delete(index);
      throw error;
    }
  }

  async #load(index) {
    const raw = this.response?.raw_results?.[index - 1];
    if (raw && this.response.depth !== "report") return raw.content;
    try {
      return (await getSource(this.id, index)).text;
    } catch (error) {
      if (error instanceof Refused && error.status === NOT_FOUND) return null;
      throw error;
    }
  }
}

/** Open the dialog on a source; `citation` is null where there is nothing to compare. */
export async function openQuote({ source, citation, statement, texts, isWriting }) {
  const dialog = byId("quote");
  const body = el("div", { class: "source-text", tabindex: "0", role: "region", "aria-label": t("Text of the source") });
  const verdict = citation?.verdict ?? "unchecked";
  dialog.replaceChildren(
    el("div", { class: "dialog-head" },
      el("h2", { id: "quote-title", tabindex: "-1" },
        el("span", { class: "number" }, String(source.index)), el("span", { dir: "auto" }, source.title || shortAddress(source.url))),
      el("button", { type: "button", class: "quiet round", "aria-label": t("Close"), onclick: () => dialog.close() }, icon("close"))),
    el("p", { class: "address" }, sourceLink(citation?.quote_url ?? source.url, shortAddress(source.url)), /^https?:/i.test(source.url) && icon("out")),
    isWriting
      ? el("p", { class: "hint" }, t("The answer is still being written. Citations are checked at its end."))
      : el("div", { class: `verdict ${verdict}` },
        el("p", {}, verdictBadge(verdict), explanation(verdict, citation)),
        citation && el("p", { class: "muted" }, citation.checked_by === "model"
          ? t("Checked by a language model; the comparison of words said: {verdict}.", { verdict: VERDICTS[citation.word_verdict ?? verdict]() })
          : t("Checked by comparing words.")),
        citation?.cited_by === "platform" && el("p", { class: "muted" }, t("The model named no source here; the platform found this one."))),
    statement && el("div", {}, el("h3", {}, t("In the answer")), el("blockquote", { dir: "auto" }, statement)),
    el("h3", {}, t("In the source")),
    body,
  );
  dialog.onclick = (event) => event.target === dialog && dialog.close(); // beside it
  dialog.showModal();
  byId("quote-title").focus();
  body.setAttribute("aria-busy", "true");
  let text = null;
  let missing = t("The whole text is not stored any more.");
  try {
    text = isWriting ? null : await texts.get(source.index);
  } catch (error) {
    missing = errorText(error);
  }
  body.removeAttribute("aria-busy");
  fill(body, text, citation, missing);
}

/** `missing` says why there is no text. */
function fill(body, text, citation, missing) {
  const place = text && citation?.quote ? placeOf(text, citation) : null;
  if (place) {
    const mark = el("mark", {}, text.slice(...place));
    body.append(text.slice(0, place[0]), mark, text.slice(place[1]));
    // The text scrolls within the dialog; the page stays where it is.
    body.scrollTop = mark.offsetTop - body.clientHeight / 3;
    return;
  }
  if (citation?.quote) body.append(el("mark", {}, citation.quote));
  else if (text) body.append(text);
  if (citation && !citation.quote) body.before(el("p", { class: "hint" }, t("No passage of the source fits this statement.")));
  if (!text) body.append(el("p", { class: "hint" }, missing));
}

function placeOf(text, citation) {
  const unit = unitOffsets(text);
  const [start, end] = [unit(citation.quote_start), unit(citation.quote_end)];
  if (text.slice(start, end) === citation.quote) return [start, end];
  const found = text.indexOf(citation.quote);
  return found < 0 ? null : [found, found + citation.quote.length];
}
