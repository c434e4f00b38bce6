// The contents of a long answer: they stay in view while the text scrolls.

import { el } from "./dom.js";
import { t } from "./texts.js";

const MIN_HEADINGS = 4; // a shorter text is seen at a glance

export function contentsOf(answer) {
  const headings = [...answer.querySelectorAll("h1, h2, h3")];
  if (headings.length < MIN_HEADINGS) return "";
  const menu = el("details", { class: "contents" }, el("summary", {}, t("Contents")),
    el("ol", {}, headings.map((heading) => el("li", { class: heading.localName },
      el("button", { type: "button", class: "link", dir: "auto", onclick: () => show(heading) }, heading.textContent)))));
  const show = (heading) => {
    menu.open = false;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    heading.scrollIntoView();
  };
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") menu.open = false;
  });
  return menu;
}
