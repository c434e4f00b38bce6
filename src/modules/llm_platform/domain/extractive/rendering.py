"""Set what was extracted as readable Markdown, each quote with its marker."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from modules.llm_platform.domain.extractive.blocks import Block, strip_markup
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.selection import Extraction, Quote, Readings, find_conflict, find_readings
from modules.llm_platform.domain.extractive.sentences import read_table
from modules.llm_platform.domain.text.messages import Messages
from modules.llm_platform.domain.text.tokens import count_tokens

_END = re.compile(r"([.!?。！？:：]+)$")
_ENDED = re.compile(r"[.!?。！？…:：][\"'”’»」)\]`]*$")
_UNSPACED_END = "。！？：」』）"


def render_answer(question: Question, extraction: Extraction, own: Messages, max_tokens: int) -> str:
    """The answer in Markdown, empty when nothing was chosen; whole passages are left out at its end to keep the limit."""
    blocks = _blocks(question, extraction, own)
    text = ""
    for block in blocks:
        longer = f"{text}\n\n{block}" if text else block
        if text and count_tokens(longer) > max_tokens:
            break
        text = longer
    return text


def _blocks(question: Question, extraction: Extraction, own: Messages) -> list[str]:
    if not extraction.quotes:
        return []
    if readings := find_readings(question, extraction.candidates):
        return [_render_readings(readings, own)]
    quotes = extraction.quotes
    conflict = find_conflict(extraction.candidates)
    if conflict is None:
        return render_passage(quotes)
    told = [quote for quote in quotes if not any(_repeats(quote, side) for side in conflict)]
    return [render_conflict(conflict, own), *render_passage(told)]


def _repeats(quote: Quote, side: Candidate) -> bool:
    return quote.sentence is side.sentence


def _render_readings(readings: Readings, own: Messages) -> str:
    lines = [
        f"- {strip_markup(reading.title)}: {_marked(_shown(reading.opening), [reading.opening.source.index])}"
        for reading in readings.readings
    ]
    return "\n".join([own.readings_of(strip_markup(readings.subject)), "", *lines])


def render_conflict(conflict: tuple[Candidate, Candidate], own: Messages) -> str:
    """Our word that they disagree, and the two sentences."""
    lines = [f"- {_marked(_shown(side), [side.source.index])}" for side in conflict]
    return "\n".join([own.disagree, "", *lines])


def render_passage(quotes: Sequence[Quote]) -> list[str]:
    """Sentences of a source as a paragraph, rows as a table, what is no full sentence as a list."""
    blocks: list[str] = []
    for (_, columns, fragments), group in itertools.groupby(quotes, key=_shape):
        members = list(group)
        if columns:
            blocks.append(_table(members))
        elif fragments and len(quotes) > 1:
            blocks += _listed(members)
        else:
            blocks += _paragraphs(members)
    return blocks


def _shape(quote: Quote) -> tuple[int, Sequence[str], bool]:
    """Source, columns where it is a row, and whether it is less than a sentence."""
    columns = quote.sentence.columns if quote.sentence.row else ()
    return quote.source.index, columns, not _ENDED.search(quote.sentence.text)


def _table(quotes: Sequence[Quote]) -> str:
    """The rows that were chosen under the names of their columns, the markers at the end of each."""
    return _render_table(quotes[0].sentence.columns, [quote.sentence.row for quote in quotes], quotes[0].source.index)


def _render_table(columns: Sequence[str], rows: Sequence[Sequence[str]], index: int) -> str:
    marked = [(*cells[:-1], _marked(cells[-1], [index])) for cells in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *marked))


def _listed(quotes: Sequence[Quote]) -> list[str]:
    """Lists, with what several items have been said to be above them."""
    blocks: list[str] = []
    lines: list[str] = []
    told = (quote for quote in quotes if not quote.follows)
    for lead, group in itertools.groupby(told, key=lambda quote: quote.lead):
        members = list(group)
        if not lead or len(members) == 1:
            lines += [f"- {_render_quote(quote)}" for quote in members]
            continue
        items = [f"- {_marked(quote.sentence.text, _indices(quote))}" for quote in members]
        blocks += ["\n".join(lines)] * bool(lines)
        blocks += [_marked(f"{lead}:", [members[0].source.index]), "\n".join(items)]
        lines = []
    return [*blocks, "\n".join(lines)] if lines else blocks


def _paragraphs(quotes: Sequence[Quote]) -> list[str]:
    """Running text; code and lists that a sentence announces stand right behind it."""
    blocks: list[str] = []
    line = ""
    for quote in quotes:
        if quote.above:
            blocks += [line] * bool(line) + _code_above(quote, blocks)
            line = ""
        gap = "" if line.endswith(tuple(_UNSPACED_END)) or not line else " "
        line += gap + _render_quote(quote)
        if quote.follows:
            blocks += [line, _render_followers(quote)]
            line = ""
    return [*blocks, line] if line else blocks


def _render_quote(quote: Quote) -> str:
    return _marked(_shown(quote), _indices(quote))


def _indices(quote: Quote) -> list[int]:
    return [quote.source.index, *quote.also]


def _shown(told: Quote | Candidate) -> str:
    return _with_lead(told.lead, told.sentence.text)


def _with_lead(lead: str, text: str) -> str:
    return f"{lead}: {text}" if lead else text


def _code_above(quote: Quote, told: Sequence[str]) -> list[str]:
    """The code that the sentence speaks of, unless it was just shown."""
    code = _render_code(quote.above) if quote.above else ""
    return [] if told and told[-1] == code else [code]


def _render_code(code: Block) -> str:
    ticks = "````" if "```" in code.text else "```"
    return f"{ticks}{code.syntax}\n{code.text}\n{ticks}"


def _render_followers(quote: Quote) -> str:
    if quote.follows[0].kind == "code":
        return _render_code(quote.follows[0])
    if quote.follows[0].kind == "table":
        return _render_table(*read_table(quote.follows[0]), quote.source.index)
    return "\n".join(
        f"- {_marked(_with_lead(block.term, strip_markup(block.text)), [quote.source.index])}"
        for block in quote.follows
    )


def _marked(text: str, indices: Sequence[int]) -> str:
    """The sentence with its markers before the full stop, so that the stop still ends it."""
    markers = "".join(f"[{index}]" for index in indices)
    if _END.search(text) and not text.endswith(".."):
        return _END.sub(rf" {markers}\1", text)
    return f"{text} {markers}"
