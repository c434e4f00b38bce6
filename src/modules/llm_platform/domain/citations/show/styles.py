"""The citations of an answer in academic citation styles: in the text, and as a list after it.

Nothing is invented: a page of the web has a title, a host, an address and, where it states one, a date. Its author is not
known, so the title is in the author's place, as the styles prescribe for such pages.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.citations.show.source_pages import format_pages, list_cited_pdf_pages
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS, Citation
from modules.llm_platform.domain.markdown.escaping import code_span, escape_line, link_target
from modules.llm_platform.domain.markdown.markers import replace_markers
from modules.llm_platform.domain.urls.canonical_url import get_host

CitationStyle = Literal["numbered", "apa", "mla", "chicago"]

SHORT_TITLE_WORDS: Final = 4  # words of a title that the text shows
NO_DATE: Final = "n.d."
MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
MLA_MONTHS: Final = ("Jan.", "Feb.", "Mar.", "Apr.", "May", "June", "July", "Aug.", "Sept.", "Oct.", "Nov.", "Dec.")
HEADINGS: Final[Mapping[CitationStyle, str]] = {
    "numbered": "Sources",
    "apa": "References",
    "mla": "Works Cited",
    "chicago": "Bibliography",
}

_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)  # the beginning of every ISO 8601 format with a day
_MONTH_OR_YEAR = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)


def read_date_parts(published: str | None) -> tuple[int, ...]:
    """Return the year, month and day of an ISO 8601 date, as far as they are known; empty for anything else."""
    text = (published or "").strip()
    match = _DAY.match(text) or _MONTH_OR_YEAR.fullmatch(text)
    if match is None:
        return ()
    parts = tuple(int(part) for part in match.groups() if part)
    try:
        date(*(*parts, 1, 1)[:3])
    except ValueError:
        return ()
    return parts


@dataclass(frozen=True, slots=True)
class Reference:
    """A source as the styles cite it. `site` is its host, empty for a document."""

    index: int
    title: str
    site: str
    url: str
    issued: tuple[int, ...] = ()
    pages: tuple[int, ...] = ()  # the pages of a PDF at which its quotes begin

    @property
    def year(self) -> str:
        return str(self.issued[0]) if self.issued else NO_DATE

    @property
    def target(self) -> str:
        """The address as Markdown."""
        return link_target(self.url) if self.site else code_span(self.url)


def render_citations(response: ResearchResponse, style: CitationStyle) -> str:
    """Return the text of an answer with its citations in a style, and the list of the sources that it cites."""
    text, references = response.synthesis, render_reference_list(response, style)
    if style != "numbered":
        labels = _make_labels(list_references(response), _STYLES[style].label)
        page_at, page_format = _make_page_finder(response.citations), _STYLES[style].page_format

        def render_marker(numbers: Sequence[int], position: int) -> str:
            found: dict[str, None] = {}
            for number in (number for number in numbers if number in labels):
                page = page_at(number, position)
                found[labels[number] + (page_format.format(page) if page else "")] = None
            return f"({'; '.join(found)})" if found else ""

        text = replace_markers(text, render_marker)
    return f"{text.rstrip()}\n\n{references}" if references else text


def render_reference_list(response: ResearchResponse, style: CitationStyle) -> str:
    """Return the list of the sources that the text cites, as a section: by number, or by title; empty without sources."""
    pages = list_references(response)
    if not pages:
        return ""
    if style != "numbered":
        pages.sort(key=lambda page: page.title.casefold())
    entries = "\n".join(f"- {_STYLES[style].entry(page)}" for page in pages)
    return f"## {HEADINGS[style]}\n\n{entries}\n"


def list_references(response: ResearchResponse) -> list[Reference]:
    """Return the sources that the text cites, by number."""
    published = {raw.url: raw.published for raw in response.raw_results or ()}
    pages = list_cited_pdf_pages(response.citations)
    return [
        Reference(
            source.index,
            " ".join(source.title.split()) or get_host(source.url) or source.url,
            get_host(source.url).removeprefix("www."),
            source.url,
            read_date_parts(published.get(source.url)),
            pages.get(source.index, ()),
        )
        for source in response.sources
    ]


def _make_page_finder(citations: Iterable[Citation]) -> Callable[[int, int], int | None]:
    """Return a function that finds the page of a PDF with the quote for a marker, by the marker's number and offset."""
    by_source: dict[int, list[Citation]] = {}
    for citation in sorted(citations, key=lambda citation: citation.start):
        by_source.setdefault(citation.source_index, []).append(citation)

    def find(number: int, position: int) -> int | None:
        cited = by_source.get(number, [])
        before = bisect_right(cited, position, key=lambda citation: citation.start)
        return cited[before - 1].page if before and cited[before - 1].verdict in SUPPORTING_VERDICTS else None

    return find


def _make_labels(pages: Sequence[Reference], label: Callable[[str, Reference], str]) -> dict[int, str]:
    """Return the label of each source in the text: its short title, or as many words as make it unique."""
    named: dict[int, str] = {}
    for name in (_shorten_title, _get_title, _add_site):
        given = {page.index: label(name(page), page) for page in pages if page.index not in named}
        times = Counter(given.values())
        named |= {index: text for index, text in given.items() if times[text] == 1 or name is _add_site}
    return named


def _shorten_title(page: Reference) -> str:
    return " ".join(page.title.split()[:SHORT_TITLE_WORDS]).rstrip(".,:;—–-")


def _get_title(page: Reference) -> str:
    return page.title


def _add_site(page: Reference) -> str:
    return f"{page.title}, {page.site or page.url}"


def _end_sentence(text: str) -> str:
    """Return the text with a full stop, unless it has an end of its own."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _join_parts(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _write_numbered_entry(page: Reference) -> str:
    day = "-".join(f"{part:02}" for part in page.issued)
    title, part = _end_sentence(escape_line(page.title)), format_pages(page.pages)
    return _join_parts(
        f"[{page.index}]", title, f"{day}." if day else "", f"{part.capitalize()}." if part else "", page.target
    )


def _write_apa_entry(page: Reference) -> str:
    """Return an entry such as `Title. (2026, March 31). Site. Address`."""
    month = " ".join([MONTHS[page.issued[1] - 1], *map(str, page.issued[2:])]) if len(page.issued) > 1 else ""
    day = f"({page.year}, {month})." if month else f"({page.year})."
    return _join_parts(_end_sentence(escape_line(page.title)), day, page.site and f"{page.site}.", page.target)


def _write_mla_entry(page: Reference) -> str:
    """Return an entry such as `“Title.” Site, 31 Mar. 2026, Address.`"""
    month = MLA_MONTHS[page.issued[1] - 1] if len(page.issued) > 1 else ""
    day = _join_parts(*map(str, page.issued[2:]), month, *map(str, page.issued[:1]))
    return _join_parts(
        f"“{_end_sentence(escape_line(page.title))}”", ", ".join(filter(None, (page.site, day, f"{page.target}.")))
    )


def _write_chicago_entry(page: Reference) -> str:
    """Return an entry such as `“Title.” Site. March 31, 2026. Address.`"""
    month = " ".join([MONTHS[page.issued[1] - 1], *map(str, page.issued[2:])]) if len(page.issued) > 1 else ""
    day = _end_sentence(f"{month}, {page.year}" if len(page.issued) > 2 else _join_parts(month, page.year))
    title = f"“{_end_sentence(escape_line(page.title))}”"
    return _join_parts(title, page.site and f"{page.site}.", day, f"{page.target}.")


class _Style(NamedTuple):
    """One citation style.

    - `label` returns the name of a source in the text, made from a title.
    - `entry` returns its entry in the list.
    - `page_format` is the format of the page of a PDF after the label.
    """

    label: Callable[[str, Reference], str]
    entry: Callable[[Reference], str]
    page_format: str = ""


_STYLES: Final[Mapping[CitationStyle, _Style]] = {
    "numbered": _Style(lambda title, page: f"[{page.index}]", _write_numbered_entry),
    "apa": _Style(lambda title, page: f"“{escape_line(title)},” {page.year}", _write_apa_entry, ", p. {}"),
    "mla": _Style(lambda title, page: f"“{escape_line(title)}”", _write_mla_entry, " {}"),
    "chicago": _Style(lambda title, page: f"“{escape_line(title)}” {page.year}", _write_chicago_entry, ", {}"),
}
