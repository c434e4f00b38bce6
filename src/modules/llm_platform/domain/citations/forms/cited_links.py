"""Read Markdown links as citations: which source a link opens, and whether its words belong to the sentence.

"The [WHO](https://…) says so" keeps its words. "It rose in 2024. [Reuters](https://…)" does not, because the words only name
the source.
"""

from __future__ import annotations

import re
from typing import Final

from modules.llm_platform.domain.citations.forms.link_groups import GroupedLink
from modules.llm_platform.domain.citations.forms.numbered_sources import DOCUMENT_SCHEME, NumberedSources
from modules.llm_platform.domain.citations.forms.parsed_token import ParsedToken, skip_character
from modules.llm_platform.domain.citations.forms.written_addresses import LINK_TEXT, LINK_URL, add_scheme
from modules.llm_platform.domain.urls.canonical_url import get_host, is_web_url

GENERIC_LABELS: Final = frozenset(
    {"source", "link", "ref", "reference", "here", "web", "quelle", "fuente", "来源", "出典"}
)
CHARS_BEFORE: Final = 20  # a link follows a sentence or a marker if one ends in this many characters before it

_LINK_PARTS = re.compile(rf"\[({LINK_TEXT})\]\(({LINK_URL})")
_REFERENCE_PARTS = re.compile(r"\[([^\[\]\n]{1,300})\]\[([^\[\]\n]{0,80})\]")
_LABEL_NUMBER = re.compile(r"[\[\\^#(\s]*(\d{1,3})[\])\\\s]*\Z")
_SENTENCE_END_BEFORE = re.compile(r"[.!?。！？][\"'”’»)*_]*\s*\Z")
_MARKER_BEFORE = re.compile(r"\[\d{1,9}\]\s*\Z")


class LinkReader:
    """Finds the sources of links. A page that no list names becomes a new source."""

    def __init__(self, sources: NumberedSources) -> None:
        self._sources = sources

    def read_link(self, token: re.Match[str]) -> ParsedToken:
        """Read `[Reuters](https://…)`."""
        words, target = _split_link(_LINK_PARTS, token[0])
        return self._cite_link(token, words, self._find_opened(words, target), add_scheme(target.strip("<>")))

    def read_reference(self, token: re.Match[str]) -> ParsedToken:
        """Read `[Reuters][1]`, a link whose address is defined elsewhere."""
        words, label = _split_link(_REFERENCE_PARTS, token[0])
        return self._cite_link(token, words, self._sources.find_named(label or words), "")

    def find_grouped(self, link: GroupedLink) -> int | None:
        """Return the number of the source that a link of a group opens; None if it opens none."""
        if link.kind == "address":
            return self._sources.assign_number(link.text) if is_web_url(link.text) else None
        if link.kind == "link":
            return self._find_opened(*_split_link(_LINK_PARTS, link.text))
        words, label = _split_link(_REFERENCE_PARTS, link.text)
        return self._sources.find_named(label or words)

    def _find_opened(self, words: str, target: str) -> int | None:
        """Return the number of a given source with this name, such as a file, or of the page; None if it is not a web page."""
        url = add_scheme(target.strip("<>"))
        number = self._sources.find_named(url.removeprefix(DOCUMENT_SCHEME))
        if number is not None or not is_web_url(url):
            return number
        wanted = read_label_number(words)
        return self._sources.assign_number(url, "" if wanted else words, wanted)

    def _cite_link(self, token: re.Match[str], words: str, number: int | None, url: str) -> ParsedToken:
        if number is None:
            return skip_character(token)
        if _is_label(words, url, token):
            return ParsedToken(token.end(), (number,))
        start = token.start() + len("[")
        return ParsedToken(token.end(), (number,), kept=(start, start + len(words)))


def _split_link(parts: re.Pattern[str], link: str) -> tuple[str, str]:
    """Return the words of a link, and its target or label."""
    found = parts.match(link)
    return (found[1], found[2]) if found else ("", "")


def _is_label(words: str, url: str, token: re.Match[str]) -> bool:
    """Return whether the words of a link only name its source.

    They do if they are a number, `Source` or the name of the site, or if the link is between two sentences.
    """
    name = words.strip(" *_[]\\").casefold()
    if read_label_number(words) or name in GENERIC_LABELS:
        return True
    line, start, end = token.string, token.start(), token.end()
    before, after = line[max(0, start - CHARS_BEFORE) : start], line[end : end + 2].strip()
    if not before.strip(" *-+>#"):
        return False  # the sentence begins with the link
    if _SENTENCE_END_BEFORE.search(before) or _MARKER_BEFORE.search(before):
        return not after or not (after[0].islower() or after[0] in ",:;'’")
    if after and after[0] not in ".;)":
        return False
    squeezed = "".join(filter(str.isalnum, name))
    return bool(squeezed) and squeezed in "".join(filter(str.isalnum, get_host(url)))


def read_label_number(label: str) -> int | None:
    """Return the number that is the whole text of a link, such as `[2](https://…)`."""
    found = _LABEL_NUMBER.match(label)
    return int(found[1]) if found else None
