"""Set what was extracted as readable Markdown, each quote with its marker."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from modules.llm_platform.domain.candidates import Candidate
from modules.llm_platform.domain.conflicts import find_conflict
from modules.llm_platform.domain.extraction import Extraction, Quote
from modules.llm_platform.domain.own_words import OwnWords
from modules.llm_platform.domain.question import Question
from modules.llm_platform.domain.readings import Readings, find_readings
from modules.llm_platform.domain.source_text import clean
from modules.llm_platform.domain.text import count_tokens

_END = re.compile(r"([.!?。！？:：]+)$")
_ENDED = re.compile(r"[.!?。！？…:：][\"'”’»」)\]`]*$")
_UNSPACED_END = "。！？：」』）"


def set_answer(question: Question, extraction: Extraction, own: OwnWords, max_tokens: int) -> str:
    """The answer in Markdown, empty when nothing was chosen; whole passages are left out at its end to keep the limit."""
    blocks = _blocks(question, extraction, own)
    text = ""
    for block in blocks:
        longer = f"{text}\n\n{block}" if text else block
        if text and count_tokens(longer) > max_tokens:
            break
        text = longer
    return text


def _blocks(question: Question, extraction: Extraction, own: OwnWords) -> list[str]:
    if not extraction.quotes:
        return []
    if readings := find_readings(question, extraction.candidates):
        return [_set_readings(readings, own)]
    quotes = extraction.quotes
    conflict = find_conflict(extraction.candidates)
    if conflict is None:
        return _by_source(quotes)
    told = [quote for quote in quotes if not any(_repeats(quote, side) for side in conflict)]
    return [_set_conflict(conflict, own), *_by_source(told)]


def _repeats(quote: Quote, side: Candidate) -> bool:
    return quote.sentence is side.sentence


def _set_readings(readings: Readings, own: OwnWords) -> str:
    lines = [
        f"- {clean(reading.title)}: {_marked(reading.opening.sentence.text, [reading.opening.source.index])}"
        for reading in readings.readings
    ]
    return "\n".join([own.readings_of(clean(readings.subject)), "", *lines])


def _set_conflict(conflict: tuple[Candidate, Candidate], own: OwnWords) -> str:
    lines = [f"- {_marked(side.sentence.text, [side.source.index])}" for side in conflict]
    return "\n".join([own.disagree, "", *lines])


def _by_source(quotes: Sequence[Quote]) -> list[str]:
    """A paragraph for each source, a list where its quotes are no full sentences."""
    blocks: list[str] = []
    for _, group in itertools.groupby(quotes, key=lambda quote: quote.source.index):
        members = list(group)
        listed = len(members) > 1 and any(not _ENDED.search(member.sentence.text) for member in members)
        blocks += _listed(members) if listed else _paragraphs(members)
    return blocks


def _listed(quotes: Sequence[Quote]) -> list[str]:
    return ["\n".join(f"- {_set_quote(quote)}" for quote in quotes if not quote.follows)]


def _paragraphs(quotes: Sequence[Quote]) -> list[str]:
    """Running text; code and lists that a sentence announces stand right behind it."""
    blocks: list[str] = []
    line = ""
    for quote in quotes:
        gap = "" if line.endswith(tuple(_UNSPACED_END)) or not line else " "
        line += gap + _set_quote(quote)
        if quote.follows:
            blocks += [line, _set_followers(quote)]
            line = ""
    return [*blocks, line] if line else blocks


def _set_quote(quote: Quote) -> str:
    return _marked(quote.sentence.text, [quote.source.index, *quote.also])


def _set_followers(quote: Quote) -> str:
    if quote.follows[0].kind == "code":
        ticks = "````" if "```" in quote.follows[0].text else "```"
        return f"{ticks}{quote.follows[0].syntax}\n{quote.follows[0].text}\n{ticks}"
    return "\n".join(f"- {_marked(clean(block.text), [quote.source.index])}" for block in quote.follows)


def _marked(text: str, indices: Sequence[int]) -> str:
    """The sentence with its markers before the full stop, so that the stop still ends it."""
    markers = "".join(f"[{index}]" for index in indices)
    if _END.search(text) and not text.endswith(".."):
        return _END.sub(rf" {markers}\1", text)
    return f"{text} {markers}"
