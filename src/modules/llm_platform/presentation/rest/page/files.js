// Files of a question: read in the browser, sent with the question, kept nowhere.

import { number, size, t } from "./texts.js";

export const SUFFIXES = ".md,.markdown,.txt,.text,.log,.csv,.tsv,.rst,.html,.htm,.pdf,.docx,.xlsx,.pptx,.epub,.ipynb"; // what a server reads as documents
const MAX_NAME_CHARS = 100;
// Signs that print nothing or turn the order of those around them: `report\u202Efdp.exe` would be shown as `reportexe.pdf`.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The files of one question, within the limits of the server: `{name, size, read()}` each. `earlier` are the `files` of another
request; `changed()` is called after each change. */
export class Files {
  constructor(earlier, changed) {
    this.list = earlier.map(({ name, content }) => ({ name, size: Math.floor((content.replace(/=+$/, "").length * 3) / 4), read: () => content }));
    this.limits = { max_files: 5, max_file_bytes: 10_000_000 }; // until the server has said its own
    this.changed = changed;
  }

  /** Take files; what is wrong with those that were not taken, else nothing. */
  add(files) {
    const problems = [];
    for (const file of files) {
      const name = nameOf(file);
      if (this.list.some((each) => each.name === name && each.size === file.size)) continue;
      const problem = this.#problem(name, file.size);
      if (problem) problems.push(problem);
      else this.list.push({ name, size: file.size, read: () => base64(name, file) });
    }
    this.changed();
    return [...new Set(problems)].join(" ");
  }

  clear() {
    this.list = [];
    this.changed();
  }

  /** Each as `{label, size, remove}`. */
  get chips() {
    return this.list.map((each) => ({
      label: each.name,
      size: size(each.size),
      remove: () => {
        this.list = this.list.filter((other) => other !== each);
        this.changed();
      },
    }));
  }

  /** The field of a request; nothing without files. */
  async request() {
    if (!this.list.length) return {};
    return { files: await Promise.all(this.list.map(async ({ name, read }) => ({ name, content: await read() }))) };
  }

  #problem(name, bytes) {
    const { max_files: most, max_file_bytes: limit } = this.limits;
    if (!SUFFIXES.split(",").some((suffix) => name.toLowerCase().endsWith(suffix)))
      return t("“{name}” is not a supported file type. Supported: {types}.", { name, types: SUFFIXES.replaceAll(",", ", ") });
    if (!bytes) return t("“{name}” is empty.", { name });
    if (this.list.length >= most) return t("At most {n} files.", { n: number(most) });
    const all = this.list.reduce((sum, each) => sum + each.size, bytes);
    return all > limit ? t("“{name}” is too large: all files together have at most {max}.", { name, max: size(limit) }) : "";
  }
}

/** What could not be read is said with its name: it may have been moved since it was chosen. */
export class UnreadableFile extends Error {
  constructor(name) {
    super(t("“{name}” cannot be read.", { name }));
  }
}

function nameOf(file) {
  const name = file.name.replace(UNSEEN, "").trim() || "file";
  const dot = name.lastIndexOf(".");
  return name.length <= MAX_NAME_CHARS ? name : name.slice(0, MAX_NAME_CHARS - 10) + name.slice(dot < 0 ? name.length : dot).slice(0, 10);
}

function base64(name, file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => reject(new UnreadableFile(name)));
    reader.readAsDataURL(file);
  });
}
