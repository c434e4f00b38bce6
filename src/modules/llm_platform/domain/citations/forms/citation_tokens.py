"""Recognise the citations in a line and read each of them: which sources it cites, and which of its words stay.

`TOKEN` finds what may be a citation, and `TokenReader` decides. A new form gets a pattern in `_FORMS` and a case in
`TokenReader.read`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from modules.llm_platform.domain.citations.forms.author_year import YEAR, read_narrated_work, read_parenthesised_works
from modules.llm_platform.domain.citations.forms.cited_links import LinkReader, read_label_number
from modules.llm_platform.domain.citations.forms.given_names import NARRATED
from modules.llm_platform.domain.citations.forms.link_groups import REFERENCE_LINK, read_link_group
from modules.llm_platform.domain.citations.forms.numbered_sources import NumberedSources
from modules.llm_platform.domain.citations.forms.parsed_token import ParsedToken, cite, skip_character
from modules.llm_platform.domain.citations.forms.written_addresses import ADDRESS_START, LINK, add_scheme, find_url
from modules.llm_platform.domain.markdown.addresses import read_address
from modules.llm_platform.domain.markdown.markers import MARKER
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.urls.canonical_url import MAX_URL_CHARS, is_web_url

_RAISED_DIGITS = r"[¹²³⁰⁴-⁹]{1,3}"
# After a full stop, the end of a quotation or parentheses, or a year with a full stop.
_AFTER_SENTENCE = r"(?:(?<=[^\W\d_][.!?])|(?<=[)\]%”\"’][.!?])|(?<=[.!?][)”\"’])|(?<=(?:19|20)\d\d\.))"
_BEFORE_SENTENCE = r"(?=\s*\Z|\s+(?-i:[^a-z\s]))"

# The pattern of each form. The first character of a token decides its form, unless it is `[` or `(`: the forms that begin with
# `[` are tried in this order, and `TokenReader` distinguishes the forms that begin with `(`.
_FORMS: Final = {
    "image": rf"!{LINK}",
    "link": LINK,  # `[Reuters](https://…)`, `[[1]](https://…)`
    "reference": REFERENCE_LINK,  # `[Reuters][1]`
    "file": r"【\d{1,4}:\d{1,4}†[^】\n]{0,120}】",  # `【4:0†file】`
    "marker": rf"{MARKER.pattern}(?::\s?\d{{1,4}}(?:[–-]\d{{1,4}})?(?![\d.]))?",  # `[1, 3-5]`, `【1†source】`, `[1]: 23`
    "footnote": r"\[\^[^\]\[\s]{1,60}\]",
    "named": r"\[[^\[\]\n]{2,200}\]",  # `[Smith, 2021]`, `[Handbook]`
    "sup": r"<sup>(?P<raised>[^<>\n]{1,60})</sup>",
    "ref": r"<ref(?:\s[^<>\n]{0,200})?(?:/>|>[^<]{0,2000}</ref>)",
    "cite_index": r"<cite\s[^<>\n]{1,200}>(?P<said>[^<]{0,4000})</cite>",
    "cite_label": r"<cite>(?P<label>[^<>\n]{1,200})</cite>",
    "narrated": NARRATED,  # `according to `, before a title
    "parentheses": r"\(",
    "superscript": rf"(?<![\s\d²³]){_RAISED_DIGITS}(?:[,˒⁻–\- ]{{1,2}}{_RAISED_DIGITS}){{0,9}}",
    "digits": rf"{_AFTER_SENTENCE}\d{{1,3}}(?:,[ ]?\d{{1,3}}){{0,9}}{_BEFORE_SENTENCE}",  # `… of growth.1`
    "address": r"<?https?://|(?<![\w.@/])www\.",
}
TOKEN: Final = lazy_pattern("|".join(f"(?P<{form}>{pattern})" for form, pattern in _FORMS.items()), re.I)

_PARENTHESISED = re.compile(r"\([^()\n]{1,300}\)")
_YEARS_ALONE = re.compile(rf"\(\s*{YEAR}[^()]{{0,40}}\)\Z")
_SUPERSCRIPTS = str.maketrans("¹²³⁰⁴⁵⁶⁷⁸⁹⁻", "1230456789-")
_CITE_INDEX = re.compile(r"index=[\"']?([\d\s,:.-]{1,150})", re.I)
_REF_PARTS = re.compile(r"<ref([^<>]*?)(?:/>|>([^<]*)</ref>)", re.I)
_REF_NAME = re.compile(r"name\s*=\s*[\"']?([^\"'/>]{1,80})", re.I)
_REMARK = re.compile(r"(?:citation needed|clarification needed|better source needed|when\?|who\?|edit)\Z", re.I)


class TokenReader:
    """Reads the tokens of a text. The line of a token is `token.string`, in which code is masked."""

    def __init__(self, sources: NumberedSources) -> None:
        self._sources = sources
        self._links = LinkReader(sources)

    def read(self, token: re.Match[str]) -> ParsedToken:
        sources, text = self._sources, token[0]
        match token.lastgroup:
            case "image":
                return cite(token, ())
            case "link":
                return self._links.read_link(token)
            case "reference":
                return self._links.read_reference(token)
            case "file":
                return cite(token, ())  # its numbers count messages and passages of the service that wrote it
            case "marker":
                return cite(token, self._read_marker(text))
            case "footnote" | "named":
                return cite(token, self._read_name(text[1:-1]))
            case "sup":
                return cite(token, self._read_raised(token["raised"]))
            case "ref":
                return cite(token, self._read_wiki_reference(text))
            case "cite_index":
                return self._read_cite_index(token)
            case "cite_label":
                return cite(token, sources.given_names.read_label(token["label"]))
            case "narrated":
                return self._read_narrated_title(token)
            case "parentheses":
                return self._read_parentheses(token)
            case "address":
                return self._read_address(token)
            case "superscript":
                return cite(token, sources.list_entry_numbers(text.translate(_SUPERSCRIPTS)) or None)
        return cite(token, sources.list_entry_numbers(text) or None)

    def _read_marker(self, marker: str) -> Sequence[int] | None:
        """Read `[1]`, `[1, 3-5]` or `【1†source】`."""
        listed = MARKER.match(marker)
        return self._sources.list_known_numbers(listed[1] if listed else "") or None

    def _read_name(self, name: str) -> Sequence[int] | None:
        """Read `[^note]`, the `[label]` of a link definition, `[Smith, 2021]`, or a remark such as `[citation needed]`."""
        if _REMARK.match(name):
            return ()
        number = self._sources.find_named(name)
        if number is not None and not name.isdigit():
            return (number,)
        if (given := self._sources.given_names.read_label(name)) is not None:
            return given
        bibliography = self._sources.bibliography
        return read_parenthesised_works(name, bibliography) if bibliography else None

    def _read_raised(self, raised: str) -> Sequence[int] | None:
        """Read what `<sup>` raises: `1, 2`, or a link such as `[1](https://…)`."""
        if "](" in raised or "http" in raised:
            url = find_url(raised)
            return (self._sources.assign_number(url, wanted=read_label_number(raised)),) if url else None
        return self._sources.list_entry_numbers(raised) or None

    def _read_wiki_reference(self, element: str) -> Sequence[int]:
        """Read `<ref name="a">…</ref>`, the markup of Wikipedia. `<ref name="a"/>` cites the same source again."""
        parts = _REF_PARTS.match(element)
        name = _REF_NAME.search(parts[1]) if parts else None
        key = f"<ref {name[1].strip()}" if name else ""
        number = self._sources.find_named(key) if key else None
        url = find_url(parts[2]) if parts and parts[2] else ""
        if number is None and url:
            number = self._sources.assign_number(url)
            if key:
                self._sources.add_name(key, number)
        return () if number is None else (number,)

    def _read_cite_index(self, token: re.Match[str]) -> ParsedToken:
        """Read `<cite index="2-1,3-1">…</cite>`, which cites the sources 2 and 3. Its words stay."""
        index = _CITE_INDEX.search(token[0])
        documents = [part.partition("-")[0] for part in index[1].split(",")] if index else []
        numbers = (number for document in documents for number in self._sources.list_entry_numbers(document))
        return ParsedToken(token.end(), _list_once(numbers), kept=token.span("said"))

    def _read_narrated_title(self, token: re.Match[str]) -> ParsedToken:
        """Read `according to the handbook` or `Source: Handbook`, if a given source has this title.

        The words are removed, because they are not part of what the source says.
        """
        found = self._sources.given_names.find_title(token.string, token.end())
        if found is None:
            return ParsedToken(token.end(), None)
        number, end = found
        return ParsedToken(end, (number,))

    def _read_parentheses(self, token: re.Match[str]) -> ParsedToken:
        """Read `([Reuters](https://…); https://…)`, `(Smith, 2021)`, `(2)` or `(Handbook)`."""
        line, at = token.string, token.start()
        if group := read_link_group(line, at):
            found = (self._links.find_grouped(link) for link in group.links)
            numbers = _list_once(number for number in found if number is not None)
            return ParsedToken(group.end, numbers) if numbers else skip_character(token)
        whole = _PARENTHESISED.match(line, at)
        if whole is None:
            return skip_character(token)
        return cite(whole, self._read_author_and_year(whole) or self._read_given_name(whole) or None)

    def _read_author_and_year(self, parentheses: re.Match[str]) -> Sequence[int] | None:
        """Read `(Smith, 2021)`, or the year after a name in the sentence."""
        bibliography, inside = self._sources.bibliography, parentheses[0][1:-1]
        if not bibliography:
            return None
        if _YEARS_ALONE.match(parentheses[0]):
            number = read_narrated_work(parentheses.string[: parentheses.start()], inside, bibliography)
            return None if number is None else (number,)
        return read_parenthesised_works(inside, bibliography)

    def _read_given_name(self, parentheses: re.Match[str]) -> Sequence[int] | None:
        """Read `(2)`, `(Source 2)` or `(Handbook)`, the number or title of a source that was sent along."""
        if not self._sources.given_names:
            return None
        line, (start, end) = parentheses.string, parentheses.span()
        return self._sources.given_names.read_label(parentheses[0][1:-1], (line[:start], line[end:]))

    def _read_address(self, token: re.Match[str]) -> ParsedToken:
        """Read `https://…`, `<https://…>` or `www.…`."""
        line, span = token.string, _find_address(token)
        if span is None:
            return ParsedToken(token.end(), None)
        start, end = span
        url = add_scheme(line[start:end])
        end += token[0][0] == "<" and line.startswith(">", end)
        return ParsedToken(end, (self._sources.assign_number(url),) if is_web_url(url) else None)


def _find_address(token: re.Match[str]) -> Span | None:
    """Return the span of the address that begins at a token, without angle brackets."""
    line = token.string
    start = token.start() + (token[0][0] == "<")
    scheme = ADDRESS_START.match(line, start)
    if scheme is None:
        return None
    sign = scheme.start() if scheme[0].lower() == "www." else scheme.end()
    span = read_address(line[start : start + MAX_URL_CHARS + 1], sign - start, 0)
    return (start + span[0], start + span[1]) if span else None


def _list_once(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
