// A thread on the page: its turns one below the other, and the form for the next question.

import { errorParts, getThread, Refused, untilWorthATry } from "./api.js";
import { announce, byId, el, icon } from "./dom.js";
import { rememberReplaced, replacedRuns } from "./replaced.js";
import { askedText, ResearchView } from "./research.js";
import { t } from "./texts.js";

const NOT_FOUND = 404;
const SHOWN = 10; // turns of a stored thread that are loaded when it is opened
const AT_ONCE = 3; // of them
const followUps = () => import("./followup.js"); // it is below the answer, which is shown first

/** `changed()` is called when a turn was stored or has ended. */
export class ThreadView {
  constructor(changed) {
    this.changed = changed;
    this.id = ""; // where the server has stored it: that of its first run
    this.turns = [];
    this.box = null; // for the next question, if it is shown
    this.isLeft = false;
    this.earlier = el("div", {});
    this.list = el("div", { class: "thread" });
    this.next = el("div", { class: "thread-next" });
    byId("result").replaceChildren(this.earlier, this.list, this.next);
    this.refreshing = new AbortController();
    addEventListener("focus", () => this.#refresh(), { signal: this.refreshing.signal });
  }

  /** Show what another tab has asked in this thread meanwhile. */
  async #refresh() {
    if (!this.id || !this.turns.length || !this.turns.every((turn) => turn.isOver && turn.isBackground)) return;
    const found = await getThread(this.id).catch(() => null);
    if (this.isLeft || !found) return;
    const last = found.researches.findLastIndex((job) => this.has(job.id));
    const fresh = last < 0 ? [] : found.researches.slice(last + 1);
    if (!fresh.length || !this.turns.every((turn) => turn.isOver)) return;
    const from = this.turns.at(-1).number + 1;
    this.next.replaceChildren();
    this.#load(fresh.map((job, index) => [this.#turn(from + index), job]));
  }

  /** Ask a question, below those before it; `joined` is a stored run of this thread, for a question that follows none. */
  ask(request, joined) {
    this.next.replaceChildren();
    const turn = this.#turn(this.turns.length);
    this.#entitle(turn, request);
    return turn.run(request, joined);
  }

  #entitle(turn, request) {
    if (!turn.number) document.title = `${askedText(request).slice(0, 100)} – llm-platform`;
  }

  /** Show the stored thread of a run, at this run; the focus and the place in the page stay where they are unless it `isRead`
  from there. */
  async open(id, isRead = true) {
    let found;
    try {
      found = await getThread(id);
    } catch (error) {
      if (!this.isLeft) this.#missing(id, error);
      return;
    }
    if (this.isLeft) return;
    this.id = found.id;
    this.list.replaceChildren();
    document.title = `${found.title} – llm-platform`;
    const replaced = replacedRuns();
    const jobs = found.researches.filter((job) => job.id === id || !replaced.includes(job.id));
    const asked = jobs.findIndex((job) => job.id === id);
    const from = Math.max(0, Math.min(jobs.length - SHOWN, asked));
    const shown = jobs.slice(from).map((job, index) => [this.#turn(from + index), job]);
    if (from) this.#offerEarlier(jobs.slice(0, from), found.title);
    this.#load(shown, asked - from);
    await this.#found(shown[asked - from][0]);
    const isMoved = this.earlier.contains(document.activeElement); // the reader already asked for earlier questions
    if (!this.isLeft && isRead && !isMoved) this.show(id);
  }

  /** Show stored runs, each [turn, job]: their questions at once, then their answers, a few at a time, from the `first` one on. */
  #load(shown, first = 0) {
    for (const [turn, job] of shown) turn.announceStored(job);
    const waiting = [shown[first], ...shown.filter((_, place) => place !== first)];
    const next = async () => {
      while (waiting.length && !this.isLeft) {
        const [turn, { id }] = waiting.shift();
        turn.open(id);
        await this.#found(turn);
      }
    };
    for (let lane = 0; lane < AT_ONCE; lane += 1) next();
  }

  /** Whether all of it can be drawn anew from what the server has stored, and the reader has not begun to write. */
  get isStored() {
    const { value = "" } = this.next.querySelector("textarea") ?? {};
    return this.turns.length > 0 && this.turns.every((turn) => turn.isBackground) && !value && !this.next.querySelector(".files li");
  }

  /** Say in which language and direction that is which is shown. */
  label({ lang, dir }) {
    const parts = [this.earlier, ...this.list.children, ...this.next.children];
    for (const part of parts) if (!part.lang) Object.assign(part, { lang, dir });
  }

  /** Whether the run with this id is one of the turns. */
  has(id) {
    return this.turns.some((turn) => turn.id === id);
  }

  show(id) {
    this.turns.find((turn) => turn.id === id)?.focus();
  }

  leave() {
    this.isLeft = true;
    this.refreshing.abort();
    for (const turn of this.turns) turn.leave();
  }

  stored(turn) {
    if (this.isLeft) return;
    this.id ||= turn.id;
    if (turn.replaces) rememberReplaced(turn.replaces);
    history.replaceState(null, "", `#research/${turn.id}`);
    this.changed();
  }

  /** The box for the next question stands below a turn from its beginning. */
  async begun(turn) {
    const { followUpForm } = await followUps();
    if (!this.isLeft && turn === this.turns.at(-1) && !turn.isOver && !this.next.firstChild) this.#showBox(followUpForm, turn);
  }

  async ended(turn) {
    if (turn.isLive) this.changed();
    const { followUpForm } = await followUps();
    if (this.isLeft || turn !== this.turns.at(-1) || !turn.isOver) return;
    const { turn: known, composer } = (this.next.firstChild && this.box) ?? {};
    if (known === turn && !(composer.isWaiting && !turn.response)) return composer.release();
    if (!turn.response && !this.#answered() && !askedText(turn.request)) return this.next.replaceChildren();
    // A question that failed is not followed up, but the one before it, if there is one: it stands in the box again.
    const written = composer?.input.value;
    const isFocused = composer && this.next.contains(document.activeElement);
    this.#showBox(followUpForm, turn);
    if (!turn.response) this.box.composer.write(written || askedText(turn.request));
    if (isFocused) this.box.composer.focus();
  }

  #showBox(followUpForm, turn) {
    this.box = followUpForm(turn, () => this.#answered(), (request) => this.ask(request));
    this.next.replaceChildren(this.box.element);
  }

  /** The turn that the next question follows. */
  #answered() {
    return this.turns.findLast((turn) => turn.response);
  }

  /** The box in which the question of a turn is edited. The answer of the last one is replaced; an earlier one, which others
  follow, stays, and its new question is asked at the end of the thread. */
  async editForm(turn, close, isBelow = false) {
    const { editForm } = await followUps();
    const isLast = !isBelow && turn === this.turns.at(-1);
    const ask = (request) => {
      if (isLast && turn === this.turns.at(-1)) return this.again(turn, request);
      close();
      this.ask(request, turn.storedId);
    };
    return editForm(turn, isLast, ask, close);
  }

  /** Ask once more, in the place of a turn: what has failed, or its question as the reader has edited it. */
  again(turn, request = turn.request) {
    if (!this.turns.includes(turn)) return; // the second click of two
    turn.leave();
    const other = new ResearchView(this, turn.number);
    this.turns[this.turns.indexOf(turn)] = other;
    turn.element.replaceWith(other.element);
    this.next.replaceChildren();
    other.replaces = turn.storedId || turn.replaces;
    this.#entitle(other, request);
    other.run(request, other.replaces);
  }

  /** Ask what follows the answer of a turn. */
  async followUp(before, query) {
    const { context } = await followUps();
    const { depth, sources, language, model, files } = before.request;
    return this.ask({ query, depth: depth === "deep" ? "deep" : "shallow", sources, language, model, files, ...context(before) });
  }

  #turn(number) {
    const turn = new ResearchView(this, number);
    const position = this.turns.findIndex((each) => each.number > number);
    if (position < 0) {
      this.turns.push(turn);
      this.list.append(turn.element);
    } else {
      this.turns[position].element.before(turn.element);
      this.turns.splice(position, 0, turn);
    }
    return turn;
  }

  /** Until the run of the turn came from the server, which is before a running one has ended. */
  async #found(turn) {
    while (!turn.isFound && !this.isLeft) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  /** A button that shows the last of these runs, as many as are loaded at once, and goes away with the first of all. The title
  of the thread is a heading until the first question is one. */
  #offerEarlier(jobs, title) {
    const load = async () => {
      const from = Math.max(0, jobs.length - SHOWN);
      if (!from) this.earlier.replaceChildren();
      const shown = jobs.slice(from).map((job, index) => [this.#turn(from + index), job]);
      this.#load(shown);
      if (from) return this.#offerEarlier(jobs.slice(0, from), title);
      const [first] = shown[0];
      await this.#found(first);
      if (!this.isLeft) first.focus();
    };
    const button = el("button", { type: "button", onclick: load }, t("Show earlier questions"));
    const isFocused = this.earlier.contains(document.activeElement);
    this.earlier.replaceChildren(el("h1", { id: "result-title", class: "sr" }, title), button);
    if (isFocused) button.focus({ preventScroll: true });
  }

  #missing(id, error) {
    const isGone = error instanceof Refused && error.status === NOT_FOUND;
    const again = async () => {
      if (button.getAttribute("aria-disabled")) return;
      button.setAttribute("aria-disabled", "true"); // it keeps the focus
      button.textContent = t("Working…");
      announce(t("Working…"));
      await this.open(id);
    };
    const button = isGone
      ? el("a", { href: "#" }, t("New question"))
      : el("button", { type: "button", onclick: again }, t("Try again"));
    this.list.replaceChildren(
      el("article", { class: "turn" },
        el("div", { class: "result-head" },
          el("h1", { id: "result-title", class: "turn-title", tabindex: "-1" }, t("Research")),
          el("div", { class: "tools" }, button)),
        el("div", { class: "notices" },
          el("div", { class: "notice warning", role: "alert" }, icon("warning"), el("div", {}, errorParts(error))))));
    button.focus({ preventScroll: true });
    if (!(error instanceof Refused)) this.#lookAgain(id, button);
  }

  /** A server that was away may be back. */
  async #lookAgain(id, button) {
    await untilWorthATry();
    if (!this.isLeft && button.isConnected && !button.getAttribute("aria-disabled")) await this.open(id);
  }
}
