"""Sanitise the text inside a line of untrusted Markdown: links, images, HTML, addresses and citation markers.

The result contains no HTML, and no link, image or `[n]` except for sources. This holds whatever precedes or follows the
result in the line, because it leaves no bracket, backtick or tag open that a later part could close.

Most text is plain, and one pattern recognises it. Other text takes one or more passes (`inline_pass`).
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.addresses import KnownAddresses
from modules.llm_platform.domain.markdown.inline_pass import UNSAFE_IN_CONTEXT, AllowedSources, InlinePass, LineState

MAX_PLAIN_SIGNS = 1000  # signs in one match of `_compile_plain_text`, which takes memory for each
MAX_PASSES = 4  # A removal joins text, so it is sanitised again. Text that changes more often is an attack.

_SCHEME = re.compile(r"^https?://(?:www\.)?")
_HARMLESS = str.maketrans(
    {"`": "'", "[": "(", "]": ")", "<": "‹", "&": "+", "@": " ", "\\": " ", ":": " ", "/": " ", ".": " "}
)


class AddressCitations:
    """Replaces the address of a source in parentheses by its marker: small models write `(doc:rules.md)` in place of `[1]`.

    A web address may lack its scheme, because prompts show it so. An address before a marker stays, because that cites the source
    already. So do the target of a link, and each address in a text with code.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._numbers: dict[str, int] = {}
        for source in sources:
            for address in (source.url, _SCHEME.sub("", source.url)):
                self._numbers.setdefault(address, source.index)

    def cite(self, text: str) -> str:
        if "(" not in text or "`" in text:
            return text
        return self._pattern.sub(lambda found: f"[{self._numbers[found[1]]}]", text)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        urls = "|".join(map(re.escape, sorted(filter(None, self._numbers), key=len, reverse=True)))
        return re.compile(rf"(?<!\])\(<?({urls})>?\)(?!\s*\[\d)" if urls else r"(?!)")


class InlineCleaner:
    """Sanitises the parts of lines, in order."""

    def __init__(self, sources: Iterable[Source]) -> None:
        sources = tuple(sources)
        numbers = tuple(sorted({source.index for source in sources}))
        self._sources = AllowedSources(numbers, KnownAddresses(source.url for source in sources))
        self._addresses = AddressCitations(sources)
        self._line = LineState()
        self._plain = _compile_plain_text(numbers)
        self.in_table = False  # a bar inside a code span ends the cell of a table

    def clean(self, text: str, *, begins_line: bool) -> str:
        """Return a part of a line sanitised. Parts end before a space, or after a sentence of a script without spaces."""
        text = self._addresses.cite(text)
        if begins_line:
            self._line = LineState()
        if not self._line.has_split_code and _matches_in_turn(self._plain, text):
            self._line.may_end_label = self._line.may_end_label and "[" not in text
            return text
        for _ in range(MAX_PASSES):
            line = self._line.copy()
            current = InlinePass(text, self._sources, line, begins_line=begins_line, in_table=self.in_table)
            cleaned = current.run()
            if not current.output.has_removed or cleaned == text:
                self._line = line
                return cleaned
            text = cleaned
        return text.translate(_HARMLESS)


@lru_cache(maxsize=64)
def _compile_plain_text(numbers: tuple[int, ...]) -> re.Pattern[str]:
    """Return a pattern of what needs no sanitising: plain text, simple code and well-formed markers with these numbers.

    The pattern matches most sentences whole. A text with more than MAX_PLAIN_SIGNS signs takes several matches, one after the
    other.
    """
    known = "|".join(map(str, numbers)) or "(?!)"
    plain = r"[^\\`\[\]【［@!<&:/wW._]*"
    code, marker = r"`[^`|\n]+`(?!`)", rf"\[(?:{known})\](?![(:])"
    return re.compile(
        rf"{plain}(?:(?:{code}|{marker}|(?!{UNSAFE_IN_CONTEXT})[!<&:/wW._]){plain}){{0,{MAX_PLAIN_SIGNS}}}"
    )


def _matches_in_turn(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether the pattern matches the whole text, by one or several matches without a gap."""
    at, end = -1, 0
    while at < end < len(text):
        at = end
        found = pattern.match(text, at)
        end = found.end() if found else at
    return end == len(text)
