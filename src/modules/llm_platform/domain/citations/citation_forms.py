"""Read the citations that people and models write, and rewrite them as markers `[n]`.

The citation checker reads the rewritten text; `CitedText.span` maps a sentence of it back to the text as sent. The known
forms are listed in docs/reference/citation-forms.md. Reading takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.author_year import (
    YEAR,
    Bibliography,
    BibliographyEntry,
    narrated_number,
    parenthesised_numbers,
)
from modules.llm_platform.domain.citations.source_lists import (
    ADDRESS_START,
    LINK,
    LINK_TEXT,
    LINK_URL,
    MAX_NUMBER,
    ListedSource,
    TextLine,
    addresses_in,
    find_source_lists,
    text_lines,
    url_in,
    with_scheme,
)
from modules.llm_platform.domain.markdown.addresses import address_at
from modules.llm_platform.domain.markdown.markers import CODE_SPAN, MARKER, cited_numbers
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.page_starts import PageStarts
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.urls.canonical_url import (
    MAX_URL_CHARS,
    canonical_url,
    host_of,
    is_openable,
    is_web_url,
)

CODE_KINDS: Final = frozenset({"code", "fence", "indented"})
GENERIC_LABELS: Final = frozenset({"source", "link", "ref", "reference", "here", "web", "quelle", "fuente", "来源", "出典"})

_REFERENCE_LINK = r"\[(?!\^|\d{1,4}\])[^\[\]\n]{1,300}\]\[[^\[\]\n]{0,80}\]"
_BARE = r"<?https?://[^\s()<>\[\]]{3,2000}(?:\([^\s()]{0,200}\)[^\s()<>]{0,500}){0,4}>?"
_ONE = rf"(?:{LINK}|{_REFERENCE_LINK}|{_BARE})"
_LEAD = r"(?:(?:see|sources?|via|e\.g\.|cf\.|quellen?|fuentes?)[:,]?[ ]{1,3})?"
_TOKEN = lazy_pattern(
    rf"(?P<group>\(\s?{_LEAD}{_ONE}(?:[\s,;·|]{{0,4}}(?:and[ ])?{_ONE}){{0,30}}\s?\))"
    rf"|(?P<image>!{LINK})"
    rf"|(?P<link>{LINK})"
    rf"|(?P<wrapped>\[\[\d{{1,4}}\]\]\({LINK_URL}\))"
    rf"|(?P<reference>{_REFERENCE_LINK})"
    r"|(?P<file>【\d{1,4}:\d{1,4}†[^】\n]{0,120}】)"
    rf"|(?P<marker>{MARKER.pattern}(?::\s?\d{{1,4}}(?:[–-]\d{{1,4}})?(?![\d.]))?)"
    r"|(?P<footnote>\[\^[^\]\[\s]{1,60}\])"
    r"|(?P<named>\[[^\[\]\n]{2,200}\])"
    r"|(?P<sup><sup>[^<>\n]{1,60}</sup>)"
    r"|(?P<ref><ref(?:\s[^<>\n]{0,200})?(?:/>|>[^<]{0,2000}</ref>))"
    r"|(?P<cite><cite\s[^<>\n]{1,200}>(?P<said>[^<]{0,4000})</cite>)"
    r"|(?P<parens>\([^()\n]{2,300}\))"
    r"|(?P<superscript>(?<![\s\d²³])[¹²³⁰⁴-⁹]{1,3}(?:[,˒⁻ ]{1,2}[¹²³⁰⁴-⁹]{1,3}){0,9})"
    r"|(?P<digits>(?:(?<=[^\W\d_][.!?])|(?<=[)\]%”\"’][.!?])|(?<=[.!?][)”\"’])|(?<=(?:19|20)\d\d\.))"
    r"\d{1,3}(?:,[ ]?\d{1,3}){0,9}(?=\s*\Z|\s+(?-i:[^a-z\s])))"
    r"|(?P<address><?https?://|(?<![\w.@/])www\.)",
    re.I,
)
_ONE_IN_GROUP = re.compile(rf"(?P<link>{LINK})|(?P<reference>{_REFERENCE_LINK})|(?P<address>https?://)", re.I)
_LINK_PARTS = re.compile(rf"\[({LINK_TEXT})\]\(({LINK_URL})")
_REFERENCE_PARTS = re.compile(r"\[([^\[\]\n]{1,300})\]\[([^\[\]\n]{0,80})\]")
_LABEL_NUMBER = re.compile(r"[\[\\^#(\s]*(\d{1,3})[\])\\\s]*\Z")
_NUMBER = re.compile(r"\d+")
_SUPERSCRIPTS = str.maketrans("¹²³⁰⁴⁵⁶⁷⁸⁹", "1230456789")
_INDEX = re.compile(r"index=[\"']?([\d\s,:.-]{1,150})", re.I)
_NAME = re.compile(r"name\s*=\s*[\"']?([^\"'/>]{1,80})", re.I)
_REF_PARTS = re.compile(r"<ref([^<>]*?)(?:/>|>([^<]*)</ref>)", re.I)
_NO_CITATION = re.compile(r"\[(?:citation needed|clarification needed|better source needed|when\?|who\?|edit)\]\Z", re.I)
_YEARS_ALONE = re.compile(rf"\(\s*{YEAR}[^()]{{0,40}}\)\Z")
_SENTENCE_END_BEFORE = re.compile(r"[.!?。！？][\"'”’»)*_]*\s*\Z")
_MARKER_BEFORE = re.compile(r"\[\d{1,9}\]\s*\Z")


@dataclass(frozen=True, slots=True)
class GivenSource:
    """A source that the caller sends along with the text.

    - `index` is the number, from 1, by which the text cites the source.
    - `url` is its address, and `text` its content; either may be empty.
    - `title` is a name by which the text may also cite it.
    - `pages` says where the pages of a PDF begin in `text`.
    - `is_numbered` is False if the text does not cite the source by `index`. The source then takes the number of the list
      entry that has its title.
    """

    index: int
    url: str = ""
    title: str = ""
    text: str = ""
    pages: PageStarts = ()
    is_numbered: bool = True


@dataclass(slots=True)
class NamedSource:
    """A source that a text names.

    - `url` is empty if neither the text nor the caller gives an address.
    - `is_listed` is False if the text cites the number and no source has it.
    - `is_numbered` is False for a given source that the text does not cite by its number.
    """

    index: int
    url: str
    title: str = ""
    text: str = ""
    is_listed: bool = True
    pages: PageStarts = ()
    is_numbered: bool = True


class _Piece(NamedTuple):
    """A part of the rewritten text. Offsets are in code points.

    - `start` is its offset in the rewritten text.
    - `original` and `original_end` delimit what it stands for in the text as sent.
    - `is_copied` is True if both texts are equal there.
    - `link` is the span of the whole link if the part is the words of one.
    """

    start: int
    original: int
    original_end: int
    is_copied: bool
    link: Span | None = None


@dataclass(slots=True)
class CitedText:
    """A text whose citations are markers `[n]` of its `sources`, without its lists of sources."""

    markdown: str
    sources: tuple[NamedSource, ...]
    _pieces: Sequence[_Piece] = field(repr=False)

    def span(self, start: int, end: int) -> Span:
        """Return where a sentence of `markdown` stands in the text as sent, including whole links at its ends."""
        first, last = self._piece(start, is_end=False), self._piece(end, is_end=True)
        begin, stop = self.words_span(start, end)
        if first and first.link and begin == first.original:
            begin = first.link[0]
        if last and last.link and stop == last.original_end:
            stop = last.link[1]
        return begin, stop

    def words_span(self, start: int, end: int) -> Span:
        """Return where some words of `markdown` stand in the text as sent."""
        return self._original(start, is_end=False), self._original(end, is_end=True)

    def _original(self, at: int, *, is_end: bool) -> int:
        piece = self._piece(at, is_end=is_end)
        if piece is None:
            return 0
        if piece.is_copied:
            return min(piece.original + at - piece.start, piece.original_end)
        return piece.original_end if is_end else piece.original

    def _piece(self, at: int, *, is_end: bool) -> _Piece | None:
        if not self._pieces:
            return None
        found = bisect_right(self._pieces, at - is_end, key=lambda piece: piece.start) - 1
        return self._pieces[max(0, found)]


def read_citations(text: str, given: Sequence[GivenSource] = ()) -> CitedText:
    """Return the text with markers `[n]`, and its sources: those `given`, and those that the text lists or links to."""
    lines = text_lines(text)
    lists = find_source_lists(lines)
    sources = _Sources(given, lists.entries)
    prose = (line.text for at, line in enumerate(lines) if at not in lists.lines and line.kind not in CODE_KINDS)
    sources.reserve_cited_numbers(prose)
    return _Rewriter(text, sources).rewrite(lines, lists.lines)


class _Sources:
    """The sources of a text, found by number, address, footnote name or author. A new address gets the next free number."""

    def __init__(self, given: Sequence[GivenSource], entries: Sequence[ListedSource]) -> None:
        self._by_number: dict[int, NamedSource] = {}
        self._by_address: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self.bibliography = Bibliography()
        self._free = count(1)
        for source in given:
            named = NamedSource(
                source.index, source.url, source.title, source.text, pages=source.pages, is_numbered=source.is_numbered
            )
            self._add(source.index, named)
            if source.title:
                self.name(source.title, source.index)
        self._add_entries(entries)
        for source in given:
            number = source.index if source.index in self._by_number else self.named(source.title) or source.index
            if entry := BibliographyEntry.of(number, source.title):
                self.bibliography.add(entry)
        self.known = sorted(self._by_number)

    def _add_entries(self, entries: Sequence[ListedSource]) -> None:
        numbered = [entry for entry in entries if entry.label.isdigit() and 0 < int(entry.label) <= MAX_NUMBER]
        footnotes = [entry for entry in entries if entry.label[:1] == "^" and entry.label[1:].isdigit()]
        for entry in (*numbered, *footnotes):
            number = int(entry.label.lstrip("^"))
            if number not in self._by_number:
                self._add(number, self._listed(entry, number))
            elif entry.label[0] != "^":
                continue  # the first of two lists with the same numbers counts
            elif entry.url and canonical_url(entry.url) != canonical_url(self._by_number[number].url):
                number = self._next()
                self._add(number, NamedSource(number, entry.url, entry.title))
            self._add_names(entry, number)
        done = {id(entry) for entry in (*numbered, *footnotes)}
        for entry in entries:
            if id(entry) not in done:
                self._add_names(entry, self.number_for(entry.url, entry.title))

    def _listed(self, entry: ListedSource, number: int) -> NamedSource:
        """Return the source of a list entry. An entry that names a given source, such as a file, gets that source's text."""
        given = None if entry.url else self._by_number.get(self.named(entry.title) or 0)
        if given is None:
            return NamedSource(number, entry.url, entry.title)
        if not given.is_numbered:
            del self._by_number[given.index]
            self._by_name[entry.title.casefold()] = number
        return NamedSource(number, "", entry.title, given.text, pages=given.pages)

    def _add_names(self, entry: ListedSource, number: int) -> None:
        """Let later citations find the entry by its label and its author."""
        if entry.label:
            self._by_name.setdefault(entry.label.casefold(), number)
        if (found := BibliographyEntry.of(number, entry.text)) is not None:
            self.bibliography.add(found)

    def reserve_cited_numbers(self, prose: Iterable[str]) -> None:
        """Reserve the numbers that the text cites without listing a source for them."""
        for line in prose:
            if "[" not in line and "【" not in line and "［" not in line:
                continue
            for found in MARKER.finditer(CODE_SPAN.sub(_blank, line)):
                if line.startswith("(", found.end()):
                    continue  # `[1](https://…)` is a link with its own address
                for number in map(int, _NUMBER.findall(found[1])[:1]):
                    if 0 < number <= MAX_NUMBER and number not in self._by_number and found[1].strip("^").isdigit():
                        self._by_number[number] = NamedSource(number, "", is_listed=False)
        self.known = sorted(self._by_number)

    def cited_in(self, listed: str) -> list[int]:
        """Return the numbers in a list such as `1, 3-5` that belong to a source."""
        return cited_numbers(listed, self.known) or []

    def listed_in(self, listed: str) -> list[int]:
        """Return the numbers in a list such as `1, 3`; empty unless each of them has an entry."""
        numbers = [int(number) for number in _NUMBER.findall(listed)]
        are_listed = all(number in self._by_number and self._by_number[number].is_listed for number in numbers)
        return numbers if are_listed else []

    def named(self, name: str) -> int | None:
        return self._by_name.get(name.casefold())

    def number_for(self, url: str, title: str = "", wanted: int | None = None) -> int:
        """Return the number of an address. A new address gets the `wanted` number if that is free, else the next free one."""
        key = canonical_url(url) if url else ""
        if key and key in self._by_address:
            return self._by_address[key]
        taken = self._by_number.get(wanted) if wanted is not None else None
        if wanted is None or not 0 < wanted <= MAX_NUMBER or (taken is not None and taken.is_listed):
            wanted = self._next()
        self._add(wanted, NamedSource(wanted, url, title))
        return wanted

    def name(self, name: str, number: int) -> None:
        self._by_name.setdefault(name.casefold(), number)

    def all(self) -> tuple[NamedSource, ...]:
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    def _next(self) -> int:
        return next(number for number in self._free if number not in self._by_number)

    def _add(self, number: int, source: NamedSource) -> None:
        if source.url and not is_openable(source.url):
            source.url = ""
        self._by_number[number] = source
        if source.url:
            self._by_address.setdefault(canonical_url(source.url), number)


class _Found(NamedTuple):
    """The replacement of a citation: `kept` is the span of the line that stays, followed by markers with `numbers`."""

    numbers: Sequence[int]
    kept: Span | None = None


class _Rewriter:
    """Builds the rewritten text line by line."""

    def __init__(self, text: str, sources: _Sources) -> None:
        self._text, self._sources = text, sources
        self._parts: list[str] = []
        self._pieces: list[_Piece] = []
        self._length = 0

    def rewrite(self, lines: Sequence[TextLine], listed: set[int]) -> CitedText:
        for at, line in enumerate(lines):
            end = line.start + len(line.text)
            if at in listed:
                pass  # only its line break is copied, so that the number of lines stays
            elif line.kind in CODE_KINDS or not line.text:
                self._copy(line.start, end)
            else:
                self._rewrite_line(line)
            if end < len(self._text):
                self._copy(end, end + 1)
        return CitedText("".join(self._parts), self._sources.all(), self._pieces)

    def _rewrite_line(self, line: TextLine) -> None:
        masked = CODE_SPAN.sub(_blank, line.text) if "`" in line.text else line.text
        done = at = 0
        while found := _TOKEN.search(masked, at):
            replaced = self._read(found, masked)
            start, end = found.span()
            if found.lastgroup == "address":
                span = _address_span(masked, found)
                end = span[1] if span else end
                end += masked.startswith(">", end) and masked[start] == "<"
            if replaced is None:
                at = end if found.lastgroup == "address" else start + 1
                continue
            self._copy(line.start + done, line.start + start)
            if replaced.kept:
                link = (line.start + start, line.start + end)
                self._copy(line.start + replaced.kept[0], line.start + replaced.kept[1], link)
            self._insert("".join(f"[{number}]" for number in replaced.numbers), line.start + start, line.start + end)
            done = at = end
        self._copy(line.start + done, line.start + len(line.text))

    def _read(self, found: re.Match[str], line: str) -> _Found | None:
        """Return the replacement of a token; None if it is not a citation."""
        kind, token = found.lastgroup or "", found[0]
        if found["cite"] is not None:
            kind = "cite"
        elif found["marker"] is not None:
            kind = "marker"
        sources = self._sources
        if kind in ("link", "wrapped"):
            return self._link(found, line)
        if kind == "group":
            numbers = self._group(token)
            return _Found(numbers) if numbers else None
        if kind == "image":
            return _Found(())
        if kind == "reference":
            return self._reference(found, line)
        if kind == "marker":
            marker = MARKER.match(token)
            numbers = sources.cited_in(marker[1] if marker else "")
            return _Found(numbers) if numbers else None
        if kind in ("footnote", "named"):
            return self._named(token)
        if kind == "ref":
            return self._wiki_reference(token)
        if kind == "cite":
            index = _INDEX.search(token)
            documents = [part.partition("-")[0] for part in index[1].split(",")] if index else []
            numbers = [number for document in documents for number in sources.listed_in(document)]
            return _Found(list(dict.fromkeys(numbers)), found.span("said"))
        if kind == "parens":
            return self._parenthesised(token, line[: found.start()])
        if kind == "address":
            span = _address_span(line, found)
            url = with_scheme(line[slice(*span)]) if span else ""
            return _Found((sources.number_for(url),)) if is_web_url(url) else None
        listed = token.translate(_SUPERSCRIPTS) if kind == "superscript" else re.sub(r"</?sup>", "", token, flags=re.I)
        if kind == "sup" and ("](" in listed or "http" in listed):
            url = url_in(listed)
            return _Found((sources.number_for(url, wanted=_label_number(listed)),)) if url else None
        numbers = sources.listed_in(listed)
        return _Found(numbers) if numbers else None

    def _link(self, found: re.Match[str], line: str) -> _Found | None:
        parts = _LINK_PARTS.match(found[0])
        if parts is None:
            return None
        label = parts[1]
        number = self._linked(label, parts[2])
        if number is None:
            return None
        if self._is_label(label, with_scheme(parts[2].strip("<>")), line, *found.span()):
            return _Found((number,))
        start = found.start() + 1
        return _Found((number,), (start, start + len(label)))

    def _linked(self, label: str, target: str) -> int | None:
        """Return the number of the source that a link opens: a page, or a given source, such as a file, by its name."""
        url = with_scheme(target.strip("<>"))
        if (number := self._sources.named(url)) is not None or not is_web_url(url):
            return number
        wanted = _label_number(label)
        return self._sources.number_for(url, "" if wanted else label, wanted)

    def _reference(self, found: re.Match[str], line: str) -> _Found | None:
        """Read `[Reuters][1]`, a link whose address is defined elsewhere."""
        parts = _REFERENCE_PARTS.match(found[0])
        number = self._sources.named(parts[2] or parts[1]) if parts else None
        if parts is None or number is None:
            return None
        if self._is_label(parts[1], "", line, *found.span()):
            return _Found((number,))
        start = found.start() + 1
        return _Found((number,), (start, start + len(parts[1])))

    def _is_label(self, label: str, url: str, line: str, start: int, end: int) -> bool:
        """Return whether the words of a link are not part of the sentence.

        They are not if they are a number or the name of the site, or if the link follows the end of the sentence.
        """
        name = label.strip(" *_[]\\").casefold()
        if _label_number(label) or name in GENERIC_LABELS:
            return True
        before, behind = line[max(0, start - 20) : start], line[end : end + 2].strip()
        if not before.strip(" *-+>#"):
            return False
        if _SENTENCE_END_BEFORE.search(before) or _MARKER_BEFORE.search(before):
            return not behind or not (behind[0].islower() or behind[0] in ",:;'’")
        if behind and behind[0] not in ".;)":
            return False
        host = host_of(url)
        squeezed = "".join(filter(str.isalnum, name))
        return bool(squeezed) and squeezed in "".join(filter(str.isalnum, host))

    def _group(self, token: str) -> list[int]:
        """Return the numbers of the sources in parentheses that contain only links."""
        numbers: list[int] = []
        at = 0
        while found := _ONE_IN_GROUP.search(token, at):
            at = found.end()
            number = None
            if found["link"] is not None:
                parts = _LINK_PARTS.match(found["link"])
                number = self._linked(parts[1], parts[2]) if parts else None
            elif found["reference"] is not None:
                parts = _REFERENCE_PARTS.match(found["reference"])
                number = self._sources.named(parts[2] or parts[1]) if parts else None
            else:
                rest = token[found.start() : -1]
                span = next(addresses_in(rest), (0, 0))
                url = rest[slice(*span)]
                at = max(at, found.start() + span[1])
                number = self._sources.number_for(url) if is_web_url(url) else None
            if number is not None:
                numbers.append(number)
        return list(dict.fromkeys(numbers))

    def _named(self, token: str) -> _Found | None:
        """Read `[^note]`, the `[label]` of a link definition, `[Smith, 2021]`, or a remark such as `[citation needed]`."""
        if _NO_CITATION.match(token):
            return _Found(())
        number = self._sources.named(token[1:-1])
        if number is not None and not token[1:-1].isdigit():
            return _Found((number,))
        numbers = parenthesised_numbers(token[1:-1], self._sources.bibliography) if self._sources.bibliography else None
        return _Found(numbers) if numbers else None

    def _parenthesised(self, token: str, before: str) -> _Found | None:
        bibliography = self._sources.bibliography
        if not bibliography:
            return None
        if _YEARS_ALONE.match(token):
            number = narrated_number(before, token[1:-1], bibliography)
            return _Found((number,)) if number is not None else None
        numbers = parenthesised_numbers(token[1:-1], bibliography)
        return _Found(numbers) if numbers else None

    def _wiki_reference(self, token: str) -> _Found:
        """Read `<ref name="a">…</ref>`, the markup of Wikipedia."""
        parts = _REF_PARTS.match(token)
        name = _NAME.search(parts[1]) if parts else None
        key = f"<ref {name[1].strip()}" if name else ""
        known = self._sources.named(key) if key else None
        url = url_in(parts[2]) if parts and parts[2] else ""
        if known is None and (url or not key):
            known = self._sources.number_for(url) if url else None
            if key and known is not None:
                self._sources.name(key, known)
        return _Found((known,) if known is not None else ())

    def _copy(self, start: int, end: int, link: Span | None = None) -> None:
        if end > start:
            self._pieces.append(_Piece(self._length, start, end, is_copied=True, link=link))
            self._parts.append(self._text[start:end])
            self._length += end - start

    def _insert(self, text: str, start: int, end: int) -> None:
        if text:
            self._pieces.append(_Piece(self._length, start, end, is_copied=False))
            self._parts.append(text)
            self._length += len(text)


def _address_span(line: str, found: re.Match[str]) -> Span | None:
    start = found.start() + (line[found.start()] == "<")
    scheme = ADDRESS_START.match(line, start)
    if scheme is None:
        return None
    sign = scheme.start() if scheme[0].lower() == "www." else scheme.end()
    span = address_at(line[start : start + MAX_URL_CHARS + 1], sign - start, 0)
    return (start + span[0], start + span[1]) if span else None


def _label_number(label: str) -> int | None:
    found = _LABEL_NUMBER.match(label)
    return int(found[1]) if found else None


def _blank(found: re.Match[str]) -> str:
    return "x" * len(found[0])
