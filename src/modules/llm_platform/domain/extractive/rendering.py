"""Render selected quotes as Markdown, each with its citation marker.

`render_answer` takes the selection. If its sources contradict each other, or use a word of the question in several meanings, the
answer says so.
"""

import itertools
import re
from collections.abc import Sequence

from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.conflicts import Meanings, find_conflict, find_meanings
from modules.llm_platform.domain.extractive.independent_sources import Side, find_sides
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.extractive.selection import Quote, Selection, make_quotes
from modules.llm_platform.domain.extractive.sentences import read_table
from modules.llm_platform.domain.extractive.tables import RowsFound
from modules.llm_platform.domain.text.messages import Messages
from modules.llm_platform.domain.text.sentences import COLONS, STOPS, WIDE_STOPS, ends_sentence
from modules.llm_platform.domain.text.tokens import count_tokens

MAX_CLOSEST = 3  # sentences
ROWS_LEAD = "{count} of {read} rows answer the question, and the answer names each of them:"

_END = re.compile(rf"(?<![{STOPS}{WIDE_STOPS}{COLONS}])([{STOPS}{WIDE_STOPS}{COLONS}]+)\Z")
_LAST_STOP_OF_WORD = re.compile(r"\.\.\Z|\b[^\W\d_]\.[^\W\d_]\.\Z")  # "and so on ..", "2 p.m."
_UNSPACED_END = "。！？：」』）"


def render_answer(selection: Selection, messages: Messages, max_tokens: int) -> str:
    """Return the answer in Markdown; empty without quotes.

    From the first block that would exceed `max_tokens` on, blocks are left out. The first block of the answer always stays.
    """
    text = ""
    for block in _render_blocks(selection, messages):
        longer = f"{text}\n\n{block}" if text else block
        if text and count_tokens(longer) > max_tokens:
            break
        text = longer
    return text


def render_rows(found: RowsFound, messages: Messages) -> str:
    """Return the table rows that answer, below a line that says what was compared, or how many rows they are."""
    return (
        f"{_write_rows_lead(found, messages)}\n\n{_render_table(found.table.columns, found.rows, found.table.source)}"
    )


def render_rows_to_read(found: RowsFound, messages: Messages) -> str:
    """Return the rows without markers, for a prompt. The lead asks for all rows, because small models often name only one."""
    is_said = bool(found.extreme or found.decision or found.sum_kind)
    lead = _write_rows_lead(found, messages) if is_said else ROWS_LEAD.format(count=len(found.rows), read=found.read)
    return f"{lead}\n\n{_join_rows(found.table.columns, found.rows)}"


def _write_rows_lead(found: RowsFound, messages: Messages) -> str:
    if found.decision in ("yes", "no"):
        said = messages.yes if found.decision == "yes" else messages.no
        return f"{said} {_count_rows(found, messages)}" if found.read > len(found.row_indices) else said
    if found.decision == "same":
        return messages.format_equal_line(strip_markup(found.column))
    line = _count_rows(found, messages)
    return f"{strip_markup(found.name)}: {line}" if found.name else line


def _count_rows(found: RowsFound, messages: Messages) -> str:
    if found.sum_kind:
        return messages.format_figure_line(found.sum_kind, strip_markup(found.column), found.figure, found.read)
    return messages.format_row_count(found.extreme, strip_markup(found.column), len(found.rows), found.read)


def render_closest(selection: Selection, messages: Messages) -> str:
    """Return the best sentence of each of the best sources, for an answer that found none; empty if none can be quoted."""
    best: dict[int, Candidate] = {}
    for one in selection.best:
        if _stands_alone(one):
            best.setdefault(one.source.index, one)
    return render_closest_sentences(list(best.values()), messages)


def render_closest_sentences(ordered: Sequence[Candidate], messages: Messages) -> str:
    """Return the first sentences that can stand alone, below a line that introduces them; empty if there are none.

    The rows of one table are rendered together, at the position of the first of them.
    """
    alone = [one for one in ordered if _stands_alone(one)][:MAX_CLOSEST]
    by_table: dict[object, list[Candidate]] = {}
    for one in alone:
        by_table.setdefault(one.columns_key if one.sentence.row else id(one), []).append(one)
    blocks: list[str] = []
    for is_table, groups in itertools.groupby(by_table.values(), key=lambda group: bool(group[0].sentence.row)):
        if is_table:
            blocks += [_render_rows(group) for group in groups]
        else:
            blocks.append("\n".join(f"- {_add_markers(_render_text(one), [one.source.index])}" for (one,) in groups))
    return "\n\n".join([messages.closest, *blocks]) if blocks else ""


def _render_rows(rows: Sequence[Candidate]) -> str:
    first = rows[0]
    return _render_table(first.sentence.columns, [row.sentence.row for row in rows], first.source.index)


def _stands_alone(candidate: Candidate) -> bool:
    """Return whether a reader understands the sentence without what is before or below it."""
    is_lead_in = candidate.sentence.is_announcement or candidate.sentence.text.endswith(tuple(COLONS))
    return not candidate.is_dependent and not is_lead_in


def _render_blocks(selection: Selection, messages: Messages) -> list[str]:
    if not selection.chosen:
        return []
    if ambiguous := find_meanings(selection.question, selection.best):
        return [_render_meanings(ambiguous, messages)]
    quotes = make_quotes(selection)
    conflict = find_conflict(selection.best)
    if conflict is None:
        return render_quotes(quotes)
    quotes_left = [quote for quote in quotes if not any(quote.sentence is side.sentence for side in conflict)]
    return [render_conflict(find_sides(conflict, selection.candidates), messages), *render_quotes(quotes_left)]


def _render_meanings(found: Meanings, messages: Messages) -> str:
    """Return a list with the meanings of an ambiguous word, each with the sentence that describes it."""
    lines = [messages.format_meanings_intro(strip_markup(found.subject)), ""]
    for meaning in found.meanings:
        cited = _add_markers(_render_text(meaning.opening), [meaning.opening.source.index])
        lines.append(f"- {strip_markup(meaning.title)}: {cited}")
    return "\n".join(lines)


def render_conflict(sides: tuple[Side, Side], messages: Messages) -> str:
    """Return a message that sources disagree, and both sentences with their dates and numbers of independent sources."""
    lines: list[str] = []
    for side in sides:
        sentence = side.sentence
        cited = _add_markers(_render_text(sentence), [sentence.source.index])
        lines.append(f"- {cited} {messages.format_disputed_quote_note(sentence.source.published, side.voices)}")
    return "\n".join([messages.disagree, "", *lines])


def render_quotes(quotes: Sequence[Quote]) -> list[str]:
    """Return the Markdown blocks of quotes: sentences as paragraphs, table rows as a table, fragments as a list."""
    blocks: list[str] = []
    for (_, columns, fragments), group in itertools.groupby(quotes, key=_get_shape):
        members = list(group)
        if columns:
            rows = [quote.sentence.row for quote in members]
            blocks.append(_render_table(members[0].sentence.columns, rows, members[0].source.index))
        elif fragments and len(quotes) > 1:
            blocks += _render_lists(members)
        else:
            blocks += _render_paragraphs(members)
    return blocks


def _get_shape(quote: Quote) -> tuple[int, Sequence[str], bool]:
    """Return what neighbouring quotes must share to be rendered as one block: source, columns, fragment or sentence.

    A fragment with code, a list or a table below it is rendered like a sentence.
    """
    columns = quote.sentence.columns if quote.sentence.row else ()
    return quote.source.index, columns, not ends_sentence(quote.sentence.text) and not quote.attachments


def _render_table(columns: Sequence[str], rows: Sequence[Sequence[str]], index: int) -> str:
    return _join_rows(columns, [(*cells[:-1], _add_markers(cells[-1], [index])) for cells in rows])


def _join_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))


def _render_lists(quotes: Sequence[Quote]) -> list[str]:
    """Return the quotes as lists. A lead that adjacent items share is written once, above them."""
    blocks: list[str] = []
    lines: list[str] = []
    for lead, group in itertools.groupby(quotes, key=lambda quote: quote.lead):
        members = list(group)
        if not lead or len(members) == 1:
            lines += [f"- {_render_quote(quote)}" for quote in members]
            continue
        items = [f"- {_add_markers(quote.sentence.text, _list_indices(quote))}" for quote in members]
        blocks += ["\n".join(lines)] * bool(lines)
        blocks += [_add_markers(f"{lead}:", [members[0].source.index]), "\n".join(items)]
        lines = []
    return [*blocks, "\n".join(lines)] if lines else blocks


def _render_paragraphs(quotes: Sequence[Quote]) -> list[str]:
    """Return the quotes as paragraphs. The code or list that a sentence announces is below it."""
    blocks: list[str] = []
    line = ""
    for quote in quotes:
        if quote.above:
            code = _render_code(quote.above)
            blocks += [line] * bool(line) + [code] * (blocks[-1:] != [code])
            line = ""
        gap = "" if line.endswith(tuple(_UNSPACED_END)) or not line else " "
        line += gap + _render_quote(quote)
        if quote.attachments:
            blocks += [line, _render_attachments(quote)]
            line = ""
    return [*blocks, line] if line else blocks


def _render_quote(quote: Quote) -> str:
    return _add_markers(_render_text(quote), _list_indices(quote))


def _list_indices(quote: Quote) -> list[int]:
    return [quote.source.index, *quote.also]


def _render_text(quote: Quote | Candidate) -> str:
    return _add_lead(quote.lead, quote.sentence.text)


def _add_lead(lead: str, text: str) -> str:
    return f"{lead}: {text}" if lead else text


def _render_code(code: Block) -> str:
    ticks = "````" if "```" in code.text else "```"
    return f"{ticks}{code.syntax}\n{code.text}\n{ticks}"


def _render_attachments(quote: Quote) -> str:
    if quote.attachments[0].kind == "code":
        return _render_code(quote.attachments[0])
    if quote.attachments[0].kind == "table":
        return _render_table(*read_table(quote.attachments[0]), quote.source.index)
    return "\n".join(
        f"- {_add_markers(_add_lead(block.term, strip_markup(block.text)), [quote.source.index])}"
        for block in quote.attachments
    )


def _add_markers(text: str, indices: Sequence[int]) -> str:
    """Return the sentence with its markers before the full stop, or after the last stop of an abbreviation: "2 p.m. [1]"."""
    markers = "".join(f"[{index}]" for index in indices)
    if _END.search(text) and not _LAST_STOP_OF_WORD.search(text):
        return _END.sub(rf" {markers}\1", text)
    return f"{text} {markers}"
