// The box in which a question is written: a text that grows, the choices for it, its files.

import { errorParts, maxQueryChars, options } from "./api.js";
import { choicesPanel } from "./choices_panel.js";
import { Choices, DEPTHS, SOURCES } from "./choices.js";
import { announce, el, icon } from "./dom.js";
import { Files, SUFFIXES, UnreadableFile } from "./files.js";
import { closePlan, editPlan } from "./plan.js";
import { isOn, preference } from "./preferences.js";
import { number, t } from "./texts.js";

const MIN_CHARS = 3;
const MAX_CHARS = 4000;
const NEAR = 0.8; // the part of the limit from which characters are counted in view
const NO_KEY = 401;
const TOUCH = matchMedia("(hover: none) and (pointer: coarse)"); // Enter is a new line there: the button asks
const length = (text) => [...text].length;
const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

/** A server that is away says so when it is asked; one whose key a person does not give is asked nothing. */
function unlessNoKey(error) {
  if (error.status === NO_KEY) throw error;
}

/** `ask(request)` gets the question. `id` is that of the text box, `fields()` stand in each request, `values` and `files` are those
of an earlier question; `remember(values)` gets those of one that is asked. While it `isWaiting`, a question is held until
`release()`, and who edits it takes it back. */
export class Composer {
  constructor({ id, label, placeholder, rows = 1, values = {}, files = [], fields = () => ({}), isWaiting = false, remember = () => {}, ask }) {
    Object.assign(this, { id, label, placeholder, rows, fields, isWaiting, remember, ask, isHeld: false });
    this.choices = new Choices(values, () => this.#show());
    this.files = new Files(files, () => this.#show());
    this.plan = el("div", { class: "plan-place" });
    this.element = el("div", { class: "composer" });
    this.draw();
    this.load().catch(() => {}); // without it all choices are open, and the server refuses what it lacks
  }

  /** Write it in the language of the page. */
  draw() {
    const text = this.input?.value ?? "";
    this.input = el("textarea", { id: this.id, rows: this.rows, dir: "auto", placeholder: this.placeholder(), enterkeyhint: TOUCH.matches ? "enter" : "send",
      "aria-describedby": `${this.id}-note ${this.id}-error` });
    this.input.value = text;
    this.attached = el("ul", { class: "chosen files", "aria-label": t("Files") });
    this.chosen = el("ul", { class: "chosen", "aria-label": t("Chosen for this question") });
    this.opener = el("button", { type: "button", class: "options-button", "aria-haspopup": "dialog", "aria-expanded": "false" });
    this.counter = el("span", { class: "counter" });
    this.keeping = el("div", { class: "keep-files hint", onchange: () => this.#edited() }, preference("files"));
    this.submit = el("button", { type: "submit", class: "primary", id: this.id === "query" ? "submit" : null });
    this.note = el("p", { class: "hint", id: `${this.id}-note` });
    this.error = el("p", { class: "error", id: `${this.id}-error`, role: "alert" });
    const form = el("form", { class: "card", novalidate: true, id: this.id === "query" ? "form" : null },
      el("label", { for: this.id, class: "sr" }, this.label()),
      this.input, this.attached,
      el("div", { class: "composer-bar" }, this.opener, this.#fileButton(), this.counter, this.submit),
      this.chosen, this.note, this.keeping, this.error);
    this.element.replaceChildren(form, choicesPanel(this.choices, this.opener, () => this.load(true).catch(() => {})), this.plan);
    this.#listen(form);
    this.#show();
  }

  /** Ask the server what it has; `asksForKey` where a person waits for it. */
  async load(asksForKey = false) {
    if (this.choices.offered) return;
    const offered = await options(asksForKey);
    this.files.limits = offered;
    this.choices.offer(offered);
  }

  write(text) {
    this.input.value = text;
    this.#edited();
  }

  send() {
    this.input.form.requestSubmit();
  }

  /** The answer that was waited for is there: ask what is held. */
  release() {
    const { isHeld } = this;
    this.isWaiting = this.isHeld = false;
    this.showNotes();
    if (isHeld) this.send();
  }

  focus() {
    this.input.focus();
  }

  /** Make room for the next question. */
  clear() {
    this.write("");
    this.files.clear();
    this.choices.clear();
  }

  #fileButton() {
    const field = el("input", { type: "file", multiple: true, accept: SUFFIXES, hidden: true, "aria-label": t("Add files") });
    field.addEventListener("change", () => {
      this.#addFiles(field.files);
      field.value = ""; // the same file can be chosen again
    });
    return [field, el("button", { type: "button", class: "quiet round", "aria-label": t("Add files"), title: t("Add files"), onclick: () => field.click() }, icon("clip"))];
  }

  #addFiles(files) {
    this.#showError(this.files.add([...files]));
    this.input.focus();
  }

  #listen(form) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.input.addEventListener("input", () => this.#edited());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || TOUCH.matches) return;
      event.preventDefault();
      this.send();
    });
    this.input.addEventListener("paste", (event) => {
      if (!event.clipboardData.files.length || event.clipboardData.types.includes("text/plain")) return;
      event.preventDefault();
      this.#addFiles(event.clipboardData.files);
    });
    form.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      form.classList.add("dropping");
    });
    form.addEventListener("dragleave", (event) => {
      if (!form.contains(event.relatedTarget)) form.classList.remove("dropping");
    });
    form.addEventListener("drop", (event) => {
      form.classList.remove("dropping");
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.#addFiles(event.dataTransfer.files);
    });
  }

  async #submit() {
    if (this.submit.disabled) return;
    this.submit.disabled = true;
    try {
      if (!this.#complain()) await this.load(true).catch(unlessNoKey);
      if (this.#complain()) return;
      if (this.isWaiting) return this.#hold();
      const text = this.input.value.trim();
      // The server finds the question in a message; a short message is the question.
      const question = length(text) <= maxQueryChars() ? { query: text } : { message: text };
      const request = { ...question, ...this.choices.request, ...(await this.files.request()), ...this.fields() };
      this.remember(this.choices.kept);
      if (request.depth === "report") await editPlan(this.plan, request, this.ask);
      else await this.ask(request);
    } catch (error) {
      this.#showError(error instanceof UnreadableFile ? error.message : errorParts(error));
    } finally {
      this.submit.disabled = false;
    }
  }

  #hold() {
    this.isHeld = true;
    this.showNotes();
    announce(this.note.textContent);
  }

  /** Say what has to be mended; whether there is something. */
  #complain() {
    const count = length(this.input.value.trim());
    const problem = (count < MIN_CHARS && t("A question needs at least three characters.")) || this.#lengthProblem(count) || this.choices.problem;
    this.#showError(problem);
    return problem;
  }

  #lengthProblem(count) {
    return count > MAX_CHARS ? t("A question has at most {max} characters: this is {n} too long.", { max: number(MAX_CHARS), n: number(count - MAX_CHARS) }) : "";
  }

  /** Not at the "change" of the text: that comes when the plan takes the focus. */
  #edited() {
    closePlan();
    this.isHeld = false;
    const count = length(this.input.value.trim());
    const questionChars = maxQueryChars() ?? MAX_CHARS;
    const isLong = count > questionChars;
    this.counter.textContent = count < NEAR * questionChars ? "" : `${number(count)} / ${number(isLong ? MAX_CHARS : questionChars)}`;
    this.counter.classList.toggle("over", count > MAX_CHARS);
    this.isLong = isLong && count <= MAX_CHARS;
    this.showNotes();
    this.#showError(this.#lengthProblem(count));
    if (!CSS.supports("field-sizing", "content")) {
      this.input.style.height = "auto";
      this.input.style.height = `${this.input.scrollHeight}px`;
    }
  }

  showNotes() {
    this.note.textContent = [
      this.isHeld && t("This question will be sent when the current answer is complete."),
      this.isLong && t("This is longer than a question. The server finds the question in it and uses the whole text for the answer."),
      this.files.list.length && (isOn("files")
        ? t("Files are read for this question and kept in this browser alone. Keep the page open until the answer is there.")
        : t("Files are read for this question and not stored: keep the page open.")),
    ].filter(Boolean).join(" ");
  }

  /** Draw what is chosen. */
  #show() {
    if (!this.opener) return;
    this.choices.hasFiles = this.files.list.length > 0;
    const { depth, sureSources } = this.choices;
    const names = [this.choices.hasFiles && t("Files"), ...sureSources.map((name) => SOURCES[name]())].filter(Boolean);
    this.opener.replaceChildren(icon("sliders"), el("span", { class: "sr" }, `${t("Depth and sources")}: `),
      el("span", { class: "options-text" }, [DEPTHS[depth].label(), names.join(", ")].filter(Boolean).join(" · ")), icon("chevron"));
    this.submit.textContent = depth === "report" ? t("Make a plan") : t("Ask");
    this.attached.replaceChildren(...this.files.chips.map((chip) => this.#chip(this.attached, chip)));
    this.keeping.hidden = !this.choices.hasFiles;
    this.chosen.replaceChildren(...this.choices.chips.map((chip) => this.#chip(this.chosen, chip)));
    this.#edited();
  }

  #chip(list, { label, size, remove }) {
    const act = () => {
      const index = [...list.children].indexOf(item);
      remove();
      (list.children[Math.min(index, list.children.length - 1)]?.querySelector("button") ?? this.input).focus();
    };
    const item = el("li", {},
      el("bdi", { title: label }, label), size && el("span", { class: "muted" }, size),
      el("button", { type: "button", class: "quiet", "aria-label": t("Remove {name}", { name: label }), onclick: act }, icon("close")));
    return item;
  }

  /** A text, or the parts of an error of the server. */
  #showError(text) {
    this.error.replaceChildren(...(text ? [text].flat() : []));
    this.input.setAttribute("aria-invalid", text ? "true" : "false");
  }
}
