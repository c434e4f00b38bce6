"""Collect the material that a model was given to answer from: tool results, and documents and passages in a conversation.

`conversation_passages` reads the passages. Here they become numbered sources, within limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from modules.llm_platform.application.verification.conversation_passages import read_newest_first
from modules.llm_platform.application.verification.marked_passages import Passage
from modules.llm_platform.domain.citations.forms.cited_text import MAX_NUMBER, CitedSource
from modules.llm_platform.domain.citations.forms.written_addresses import add_scheme, find_addresses
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage
from modules.llm_platform.domain.urls.canonical_url import canonical_url, is_web_url

MAX_GIVEN_SOURCES: Final = 100
MAX_GIVEN_CHARS: Final = 500_000  # of all sources; the newest are kept, because an agent sends its whole conversation
MAX_PASSAGES: Final = 1000  # the newest passages, because each is compared with what the model itself wrote
MAX_SOURCE_CHARS: Final = 200_000
MAX_LINKED: Final = 20  # addresses of an answer that are only inside a given text


def collect_given(messages: Sequence[ChatMessage]) -> tuple[CitedSource, ...]:
    """Return the material of a conversation as sources, oldest first. The newest MAX_GIVEN_CHARS are kept.

    A source gets the number of its passage (`[2] Title`, `<document index="2">`), or the next free number if it has none. If two
    passages have the same number, the newer one keeps it, but a passage of the user or the system takes precedence over a passage
    of a tool's result.
    """
    kept = _keep_newest(islice(read_newest_first(messages), MAX_PASSAGES))
    passages = _keep_addresses(sorted(kept, key=lambda passage: passage.is_rest))
    numbers = _assign_numbers(passages)
    return tuple(
        CitedSource(number, passage.url, passage.title, passage.text, is_numbered=number == passage.number)
        for number, passage in zip(numbers, passages, strict=True)
    )


def _keep_newest(newest_first: Iterable[Passage]) -> list[Passage]:
    """Return the passages that fit into the limits, oldest first, without empty and repeated ones."""
    kept: list[Passage] = []
    chars, seen = 0, set[str]()
    for passage in newest_first:
        text = passage.text.replace("\x00", "")[:MAX_SOURCE_CHARS]
        if not any(map(str.isalnum, text)) or text in seen:
            continue
        if len(kept) == MAX_GIVEN_SOURCES or chars + len(text) > MAX_GIVEN_CHARS:
            if passage.is_rest:
                continue
            break
        seen.add(text)
        chars += len(text)
        kept.append(replace(passage, text=text))
    return kept[::-1]


def _keep_addresses(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages. A foreign passage loses an address that another source has."""
    known = {canonical_url(passage.url) for passage in passages if passage.url and not passage.is_foreign}
    kept = []
    for passage in passages:
        if passage.is_foreign and passage.url:
            key = canonical_url(passage.url)
            passage = replace(passage, url="") if key in known else passage
            known.add(key)
        kept.append(passage)
    return kept


def _assign_numbers(passages: Sequence[Passage]) -> list[int]:
    """Return the number of each passage. The passages are in the order of the conversation."""
    positions: dict[int, int] = {}  # by number
    newest_first = sorted(range(len(passages)), key=lambda position: (passages[position].is_foreign, -position))
    for position in newest_first:
        if (number := passages[position].number) is not None:
            positions.setdefault(number, position)
    numbers = {position: number for number, position in positions.items()}
    free = (number for number in range(1, MAX_NUMBER + 1) if number not in positions)
    return [numbers[position] if position in numbers else next(free) for position in range(len(passages))]


def link_named_addresses(answer: str, given: Sequence[CitedSource]) -> tuple[CitedSource, ...]:
    """Return further sources for addresses that the answer cites and a given source contains.

    Each of them gets the whole text of the given source.
    """
    by_address: dict[str, CitedSource] | None = None
    known = {canonical_url(source.url) for source in given if source.url}
    linked: list[CitedSource] = []
    number = max((source.index for source in given), default=0)
    for start, end in find_addresses(answer):
        url = add_scheme(answer[start:end])
        if len(linked) == MAX_LINKED or number >= MAX_NUMBER:
            break
        if not is_web_url(url) or canonical_url(url) in known:
            continue
        known.add(canonical_url(url))
        if by_address is None:
            by_address = _map_addresses(given)
        if source := by_address.get(canonical_url(url)):
            number += 1
            linked.append(replace(source, index=number, url=url, title="", is_numbered=False))
    return tuple(linked)


def _map_addresses(given: Sequence[CitedSource]) -> dict[str, CitedSource]:
    """Map each canonical address to the first source that contains it in its text."""
    found: dict[str, CitedSource] = {}
    for source in given:
        for url in dict.fromkeys(source.text[start:end] for start, end in find_addresses(source.text)):
            found.setdefault(canonical_url(add_scheme(url)), source)
    return found
