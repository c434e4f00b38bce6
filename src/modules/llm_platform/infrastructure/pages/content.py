"""Extracts title, text and date from the bytes of a page. Declared types and encodings are not trusted."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

from modules.llm_platform.domain.exceptions import PageConfigError, PageError
from modules.llm_platform.domain.text.page_starts import PageStarts, convert_page_starts
from modules.llm_platform.infrastructure.pages import bot_walls
from modules.llm_platform.infrastructure.pages.fetch import Fetched, PageRequest
from modules.llm_platform.infrastructure.parsing.async_parsers import AsyncParsers
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument, decode
from modules.llm_platform.infrastructure.parsing.parser_process import Hyperlinks, Parsed, ParserProcess

HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
PDF: Final = "application/pdf"
PAGE_REQUEST: Final = PageRequest({"text/*", "application/xhtml+xml", PDF, ""})  # "": undeclared, so it is detected
PAGE_TITLE_CHARS: Final = 300
MAX_DATE_CHARS: Final = 200_000  # part of the HTML that is searched for a date
SNIFFED_BYTES: Final = 1024

# Invisible characters that a model reads: tags (used to smuggle text), direction overrides, zero-width spaces.
_UNSEEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069\u200b\u2060-\u2064\u00ad\ufeff\ufff9-\ufffb]")
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype html|html|head|body|title|meta|div|p|h1)\b", re.IGNORECASE | re.DOTALL
)
_DATE = r"[\"']?(\d{4}-\d{2}-\d{2}(?:[T ][\d:.]{5,15}(?:Z|[+-]\d{2}:?\d{2})?)?)"
_MONTH_AND_DAY = re.compile(r"-[0-9]{2}-[0-9]{2}")  # found twenty times as fast as a whole date
_NAMED = (
    r"(?:property|name|itemprop)=[\"']?(?:article:published_time|datePublished|date|DC\.date(?:\.issued)?|pubdate"
    r"|publish-?date|citation_publication_date)"
)
_PUBLISHED = (
    re.compile(rf"<meta\s[^<>]{{0,200}}?{_NAMED}[\"']?\s[^<>]{{0,200}}?content={_DATE}", re.IGNORECASE),
    re.compile(rf"<meta\s[^<>]{{0,200}}?content={_DATE}[\"']?\s[^<>]{{0,200}}?{_NAMED}\b", re.IGNORECASE),
    re.compile(rf"\"datePublished\"\s*:\s*{_DATE}"),
    re.compile(rf"<time\s[^<>]{{0,200}}?datetime={_DATE}", re.IGNORECASE),
)
_FIRST_HEADING = re.compile(r"^#{1,3}[ \t]+(\S[^\n]{0,300})", re.MULTILINE)


class Content(NamedTuple):
    title: str
    text: str
    media_type: str
    published: str | None = None
    warning: str | None = None
    hyperlinks: Hyperlinks | None = None
    extraction: float | None = None
    pages: PageStarts = ()


class Parsers(Protocol):
    """Converts HTML and PDF to text. Raises UnreadableDocument."""

    async def prepare(self) -> None: ...

    async def html(self, html: str) -> Parsed: ...

    async def linked_html(self, html: str, *, is_whole: bool = False) -> Parsed:
        """Return the text with `hyperlinks`. With `is_whole`, it is all visible text."""

    async def pdf(self, data: bytes) -> Parsed: ...


async def extract_content(
    page: Fetched, parsers: Parsers, *, with_links: bool = False, needs_text: bool = True, is_whole: bool = False
) -> Content:
    """Return the content of a page. Its bytes are taken from it.

    - `with_links` adds the links of HTML. A page with links then needs text only if `needs_text`.
    - `is_whole` asks for all visible text.

    Raises PageError for a page without text, PageBlockedError for a wall, and PageConfigError if the extra is not installed.
    """
    media_type = page.media_type or _sniff_type(page.body)
    try:
        if media_type == PDF:
            parsed, html = await parsers.pdf(page.take_body()), ""
        else:
            decoded = decode(page.take_body(), html=media_type in HTML, declared=page.charset)
            html = decoded.text if media_type in HTML else ""
            if not html:
                parsed = Parsed(decoded.text)
            elif with_links:
                parsed = await parsers.linked_html(decoded.text, is_whole=is_whole)
            else:
                parsed = await parsers.html(decoded.text)
            parsed = replace(parsed, note=parsed.note or decoded.note)
    except UnreadableDocument as error:
        raise _make_unreadable_error(str(error), media_type) from error
    text, title = remove_invisible(parsed.text), remove_invisible(parsed.title or "")
    path = page.address.target.partition("?")[0]
    has_links = parsed.hyperlinks is not None and bool(parsed.hyperlinks.links)
    sample = bot_walls.PageSample(page.address.host, path, title, text, html)
    bot_walls.check_bot_wall(sample, needs_text=needs_text or not has_links)
    title = (
        title
        or _find_heading(text)
        or unquote(path.rstrip("/").rpartition("/")[2], errors="replace")
        or page.address.host
    )
    return Content(
        title[:PAGE_TITLE_CHARS],
        text,
        media_type,
        find_published(html),
        parsed.note,
        parsed.hyperlinks,
        parsed.extraction,
        convert_page_starts(parsed.text, parsed.pages, _remove_unseen, text),
    )


def remove_invisible(text: str) -> str:
    return _remove_unseen(text).strip()


def _remove_unseen(text: str) -> str:
    return text if text.isascii() else _UNSEEN.sub("", text)


def hash_text(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def find_published(html: str) -> str | None:
    """Return the publication date in the page's metadata, ISO 8601 as written."""
    head = html[:MAX_DATE_CHARS]
    if not _MONTH_AND_DAY.search(head):
        return None
    return next((found[1] for pattern in _PUBLISHED if (found := pattern.search(head))), None)


def _sniff_type(body: bytes) -> str:
    start = body[:SNIFFED_BYTES]
    if start.startswith(b"%PDF-"):
        return PDF
    return "text/html" if _LOOKS_LIKE_HTML.match(start.removeprefix(b"\xef\xbb\xbf")) else "text/plain"


def _make_unreadable_error(why: str, media_type: str) -> PageError | PageConfigError:
    if "needs: pip install" in why:
        return PageConfigError(f"Pages cannot be read: {why}")
    kinds: Mapping[bool, str] = {True: "PDF", False: "page"}
    return PageError(f"The {kinds[media_type == PDF]} cannot be read: {why}")


def _find_heading(text: str) -> str:
    found = _FIRST_HEADING.search(text[:5000])
    return found[1].strip() if found else ""


class PageParsers(AsyncParsers):
    """Converts HTML and PDF to text in child processes, off the event loop. Raises UnreadableDocument."""

    async def prepare(self) -> None:
        """Start a child process and load what it needs, unless there is one."""
        if not self.has_child:
            await self.html("<p>page</p>")

    async def html(self, html: str) -> Parsed:
        return await self.run(lambda parser: parser.page(html))

    async def linked_html(self, html: str, *, is_whole: bool = False) -> Parsed:
        return await self.run(lambda parser: parser.linked_page(html, is_whole=is_whole))

    async def pdf(self, data: bytes) -> Parsed:
        return await self.run(lambda parser: _parse_pdf(parser, data))


def _parse_pdf(parser: ParserProcess, data: bytes) -> Parsed:
    with tempfile.TemporaryDirectory(prefix="llm-platform-") as folder:
        path = Path(folder) / "page.pdf"
        path.write_bytes(data)
        return parser.pdf_page(path)
