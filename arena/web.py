"""The frozen web: pages with an address, a date and a fault, from three places.

- arena/pages/*.txt, which were written for the arena: pages that contradict each other, are outdated, hostile, slow or broken;
- the HTML of documentation packages of Debian (`make debian-docs` fetches it), of which a fixed sample is taken;
- ARENA_PAGES: folders of HTML, or JSON lines with an address and HTML, or with a title and a text.

A page of the arena is `=== host/path`, lines of `name: value`, then Markdown. `slow: 6` waits six seconds. `broken` is `500`
(an error), `cut` (the connection ends within the page), `loop` (redirects to itself) or `garbage` (bytes that are not text).
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt

WRITTEN: Final = Path(__file__).resolve().parent / "pages"
MAX_MANUAL_PAGES: Final = 440  # with the pages of the keys, besides those written for the arena
SEARCH_RULES: Final = 2  # raised when the search engine changes: its results are part of the frozen web
MAX_GIVEN_PAGES: Final = 300  # of each entry of ARENA_PAGES
SITES: Final = {
    "git.docs.test": "git-doc",
    "sqlite.docs.test": "sqlite3",
    "postgresql.docs.test": "postgresql-doc-*/html",
    "policy.docs.test": "debian-policy",
    "faq.docs.test": "debian/FAQ",
}  # folders of Debian's packages by host name, as patterns
_DROPPED = re.compile(r"<(script|style|head|nav|svg)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_BLOCK = re.compile(r"</?(?:p|div|h\d|li|ul|ol|table|tr|pre|section|article|br|dt|dd|dl|hr)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_LINK = re.compile(r"http://([a-z0-9.-]+\.test)(?=[/)\"<\s])")
_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


@dataclass(frozen=True)
class FrozenPage:
    """A page. `place` is its address without scheme and port. `date` is ISO 8601 or empty."""

    place: str
    title: str
    html: str = field(repr=False)
    date: str = ""
    slow_s: float = 0.0
    broken: str = ""

    @property
    def host(self) -> str:
        return self.place.partition("/")[0]

    @cached_property
    def text(self) -> str:
        """What a reader sees, one block a line; hidden text is in it, as in the text that many readers extract."""
        return text_of(self.html)

    @cached_property
    def running_text(self) -> str:
        """The text without title and date at its head, from which engines take no excerpt."""
        lines = self.text.splitlines()
        while lines and lines[0] in (self.title, self.date):
            lines.pop(0)
        return "\n".join(lines)


def text_of(markup: str) -> str:
    blocks = _BLOCK.sub("\n", _DROPPED.sub(" ", markup))
    lines = (" ".join(line.split()) for line in html.unescape(_TAG.sub("", blocks)).splitlines())
    return "\n".join(line for line in lines if line)


def place_of(url: str) -> str:
    """Return the address of a page without scheme, port, query and fragment."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        return f"{parts.hostname or ''}{parts.path or '/'}"
    except ValueError:
        return url


def read_written(port: int, folder: Path = WRITTEN) -> list[FrozenPage]:
    """Return the pages that were written for the arena. Links between them carry the port."""
    pages: list[FrozenPage] = []
    copies: list[tuple[FrozenPage, str]] = []
    for file in sorted(folder.glob("*.txt")):
        for record in file.read_text(encoding="utf-8").split("=== ")[1:]:
            place, _, rest = record.partition("\n")
            page, original = _written(place.strip(), rest, port)
            pages.append(page)
            if original:
                copies.append((page, original))
    by_place = {page.place: page for page in pages}
    for page, original in copies:
        copy = by_place[original]
        pages[pages.index(page)] = FrozenPage(page.place, page.title, copy.html, page.date)
    return pages


def _written(place: str, record: str, port: int) -> tuple[FrozenPage, str]:
    head: dict[str, str] = {}
    lines = record.splitlines()
    while lines and (match := re.fullmatch(r"(title|date|slow|broken|copy-of): (.*)", lines[0])):
        head[match[1]] = match[2]
        lines.pop(0)
    body = _MARKDOWN.render(_LINK.sub(rf"http://\1:{port}", "\n".join(lines)))
    date = head.get("date", "")
    markup = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(head["title"])}</title>'
        f'<meta property="article:published_time" content="{date}"></head><body><main>'
        f"<h1>{html.escape(head['title'])}</h1>\n<p><time datetime={date!r}>{date}</time></p>\n{body}</main></body></html>"
    )
    page = FrozenPage(place, head["title"], markup, date, float(head.get("slow", 0)), head.get("broken", ""))
    return page, head.get("copy-of", "")


def read_manuals(folder: Path, wanted: Iterable[str], limit: int = MAX_MANUAL_PAGES) -> list[FrozenPage]:
    """Return the wanted pages and a sample of the others, which hangs on their addresses alone."""
    files = {
        f"{host}/{file.relative_to(root).as_posix()}": file
        for host, pattern in SITES.items()
        for root in sorted(folder.glob(pattern))[-1:]
        for file in sorted(root.rglob("*.htm*"))
        if file.is_file()
    }
    chosen = [place for place in wanted if place in files]
    others = sorted(files.keys() - set(chosen), key=lambda place: hashlib.sha256(place.encode()).digest())
    chosen += others[: max(0, limit - len(chosen))]
    return [_page(place, files[place].read_text(encoding="utf-8", errors="replace")) for place in sorted(chosen)]


def _page(place: str, markup: str, title: str = "", date: str = "") -> FrozenPage:
    if not title and (found := _TITLE.search(markup)):
        title = " ".join(html.unescape(_TAG.sub("", found[1])).split())
    return FrozenPage(place, title or place, markup, date)


def read_given(path: Path, limit: int = MAX_GIVEN_PAGES) -> list[FrozenPage]:
    """Return the first pages of a folder of HTML, or of JSON lines (also .gz)."""
    if path.is_dir():
        host = re.sub(r"[^a-z0-9-]+", "-", path.name.lower()).strip("-") + ".given.test"
        files = sorted(file for file in path.rglob("*.htm*") if file.is_file())[:limit]
        return [
            _page(f"{host}/{file.relative_to(path).as_posix()}", file.read_text(encoding="utf-8", errors="replace"))
            for file in files
        ]
    name = re.sub(r"[^a-z0-9-]+", "-", path.name.split(".")[0].lower())
    opener = gzip.open if path.suffix == ".gz" else open
    pages: list[FrozenPage] = []
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if len(pages) == limit:
                break
            if page := _given(json.loads(line), name):
                pages.append(page)
    return pages


def _given(row: dict[str, Any], name: str) -> FrozenPage | None:
    """Read a row with `url` or `claim` and `html` or `source`, or with `doc_id`, `title` and `text`. None: it has no page."""
    url, markup = row.get("url") or row.get("claim"), row.get("html") or row.get("source")
    if url and markup:
        place = place_of(url)
        host, _, path = place.partition("/")
        return _page(f"{host}.given.test/{path}", markup)
    title, text = str(row.get("title") or ""), str(row.get("text") or "")
    if not text:
        return None
    markup = f"<html><head><title>{html.escape(title)}</title></head><body><h1>{html.escape(title)}</h1>"
    markup += "".join(f"<p>{html.escape(line)}</p>" for line in text.splitlines() if line) + "</body></html>"
    return _page(f"{name}.given.test/{row.get('doc_id', title)}.html", markup, title)


@dataclass(frozen=True)
class FrozenWeb:
    """All pages, the first of each address."""

    pages: Sequence[FrozenPage]

    @cached_property
    def by_place(self) -> dict[str, FrozenPage]:
        return {page.place: page for page in reversed(self.pages)}

    @cached_property
    def hosts(self) -> frozenset[str]:
        return frozenset(page.host for page in self.pages)

    def find(self, url: str) -> FrozenPage | None:
        place = place_of(url)
        return self.by_place.get(place) or self.by_place.get(f"{place.rstrip('/')}/index.html")

    @cached_property
    def digest(self) -> str:
        """A digest of all addresses and texts, and of the search rules: two tables compare only if it is the same."""
        sha = hashlib.sha256(f"search {SEARCH_RULES}\n".encode())
        for page in sorted(self.pages, key=lambda page: page.place):
            sha.update(f"{page.place}\n{page.date}\n{page.broken}\n{page.html}\n".encode())
        return sha.hexdigest()[:16]


def build_web(manuals: Path | None, given: Iterable[Path], wanted: Iterable[str], port: int) -> FrozenWeb:
    """Return the web of the arena. `manuals` is the folder of Debian's documentation, if there is one."""
    return FrozenWeb(tuple(_collect(manuals, given, wanted, port)))


def _collect(manuals: Path | None, given: Iterable[Path], wanted: Iterable[str], port: int) -> Iterator[FrozenPage]:
    yield from read_written(port)
    if manuals is not None:
        yield from read_manuals(manuals, wanted)
    for path in given:
        yield from read_given(path)
