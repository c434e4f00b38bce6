"""Read the citations that people and models write, and rewrite them as markers `[n]`.

The citation checker reads the rewritten text; `CitedText.span` maps a sentence of it back to the text as sent. The known
forms are listed in docs/reference/citation-forms.md. Reading takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.forms.author_year import YEAR, read_narrated_work, read_parenthesised_works
from modules.llm_platform.domain.citations.forms.cited_text import CitedText, GivenSource, Piece
from modules.llm_platform.domain.citations.forms.given_names import NARRATED
from modules.llm_platform.domain.citations.forms.link_groups import REFERENCE_LINK, GroupedLink, read_link_group
from modules.llm_platform.domain.citations.forms.numbered_sources import DOCUMENT_SCHEME, NumberedSources
from modules.llm_platform.domain.citations.forms.own_export import find_export_lines
from modules.llm_platform.domain.citations.forms.source_lists import (
    ADDRESS_START,
    LINK,
    LINK_TEXT,
    LINK_URL,
    TextLine,
    add_scheme,
    find_source_lists,
    find_url,
    read_text_lines,
)
from modules.llm_platform.domain.markdown.addresses import read_address
from modules.llm_platform.domain.markdown.markers import MARKER, mask_code_spans
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.urls.canonical_url import MAX_URL_CHARS, get_host, is_web_url

MAX_MARKERS: Final = 6000
CODE_KINDS: Final = frozenset({"code", "fence", "indented"})
GENERIC_LABELS: Final = frozenset(
    {"source", "link", "ref", "reference", "here", "web", "quelle", "fuente", "来源", "出典"}
)

# The first characters decide which alternative reads a token, except `[` and `(`: `[` begins a link, a reference, a marker
# or a name, tried in this order, and what `(` opens is read by `_Rewriter._read_parentheses`.
_TOKEN = lazy_pattern(
    rf"(?P<image>!{LINK})"
    rf"|(?P<link>{LINK})"
    rf"|(?P<wrapped>\[\[\d{{1,4}}\]\]\({LINK_URL}\))"
    rf"|(?P<reference>{REFERENCE_LINK})"
    r"|(?P<file>【\d{1,4}:\d{1,4}†[^】\n]{0,120}】)"
    rf"|(?P<marker>{MARKER.pattern}(?::\s?\d{{1,4}}(?:[–-]\d{{1,4}})?(?![\d.]))?)"
    r"|(?P<footnote>\[\^[^\]\[\s]{1,60}\])"
    r"|(?P<named>\[[^\[\]\n]{2,200}\])"
    r"|(?P<sup><sup>[^<>\n]{1,60}</sup>)"
    r"|(?P<ref><ref(?:\s[^<>\n]{0,200})?(?:/>|>[^<]{0,2000}</ref>))"
    r"|(?P<cite><cite\s[^<>\n]{1,200}>(?P<said>[^<]{0,4000})</cite>)"
    r"|(?P<cited><cite>[^<>\n]{1,200}</cite>)"
    rf"|(?P<narrated>{NARRATED})"
    r"|(?P<parentheses>\()"
    r"|(?P<superscript>(?<![\s\d²³])[¹²³⁰⁴-⁹]{1,3}(?:[,˒⁻ ]{1,2}[¹²³⁰⁴-⁹]{1,3}){0,9})"
    r"|(?P<digits>(?:(?<=[^\W\d_][.!?])|(?<=[)\]%”\"’][.!?])|(?<=[.!?][)”\"’])|(?<=(?:19|20)\d\d\.))"
    r"\d{1,3}(?:,[ ]?\d{1,3}){0,9}(?=\s*\Z|\s+(?-i:[^a-z\s])))"
    r"|(?P<address><?https?://|(?<![\w.@/])www\.)",
    re.I,
)
_PARENTHESISED = re.compile(r"\([^()\n]{1,300}\)")
_LINK_PARTS = re.compile(rf"\[({LINK_TEXT})\]\(({LINK_URL})")
_REFERENCE_PARTS = re.compile(r"\[([^\[\]\n]{1,300})\]\[([^\[\]\n]{0,80})\]")
_LABEL_NUMBER = re.compile(r"[\[\\^#(\s]*(\d{1,3})[\])\\\s]*\Z")
_SUPERSCRIPTS = str.maketrans("¹²³⁰⁴⁵⁶⁷⁸⁹", "1230456789")
_INDEX = re.compile(r"index=[\"']?([\d\s,:.-]{1,150})", re.I)
_NAME = re.compile(r"name\s*=\s*[\"']?([^\"'/>]{1,80})", re.I)
_REF_PARTS = re.compile(r"<ref([^<>]*?)(?:/>|>([^<]*)</ref>)", re.I)
_NO_CITATION = re.compile(
    r"\[(?:citation needed|clarification needed|better source needed|when\?|who\?|edit)\]\Z", re.I
)
_YEARS_ALONE = re.compile(rf"\(\s*{YEAR}[^()]{{0,40}}\)\Z")
_SENTENCE_END_BEFORE = re.compile(r"[.!?。！？][\"'”’»)*_]*\s*\Z")
_MARKER_BEFORE = re.compile(r"\[\d{1,9}\]\s*\Z")


class TooManyCitationsError(ValueError):
    """The text has more than MAX_MARKERS citations: `[1-200]` counts as two hundred."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {MAX_MARKERS:,} citations")


def read_citations(text: str, given: Sequence[GivenSource] = ()) -> CitedText:
    """Return the text with markers `[n]`, and its sources: those `given`, and those that the text lists or links to.

    Raises TooManyCitationsError.
    """
    lines = read_text_lines(text)
    exported = find_export_lines(lines)
    lists = find_source_lists([replace(line, text="") if at in exported else line for at, line in enumerate(lines)])
    sources = NumberedSources(given, lists.entries)
    left_out = lists.lines | exported
    prose = (line.text for at, line in enumerate(lines) if at not in left_out and line.kind not in CODE_KINDS)
    sources.reserve_cited_numbers(prose)
    return _Rewriter(text, sources).rewrite(lines, left_out)


class _Found(NamedTuple):
    """What stands at a token.

    - `end` is the offset behind it, from which the reader goes on.
    - `numbers` are the sources that it cites. They are None if it is not a citation, and empty if it is removed.
    - `kept` is the span of the line that stays, before the markers with `numbers`.
    """

    end: int
    numbers: Sequence[int] | None
    kept: Span | None = None


class _Rewriter:
    """Builds the rewritten text line by line."""

    def __init__(self, text: str, sources: NumberedSources) -> None:
        self._text, self._sources = text, sources
        self._parts: list[str] = []
        self._pieces: list[Piece] = []
        self._length = 0
        self._markers = 0

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
        masked = mask_code_spans(line.text)
        done = at = 0
        while token := _TOKEN.search(masked, at):
            found = self._read(token, masked)
            at = found.end
            if found.numbers is None:
                continue
            start = token.start()
            self._copy(line.start + done, line.start + start)
            if found.kept:
                link = (line.start + start, line.start + at)
                self._copy(line.start + found.kept[0], line.start + found.kept[1], link)
            self._markers += len(found.numbers)
            if self._markers > MAX_MARKERS:
                raise TooManyCitationsError
            self._insert("".join(f"[{number}]" for number in found.numbers), line.start + start, line.start + at)
            done = at
        self._copy(line.start + done, line.start + len(line.text))

    def _read(self, token: re.Match[str], line: str) -> _Found:
        kind = next((name for name in ("cite", "marker") if token[name] is not None), token.lastgroup or "")
        match kind:
            case "parentheses":
                return self._read_parentheses(token, line)
            case "address":
                return self._read_address(token, line)
            case "narrated":
                return self._read_title(token, line)
            case "link" | "wrapped":
                return self._read_link(token, line)
            case "reference":
                return self._read_link_reference(token, line)
            case "cite":
                return self._read_cite_element(token)
            case "image":
                return _Found(token.end(), ())
        numbers = self._read_numbers(kind, token[0])
        return _find_nothing(token) if numbers is None else _Found(token.end(), numbers)

    def _read_numbers(self, kind: str, text: str) -> Sequence[int] | None:
        """Return the sources that a token without further words cites; None if it is not a citation."""
        sources = self._sources
        if kind == "marker":
            marker = MARKER.match(text)
            return sources.list_known_numbers(marker[1] if marker else "") or None
        if kind in ("footnote", "named"):
            return self._read_name(text)
        if kind == "ref":
            return self._read_wiki_reference(text)
        if kind == "cited":
            return sources.given_names.read_label(text[6:-7])
        listed = text.translate(_SUPERSCRIPTS) if kind == "superscript" else re.sub(r"</?sup>", "", text, flags=re.I)
        if kind == "sup" and ("](" in listed or "http" in listed):
            url = find_url(listed)
            return (sources.assign_number(url, wanted=_read_label_number(listed)),) if url else None
        return sources.list_entry_numbers(listed) or None

    def _read_address(self, token: re.Match[str], line: str) -> _Found:
        span = _find_address(line, token)
        end = span[1] if span else token.end()
        end += line.startswith(">", end) and token[0][0] == "<"
        url = add_scheme(line[slice(*span)]) if span else ""
        return _Found(end, (self._sources.assign_number(url),) if is_web_url(url) else None)

    def _read_parentheses(self, token: re.Match[str], line: str) -> _Found:
        """Read `([Reuters](https://…); https://…)` or `(Smith, 2021)`."""
        at = token.start()
        if group := read_link_group(line, at):
            numbers = [number for link in group.links if (number := self._find_grouped_source(link)) is not None]
            if numbers:
                return _Found(group.end, list(dict.fromkeys(numbers)))
        elif (found := _PARENTHESISED.match(line, at)) and (named := self._read_author_and_year(found[0], line[:at])):
            return _Found(found.end(), named)
        elif found and self._sources.given_names:
            given = self._sources.given_names.read_label(found[0][1:-1], (line[:at], line[found.end() :]))
            return _Found(found.end(), given) if given else _find_nothing(token)
        return _find_nothing(token)

    def _read_title(self, token: re.Match[str], line: str) -> _Found:
        """Read `according to the handbook` or `Source: Handbook`, if a given source has this title."""
        found = self._sources.given_names.find_title(line, token.end())
        if found is None:
            return _Found(token.end(), None)
        number, end = found
        return _Found(end, (number,))  # The words are no part of what the source says.

    def _find_grouped_source(self, link: GroupedLink) -> int | None:
        """Return the number of the source that a link of a group opens."""
        if link.kind == "address":
            return self._sources.assign_number(link.text) if is_web_url(link.text) else None
        if link.kind == "link":
            parts = _LINK_PARTS.match(link.text)
            return self._find_linked(parts[1], parts[2]) if parts else None
        parts = _REFERENCE_PARTS.match(link.text)
        return self._sources.find_named(parts[2] or parts[1]) if parts else None

    def _read_cite_element(self, token: re.Match[str]) -> _Found:
        """Read `<cite index="1-3">…</cite>`. Its words stay."""
        index = _INDEX.search(token[0])
        documents = [part.partition("-")[0] for part in index[1].split(",")] if index else []
        numbers = [number for document in documents for number in self._sources.list_entry_numbers(document)]
        return _Found(token.end(), list(dict.fromkeys(numbers)), token.span("said"))

    def _read_link(self, token: re.Match[str], line: str) -> _Found:
        """Read `[Reuters](https://…)`."""
        parts = _LINK_PARTS.match(token[0])
        number = self._find_linked(parts[1], parts[2]) if parts else None
        if parts is None or number is None:
            return _find_nothing(token)
        return self._cite_link(token, line, number, parts[1], add_scheme(parts[2].strip("<>")))

    def _find_linked(self, label: str, target: str) -> int | None:
        """Return the number of the source that a link opens: a page, or a given source, such as a file, by its name."""
        url = add_scheme(target.strip("<>"))
        number = self._sources.find_named(url.removeprefix(DOCUMENT_SCHEME))
        if number is not None or not is_web_url(url):
            return number
        wanted = _read_label_number(label)
        return self._sources.assign_number(url, "" if wanted else label, wanted)

    def _read_link_reference(self, token: re.Match[str], line: str) -> _Found:
        """Read `[Reuters][1]`, a link whose address is defined elsewhere."""
        parts = _REFERENCE_PARTS.match(token[0])
        number = self._sources.find_named(parts[2] or parts[1]) if parts else None
        if parts is None or number is None:
            return _find_nothing(token)
        return self._cite_link(token, line, number, parts[1], "")

    def _cite_link(self, token: re.Match[str], line: str, number: int, words: str, url: str) -> _Found:
        """Return the citation of a link. Its words stay if they are part of the sentence."""
        if self._is_label(words, url, line, *token.span()):
            return _Found(token.end(), (number,))
        start = token.start() + 1
        return _Found(token.end(), (number,), (start, start + len(words)))

    def _is_label(self, label: str, url: str, line: str, start: int, end: int) -> bool:
        """Return whether the words of a link are not part of the sentence.

        They are not if they are a number or the name of the site, or if the link follows the end of the sentence.
        """
        name = label.strip(" *_[]\\").casefold()
        if _read_label_number(label) or name in GENERIC_LABELS:
            return True
        before, behind = line[max(0, start - 20) : start], line[end : end + 2].strip()
        if not before.strip(" *-+>#"):
            return False
        if _SENTENCE_END_BEFORE.search(before) or _MARKER_BEFORE.search(before):
            return not behind or not (behind[0].islower() or behind[0] in ",:;'’")
        if behind and behind[0] not in ".;)":
            return False
        host = get_host(url)
        squeezed = "".join(filter(str.isalnum, name))
        return bool(squeezed) and squeezed in "".join(filter(str.isalnum, host))

    def _read_name(self, token: str) -> Sequence[int] | None:
        """Read `[^note]`, the `[label]` of a link definition, `[Smith, 2021]`, or a remark such as `[citation needed]`."""
        if _NO_CITATION.match(token):
            return ()
        number = self._sources.find_named(token[1:-1])
        if number is not None and not token[1:-1].isdigit():
            return (number,)
        if (given := self._sources.given_names.read_label(token[1:-1])) is not None:
            return given
        bibliography = self._sources.bibliography
        return read_parenthesised_works(token[1:-1], bibliography) if bibliography else None

    def _read_author_and_year(self, token: str, before: str) -> Sequence[int] | None:
        """Read `(Smith, 2021)`, or the year behind a name in the sentence."""
        bibliography = self._sources.bibliography
        if not bibliography:
            return None
        if _YEARS_ALONE.match(token):
            number = read_narrated_work(before, token[1:-1], bibliography)
            return None if number is None else (number,)
        return read_parenthesised_works(token[1:-1], bibliography)

    def _read_wiki_reference(self, token: str) -> Sequence[int]:
        """Read `<ref name="a">…</ref>`, the markup of Wikipedia."""
        parts = _REF_PARTS.match(token)
        name = _NAME.search(parts[1]) if parts else None
        key = f"<ref {name[1].strip()}" if name else ""
        known = self._sources.find_named(key) if key else None
        url = find_url(parts[2]) if parts and parts[2] else ""
        if known is None and (url or not key):
            known = self._sources.assign_number(url) if url else None
            if key and known is not None:
                self._sources.name(key, known)
        return (known,) if known is not None else ()

    def _copy(self, start: int, end: int, link: Span | None = None) -> None:
        if end > start:
            self._pieces.append(Piece(self._length, start, end, is_copied=True, link=link))
            self._parts.append(self._text[start:end])
            self._length += end - start

    def _insert(self, text: str, start: int, end: int) -> None:
        if text:
            self._pieces.append(Piece(self._length, start, end, is_copied=False))
            self._parts.append(text)
            self._length += len(text)


def _find_address(line: str, found: re.Match[str]) -> Span | None:
    start = found.start() + (line[found.start()] == "<")
    scheme = ADDRESS_START.match(line, start)
    if scheme is None:
        return None
    sign = scheme.start() if scheme[0].lower() == "www." else scheme.end()
    span = read_address(line[start : start + MAX_URL_CHARS + 1], sign - start, 0)
    return (start + span[0], start + span[1]) if span else None


def _find_nothing(token: re.Match[str]) -> _Found:
    """Return that no citation begins at this token. One may begin behind its first character."""
    return _Found(token.start() + 1, None)


def _read_label_number(label: str) -> int | None:
    found = _LABEL_NUMBER.match(label)
    return int(found[1]) if found else None
