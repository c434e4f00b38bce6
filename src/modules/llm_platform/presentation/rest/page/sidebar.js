// The threads that the server has stored: pinned ones, those in folders, then by day; searched, renamed, deleted one by one or several at once.

import { deleteThread, errorParts, listThreads, maxQueryChars, Refused, renameThread } from "./api.js";
import { announce, byId, el, icon } from "./dom.js";
import { areFull, closeFolder, deleteFolder, folderOf, folders, MAX_NAME_CHARS, moveThread, renameFolder, renameInFolders } from "./folders.js";
import { pin, pinned, renamePins, unpin } from "./pins.js";
import { preferences } from "./preferences.js";
import { onKey } from "./settings.js";
import { number, onLanguage, quotesLine, relativeDay, t } from "./texts.js";

const WIDE = matchMedia("(min-width: 1100px)"); // as in page.css
const SEARCH_DELAY_MS = 250;
const POLL_MS = 4000; // while something runs
const NO_KEY = 401;
const VERDICTS_OF_BLOCKS = { "▁": "supported", "▄": "partial", "▆": "absent", "█": "unsupported", "░": "uncited", "▒": "unchecked" };
const AHEAD = "600px"; // above the end of the list, the next threads are loaded

let view = null;

/** Show the threads beside the page, or in a drawer. `onDeleted(thread)` is called when one is gone, `onListed(threads)` with
the newest ones. */
export function startSidebar(onDeleted, onListed) {
  view = new Sidebar(onDeleted, onListed);
  onLanguage(() => view.draw());
  onKey(() => view.load());
  const place = () => view.place();
  WIDE.addEventListener("change", place);
  byId("open-threads").addEventListener("click", openThreads);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) view.load();
  });
}

/** Ask the server for the threads; `id` is the run that the page shows, if another one than before. */
export function refreshThreads(id) {
  view.load(id);
}

/** Open the drawer, or move into the list where it is beside the page. */
export function openThreads() {
  view.load();
  if (!WIDE.matches && !byId("drawer").open) byId("drawer").showModal();
  byId("thread-search").focus();
}

export function closeThreads() {
  byId("drawer").close();
}

class Sidebar {
  constructor(onDeleted, onListed) {
    this.onDeleted = onDeleted;
    this.onListed = onListed;
    this.current = "";
    this.query = "";
    this.threads = [];
    this.before = null;
    this.chosen = null; // while several are chosen: their ids
    this.loading = 0; // counts up: only the last answer is shown
    this.element = el("div", { class: "threads" });
    this.draw();
    this.place();
    const drawer = byId("drawer");
    drawer.addEventListener("click", (event) => {
      if (event.target === drawer || event.target.closest("a")) drawer.close();
    });
  }

  /** Beside the page, or in the drawer. */
  place() {
    byId("drawer").close();
    byId(WIDE.matches ? "sidebar" : "drawer").append(this.element);
  }

  draw() {
    this.list = el("div", { class: "thread-days" });
    this.note = el("p", { class: "hint", role: "status" });
    this.more = el("button", { type: "button", hidden: true, onclick: () => this.#loadMore() }, t("Show more"));
    this.entries = new Map(); // by id: what is drawn
    this.chosen = null;
    this.end?.disconnect();
    this.end = new IntersectionObserver((seen) => seen.at(-1).isIntersecting && this.#loadMore(), { rootMargin: AHEAD, scrollMargin: AHEAD });
    this.end.observe(this.more);
    const search = el("input", {
      type: "search", id: "thread-search", "aria-label": t("Search in threads"), placeholder: t("Search in threads"), dir: "auto", maxlength: 200,
    });
    search.value = this.query;
    search.addEventListener("input", () => {
      this.query = search.value.trim();
      clearTimeout(this.searching);
      this.searching = setTimeout(() => this.load(), SEARCH_DELAY_MS);
    });
    this.element.replaceChildren(
      el("div", { class: "threads-top" },
        el("div", { class: "threads-head" },
          el("h2", {}, t("Threads")),
          this.chooser = el("button", { type: "button", class: "quiet choose", hidden: true, onclick: () => this.#choose(true) }, t("Select")),
          el("button", { type: "button", class: "quiet round in-drawer", "aria-label": t("Close"), onclick: closeThreads }, icon("close"))),
        search, this.choosing = el("form", { class: "choosing", hidden: true })),
      this.list, this.note, this.more, preferences());
    this.#show();
  }

  async load(id, asksForKey = false) {
    if (id !== undefined) this.current = id;
    clearTimeout(this.polling);
    const number = (this.loading += 1);
    try {
      const page = await listThreads({ q: this.query, asksForKey });
      if (number !== this.loading) return;
      const rest = this.threads.slice(page.threads.length).filter((each) => !page.threads.some((other) => other.id === each.id));
      const isLonger = this.shownQuery === this.query && page.next && rest.length;
      this.threads = isLonger ? [...page.threads, ...rest] : page.threads;
      if (!isLonger) this.before = page.next;
      this.shownQuery = this.query;
      renamePins(page.threads);
      renameInFolders(page.threads);
      if (!this.query) this.onListed(this.threads);
      this.#say(this.threads.length ? "" : this.query ? t("Nothing found.") : t("There are no threads yet."));
      this.#show();
    } catch (error) {
      if (number === this.loading) this.#failed(error);
    }
    if (this.threads.some((each) => each.running) && !document.hidden) this.polling = setTimeout(() => this.load(), POLL_MS);
  }

  /** The next threads, once at a time; when they are shown, the end of the list may still be in view. */
  async #loadMore() {
    const { before, query } = this;
    if (!before || this.isLoading) return;
    this.isLoading = true;
    try {
      const page = await listThreads({ q: query, before });
      if (this.query === query && this.before === before) {
        const known = new Set(this.threads.map((each) => each.id));
        this.threads.push(...page.threads.filter((each) => !known.has(each.id)));
        this.before = page.next;
        this.#show();
      }
      this.end.unobserve(this.more);
      this.end.observe(this.more);
    } catch (error) {
      this.#say(...errorParts(error)); // the button stays
    } finally {
      this.isLoading = false;
    }
  }

  #failed(error) {
    if (!(error instanceof Refused) || error.status !== NO_KEY) {
      this.#say(...errorParts(error));
      return;
    }
    this.#say(el("button", { type: "button", class: "link", onclick: () => this.load(undefined, true) },
      t("Enter the API key to see your threads")));
  }

  /** Say something below the list, once: what is written anew is heard anew. */
  #say(...content) {
    const wanted = el("p", {}, content);
    if (wanted.textContent !== this.note.textContent) this.note.replaceChildren(...wanted.childNodes);
  }

  /** Draw what has changed in the list, unless a person is changing an entry of it. */
  #show() {
    this.more.hidden = !this.before;
    if (this.list.querySelector("form")) return;
    this.chooser.hidden = Boolean(this.chosen) || !this.threads.length;
    const current = (kept) => this.threads.find(({ id }) => id === kept.id) ?? kept;
    const pins = this.query ? [] : pinned().map(current);
    const isPinned = new Set(pins.map(({ id }) => id));
    const filed = this.query ? [] : folders().map((folder) => ({ ...folder, threads: folder.threads.filter(({ id }) => !isPinned.has(id)).map(current) }));
    const isFiled = new Set(filed.flatMap(({ threads }) => threads.map(({ id }) => id)));
    const rest = this.threads.filter(({ id }) => !isPinned.has(id) && !isFiled.has(id));
    const days = [...Map.groupBy(rest, ({ updated_at: updated }) => relativeDay(updated))];
    const parts = [
      ...(pins.length ? [{ key: "pins", threads: pins, head: () => el("h3", {}, t("Pinned")) }] : []),
      ...filed.map((folder) => ({ ...folder, key: `folder ${folder.name}`, head: () => this.#folderHead(folder) })),
      ...days.map(([day, threads]) => ({ key: `day ${day}`, threads, head: () => el("h3", {}, day) })),
    ];
    const entries = new Map();
    for (const thread of parts.flatMap(({ threads }) => threads)) {
      const key = JSON.stringify([thread, this.current === thread.id, isPinned.has(thread.id), Boolean(this.chosen)]);
      const known = this.entries.get(thread.id);
      entries.set(thread.id, known?.key === key ? known : { key, item: this.#entry(thread) });
    }
    const focused = this.list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.entries = entries;
    const sections = new Map([...this.list.children].map((section) => [section.dataset.key, section]));
    keep(this.list, parts.map(({ key, head }) => sections.get(key) ?? el("section", { "data-key": key }, head(), el("ul", {}))));
    parts.forEach(({ threads, isClosed }, place) => {
      const list = this.list.children[place].lastElementChild;
      keep(list, threads.map(({ id }) => entries.get(id).item));
      list.hidden = Boolean(isClosed);
    });
    if (focused && !this.list.contains(document.activeElement))
      [...this.list.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus({ preventScroll: true });
  }

  /** The name of a folder, which opens and closes it, and what can be done with the folder. */
  #folderHead({ name, isClosed }) {
    const toggle = el("button", { type: "button", class: "folder-name", "aria-expanded": String(!isClosed), dir: "auto", onclick: () => {
      const wasOpen = toggle.getAttribute("aria-expanded") === "true";
      closeFolder(name, wasOpen);
      toggle.setAttribute("aria-expanded", String(!wasOpen));
      this.#show();
    } }, icon("folder"), el("bdi", {}, name));
    const head = el("div", { class: "folder-head" }, el("h3", {}, toggle),
      el("span", { class: "entry-buttons" },
        iconButton("edit", t("Rename the folder {name}", { name }), () => this.#renameFolder(head, name)),
        iconButton("bin", t("Delete the folder {name}", { name }), () => this.#deleteFolder(head, name))));
    return head;
  }

  #renameFolder(head, name) {
    const input = folderField(name);
    this.#ask(head, [input, el("button", { type: "submit", class: "primary" }, t("Save"))], () => renameFolder(name, input.value.trim() || name));
    input.select();
  }

  #deleteFolder(head, name) {
    const button = el("button", { type: "submit", class: "danger" }, t("Delete"));
    this.#ask(head, [el("p", {}, t("Delete this folder? Its threads stay.")), button], () => {
      deleteFolder(name);
      announce(t("Folder deleted."));
    });
    button.focus();
  }

  /** Choose the folder of a thread, or name a new one. */
  #move(item, thread) {
    const now = folderOf(thread.id);
    const names = folders().map(({ name }) => name);
    const label = t("Folder of {title}", { title: thread.title });
    const options = [["none", t("No folder")], ...names.map((name, place) => [String(place), name]), ...(areFull() ? [] : [["new", t("New folder")]])];
    const select = el("select", { "aria-label": label, onchange: () => { input.hidden = input.disabled = select.value !== "new"; } },
      options.map(([value, text]) => el("option", { value, selected: value === (now ? String(names.indexOf(now)) : names.length ? "none" : "new") }, text)));
    const input = folderField("");
    input.hidden = input.disabled = select.value !== "new";
    this.#ask(item, [select, input, el("button", { type: "submit", class: "primary" }, t("Save"))], () => {
      moveThread(thread, select.value === "new" ? input.value.trim() : names[select.value] ?? "");
      announce(t("Thread moved."));
    });
    select.focus();
  }

  #entry(thread) {
    const isCurrent = this.current === thread.id;
    const isPinned = pinned().some(({ id }) => id === thread.id);
    const button = iconButton;
    const box = this.chosen && el("input", { type: "checkbox", checked: this.chosen.has(thread.id), "aria-label": t("Select {title}", { title: thread.title }),
      onchange: ({ target }) => this.#chose(thread.id, target.checked) });
    const item = el("li", { class: isCurrent ? "current" : null },
      box,
      el("a", { href: `#research/${thread.id}`, dir: "auto", "aria-current": isCurrent ? "page" : null }, thread.title),
      isPinned && !this.chosen && el("span", { class: "pinned", "aria-hidden": "true" }, icon("pin")),
      thread.running > 0 && el("span", { class: "running" }, el("span", { class: "dot", "aria-hidden": "true" }), t("running")),
      !thread.running && thread.status === "failed" && el("span", { class: "state failed" }, t("failed")),
      !this.chosen && moreButton(thread.title),
      !thread.running && thread.evidence && smallStrip(thread.evidence),
      !this.chosen && el("span", { class: "entry-buttons" },
        button("pin", isPinned ? t("Unpin {title}", { title: thread.title }) : t("Pin {title}", { title: thread.title }), () => this.#pin(thread, !isPinned)),
        button("folder", t("Move {title} to a folder", { title: thread.title }), () => this.#move(item, thread)),
        button("edit", t("Rename {title}", { title: thread.title }), () => this.#rename(item, thread)),
        button("bin", t("Delete {title}", { title: thread.title }), () => this.#delete(item, thread))));
    return item;
  }

  #rename(item, thread) {
    const input = el("input", { type: "text", "aria-label": t("Title of the thread"), maxlength: maxQueryChars(), required: true, dir: "auto" });
    input.value = thread.title;
    this.#ask(item, [input, el("button", { type: "submit", class: "primary" }, t("Save"))], async () => {
      const title = input.value.trim();
      if (title) await renameThread(thread.id, title);
    });
    input.select();
  }

  #delete(item, thread) {
    const button = el("button", { type: "submit", class: "danger" }, t("Delete"));
    this.#ask(item, [el("p", {}, t("Delete this thread with its answers?")), button], async () => {
      await this.#remove(thread);
      announce(t("Thread deleted."));
    });
    button.focus();
  }

  async #remove(thread) {
    await deleteThread(thread.id);
    import("./kept_files.js").then(({ forgetFiles }) => forgetFiles(thread.id));
    unpin(thread.id);
    moveThread(thread, "");
    this.threads = this.threads.filter((each) => each.id !== thread.id);
    this.onDeleted(thread);
  }

  #pin(thread, isWanted) {
    if (isWanted) pin(thread);
    else unpin(thread.id);
    announce(isWanted ? t("Thread pinned.") : t("Thread unpinned."));
    this.#show();
    const [link] = [...this.list.querySelectorAll("a")].filter((each) => each.getAttribute("href") === `#research/${thread.id}`);
    link?.focus();
  }

  /** Begin to choose threads, or end it. */
  #choose(isChoosing) {
    this.chosen = isChoosing ? new Set() : null;
    this.choosing.hidden = !isChoosing;
    this.#show();
    if (isChoosing) this.#drawChoosing();
    else this.chooser.focus();
  }

  #chose(id, isChosen) {
    if (isChosen) this.chosen.add(id);
    else this.chosen.delete(id);
    this.#drawChoosing();
  }

  /** Above the list: how many are chosen, and what to do with them. A deletion is asked for once more. */
  #drawChoosing() {
    const count = this.chosen.size;
    const confirm = el("button", { type: "submit", class: "danger", disabled: !count }, t("Delete ({n})", { n: number(count) }));
    const act = (event) => {
      event.preventDefault();
      if (confirm.dataset.asked) return void this.#deleteChosen(confirm);
      confirm.dataset.asked = "true";
      confirm.textContent = t("Delete the chosen threads with their answers ({n})?", { n: number(count) });
    };
    this.choosing.replaceChildren(confirm, el("button", { type: "button", onclick: () => this.#choose(false) }, t("Cancel")), el("p", { class: "error", role: "alert" }));
    this.choosing.onsubmit = act;
    this.choosing.onkeydown = (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault(); // else the drawer closes, too
      this.#choose(false);
    };
  }

  /** One after the other; what could not be deleted stays chosen. */
  async #deleteChosen(button) {
    button.disabled = true;
    try {
      for (const id of [...this.chosen]) {
        await this.#remove(this.threads.find((each) => each.id === id) ?? { id });
        this.chosen.delete(id);
      }
      announce(t("Threads deleted."));
      this.#choose(false);
      this.load();
    } catch (problem) {
      this.#show();
      this.#drawChoosing();
      this.choosing.querySelector(".error").replaceChildren(...errorParts(problem));
    }
  }

  /** A form in the place of an entry; Escape and "Cancel" bring it back. */
  #ask(item, content, act) {
    const done = () => {
      form.remove();
      for (const [id, each] of this.entries) if (each.item === item) this.entries.delete(id); // to be drawn anew
      if (item.matches(".folder-head")) item.parentElement.remove();
      this.#show();
      this.load();
      byId("thread-search").focus();
    };
    const error = el("p", { class: "error", role: "alert" });
    const form = el("form", { class: "entry-form" }, content,
      el("button", { type: "button", onclick: done }, t("Cancel")), error);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await act();
        done();
      } catch (problem) {
        error.replaceChildren(...errorParts(problem));
      }
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      done();
    });
    item.replaceChildren(form);
    form.querySelector("input")?.focus();
  }
}

const iconButton = (name, label, action) =>
  el("button", { type: "button", class: "quiet round", "aria-label": label, title: label, onclick: action }, icon(name));

/** On a screen without a pointer that hovers it opens the buttons of an entry, which would else stand below each title. */
function moreButton(title) {
  const label = t("More for {title}", { title });
  const button = el("button", { type: "button", class: "quiet round more", "aria-label": label, title: label, "aria-expanded": "false", onclick: () => {
    button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") === "false"));
  } }, icon("more"));
  return button;
}

function folderField(name) {
  const input = el("input", { type: "text", "aria-label": t("Name of the folder"), maxlength: MAX_NAME_CHARS, required: true, dir: "auto" });
  input.value = name;
  return input;
}

/** The evidence strip of the newest answer, of equal cells. */
function smallStrip({ strip, supported, sentences, quoted_sources: sources }) {
  const label = sources ? quotesLine(sentences, sources) : t("{n} of {all} hold", { n: number(supported), all: number(sentences) });
  return el("span", { class: "small-strip", role: "img", "aria-label": label, title: label },
    [...strip].map((block) => el("i", { class: sources ? "quoted" : VERDICTS_OF_BLOCKS[block] })));
}

/** Let the element have these children; those that are in their place stay untouched. */
function keep(parent, children) {
  children.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}
