"""Read parentheses that hold nothing but links: `(see [Reuters](https://…), https://…; [AP][2])`.

The parts are read one after the other and never twice, so the time is linear in the length of the text. One pattern for
the whole group would try each way to cut its addresses, and an address may contain another address.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from modules.llm_platform.domain.citations.forms.written_addresses import LINK, find_addresses

MAX_GROUP_LINKS: Final = 31  # a longer group is not a citation
REFERENCE_LINK: Final = r"\[(?!\^|\d{1,4}\])[^\[\]\n]{1,300}\]\[[^\[\]\n]{0,80}\]"

_OPENING = re.compile(r"\(\s?(?:(?:see|sources?|via|e\.g\.|cf\.|quellen?|fuentes?)[:,]?[ ]{1,3})?", re.I)
_SEPARATOR = re.compile(r"[\s,;·|]{0,4}(?:and[ ])?", re.I)
_CLOSING = re.compile(r"\s?\)")
# An address ends before another one, unless it contains that one as a path or a parameter, as the addresses of archives do.
_PART = re.compile(
    rf"(?P<link>{LINK})|(?P<reference>{REFERENCE_LINK})"
    r"|(?P<address><?https?://(?:(?!(?<![/=])[,;·|]?https?://)[^\s()<>\[\]]|\([^\s()]{0,200}\)){3,2000}>?)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class GroupedLink:
    """One part of a group: a Markdown link, a link with a definition, or an address. `text` is as written."""

    kind: Literal["link", "reference", "address"]
    text: str


@dataclass(frozen=True, slots=True)
class LinkGroup:
    """Parentheses with their links. `end` is the offset after the closing parenthesis."""

    links: tuple[GroupedLink, ...]
    end: int


def read_link_group(line: str, at: int) -> LinkGroup | None:
    """Return the group that opens at this offset; None if the parentheses hold anything but links."""
    opening = _OPENING.match(line, at)
    if opening is None:
        return None
    links: list[GroupedLink] = []
    at = opening.end()
    while len(links) < MAX_GROUP_LINKS and (part := _PART.match(line, at)):
        links += _list_links(part)
        if closing := _CLOSING.match(line, part.end()):
            return LinkGroup(tuple(links), closing.end())
        at = _SEPARATOR.match(line, part.end()).end()  # type: ignore[union-attr]  # it matches an empty text
    return None


def _list_links(part: re.Match[str]) -> Iterator[GroupedLink]:
    if part["link"] is not None:
        yield GroupedLink("link", part[0])
    elif part["reference"] is not None:
        yield GroupedLink("reference", part[0])
    else:
        for start, end in find_addresses(part[0].strip("<>")):
            yield GroupedLink("address", part[0].strip("<>")[start:end])
