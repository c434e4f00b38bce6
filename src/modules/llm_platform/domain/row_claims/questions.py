"""Answer questions that cells decide: which of the named rows has more of something, and whether a claim about rows is true.

The words of a table do not answer `Which is cheaper, Birch or Maple?` and `Is Tom under 18?` The first question compares the
values of the named rows. The second is judged as a claim: `Tom under 18`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.comparatives import ComparedMeasure, find_comparisons
from modules.llm_platform.domain.extractive.limits import read_limits
from modules.llm_platform.domain.extractive.measures import Direction, list_comparisons
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.row_limits import asks_for_limited_rows, read_limit_question
from modules.llm_platform.domain.extractive.row_questions import asks_for_any_rows, find_rows_in_tables
from modules.llm_platform.domain.extractive.rows_beyond import asks_for_rows_beyond
from modules.llm_platform.domain.extractive.superlatives import (
    EXTREMES_BY_DIRECTION,
    list_interpretations,
    read_row_count,
)
from modules.llm_platform.domain.extractive.table_values import Column
from modules.llm_platform.domain.extractive.table_words import add_word_parts, fold_words, load_word_list
from modules.llm_platform.domain.extractive.tables import RowsFound, Table, list_tables
from modules.llm_platform.domain.row_claims.all_rows import DECISIONS, decide_all_rows
from modules.llm_platform.domain.row_claims.beyond_cells import is_beyond_cells
from modules.llm_platform.domain.row_claims.claim import RowClaim, read_row_claims
from modules.llm_platform.domain.row_claims.comparisons import (
    choose_compared_column,
    list_compared_measures,
    list_values,
)
from modules.llm_platform.domain.row_claims.judgement import judge_rows
from modules.llm_platform.domain.row_claims.source_tables import SourceTable, read_source_tables
from modules.llm_platform.domain.text.language import capitalises_nouns
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import load_date_words
from modules.llm_platform.domain.text.sentences import QUESTION_MARKS
from modules.llm_platform.domain.text.tokens import fold

ASKING_ONLY_FIRST: Final = frozenset(("que",))  # asks only as the first word
MIN_NAMED: Final = 2  # rows of a comparison


def may_be_answered_by_rows(question: Question) -> bool:
    """Return whether rows of a table may answer a question: by their cells, by yes or no, or by one of two names."""
    return asks_to_decide(question) or asks_for_any_rows(question)


def find_answering_rows(
    question: Question, sources: Sequence[Source], candidates: Sequence[Candidate]
) -> RowsFound | None:
    """Return the rows of a table that answer. `candidates` are the sentences of all sources."""
    if asks_to_decide(question):
        tables = [
            table
            for one in sources
            for table in read_source_tables(one.text, one.title, is_whole=one.is_whole, source=one.index)
        ]
        if (decided := decide_by_rows(question, tables)) is not None:
            return decided
    found = find_rows_in_tables(question, list_tables(candidates), candidates)
    if found is not None and asks_to_decide(question) and _has_unknown_name(question, candidates):
        return None
    return replace(found, decision="yes") if found is not None and _asks_for_any(question, found.table) else found


def _has_unknown_name(question: Question, candidates: Sequence[Candidate]) -> bool:
    """Return whether the question has a name that no source has: rows that match its other words are about somebody else.

    A name is a word with a capital inside the question, in languages that do not capitalise all nouns.
    """
    if capitalises_nouns(question.language):
        return False
    capitalised = [part for part in question.text.split()[1:] if part[:1].isupper() and part[1:2].islower()]
    names = set(add_word_parts(fold_words(" ".join(capitalised)))) - load_date_words().keys()
    numbers = [number for number, term in enumerate(question.terms) if term.word in names]
    return any(all(number not in one.credits for one in candidates) for number in numbers)


def _asks_for_any(question: Question, table: Table) -> bool:
    """Return whether rows within a limit, or beyond a row, are a yes: `Is there any plant over 1.5 m?`

    `Is there a red plant over 1.5 m?` is not decided if the table has no colour.
    """
    words = fold_words(question.text)
    limits = [read_limit_question(limit, question.language) for limit in read_limits(question.text)]
    is_fully_covered = all(table.count_matches(limit.content) == len(limit.content) for limit in limits)
    is_of_any = is_fully_covered and load_word_list("every").isdisjoint(words)
    asks_for_beyond = asks_for_limited_rows(question) or asks_for_rows_beyond(question)
    return is_of_any and _asks_yes_or_no(question, words) and asks_for_beyond


def asks_to_decide(question: Question) -> bool:
    """Return whether a question has alternatives (`A or B`) or asks for a yes or no."""
    words = fold_words(question.text)
    return _has_alternatives(words) or _asks_yes_or_no(question, words)


def asks_to_compare(question: Question) -> bool:
    """Return whether a question wants a decision that may need all rows: a limit, more or less of something, or each row."""
    if not asks_to_decide(question):
        return False
    words = fold_words(question.text)
    is_of_all = not load_word_list("every").isdisjoint(words)
    compares = any(map(list_comparisons, words)) or bool(find_comparisons(words, question.language))
    return is_of_all or compares or bool(read_limits(question.text))


def decide_by_rows(question: Question, tables: Sequence[SourceTable]) -> RowsFound | None:
    """Return what the rows of one table say; None if it is not certain what the question compares or states."""
    words = fold_words(question.text)
    if count_negators(words):
        return None
    if _has_alternatives(words):
        claims = read_row_claims(question.text, tables, question.language, is_question=True)
        found = [one for claim in claims if (one := _choose_row(claim)) is not None]
        return found[0] if len(found) == 1 else None
    return _say_yes_or_no(question, tables) if _asks_yes_or_no(question, words) else None


def _has_alternatives(words: Sequence[str]) -> bool:
    """Return whether a question has alternatives: `A or B`, or `which of A and B`."""
    is_choice = not any(load_word_list(kind).isdisjoint(words) for kind in ("choosing", "adding"))
    return is_choice or not load_word_list("alternatives").isdisjoint(words)


def _asks_yes_or_no(question: Question, words: Sequence[str]) -> bool:
    """Return whether a question has no word that asks for something else, and has a question mark or begins with a verb."""
    kinds = ("choosing", "counting", "asking_else")
    asking = frozenset().union(*(load_word_list(kind, question.language) for kind in kinds))
    asking -= frozenset(words[1:]) & ASKING_ONLY_FIRST  # `plus longue que` asks nothing
    begins_so = bool(words) and words[0] in load_word_list("yes_or_no")
    return (begins_so or question.text.rstrip().endswith(tuple(QUESTION_MARKS))) and asking.isdisjoint(words)


def _say_yes_or_no(question: Question, tables: Sequence[SourceTable]) -> RowsFound | None:
    if (judged := _judge_statement(question, tables)) is not None:
        return judged
    claims = list(read_row_claims(question.text, tables, question.language, is_question=True))
    matches = [claim.table.count_matches(claim.content) for claim in claims]
    nearest = [claim for claim, count in zip(claims, matches, strict=True) if count == max(matches)]
    found = [one for claim in nearest if (one := decide_all_rows(claim)) is not None]
    return found[0] if len(found) == 1 else None


def _judge_statement(question: Question, tables: Sequence[SourceTable]) -> RowsFound | None:
    judged = judge_rows(_state(question), tables, question.language, is_question=True)
    claim, finding = judged.claim, judged.finding
    if claim is None or finding is None or finding.is_true is None:
        return None
    if finding.average and finding.column is not None:
        shown = RowsFound(claim.table, tuple(claim.row_indices), len(finding.row_indices), figure=finding.average)
        column, decision = claim.table.columns[finding.column], DECISIONS[finding.is_true]
        return replace(shown, column=column, decision=decision, sum_kind="average")
    others = () if finding.needs_all_rows else finding.row_indices
    indices = tuple(dict.fromkeys([*claim.row_indices, *others]))
    return RowsFound(claim.table, indices, len(indices), decision=DECISIONS[finding.is_true])


def _state(question: Question) -> str:
    """Return the question without its question mark and its first verb, so that `Was the oak …` is not read as a list of rows."""
    text = question.text.strip(f" {QUESTION_MARKS}")
    first, _, rest = text.partition(" ")
    return rest if fold(first) in load_word_list("yes_or_no") | load_word_list("being") else text


def _choose_row(claim: RowClaim) -> RowsFound | None:
    """Return which of the named rows has the highest or lowest value.

    There is no answer if the question may be about two measures, and they give different rows.
    """
    is_stated = claim.amounts or claim.spelled_amounts or claim.date  # `which was cheaper in 2019` is about other cells
    if len(claim.row_indices) < MIN_NAMED or not claim.is_covered or is_beyond_cells(claim) or is_stated:
        return None
    if find_comparisons(claim.folded, claim.language):
        return None  # `Which is cheaper than Birch or Maple?`
    measures = list(_list_measures(claim))
    of_numbers = [one for one in measures if not one.is_of_dates and _choose_column(claim, one) is not None]
    compared = [_compare(claim, by) for by in of_numbers or measures]  # an age comes before a date
    found = [one for one in compared if one is not None]
    return found[0] if len({(one.decision, one.name) for one in found}) == 1 else None


def _choose_column(claim: RowClaim, by: ComparedMeasure) -> tuple[int, Column] | None:
    return choose_compared_column(claim, by.measure, is_of_dates=by.is_of_dates)


def _list_measures(claim: RowClaim) -> Iterator[ComparedMeasure]:
    if claim.superlative is not None:
        if read_row_count(claim.folded) != 1:
            return  # `the second cheapest`
        for one in list_interpretations(claim.folded[claim.superlative :]):
            direction: Direction = "more" if one.kind in ("highest", "latest") else "less"
            yield ComparedMeasure(direction, one.measure, one.is_of_dates)
        return
    if not load_word_list("often").isdisjoint(claim.folded):
        return  # `needs water more often`
    for at, _ in enumerate(claim.folded):
        yield from list_compared_measures(claim, at)


def _compare(claim: RowClaim, by: ComparedMeasure) -> RowsFound | None:
    found = _choose_column(claim, by)
    values = list_values(found, claim.row_indices)
    if found is None or not values:
        return None
    best = max(values) if by.direction == "more" else min(values)
    first = [index for index, value in zip(claim.row_indices, values, strict=True) if value == best]
    if 1 < len(first) < len(values):
        return None
    indices = (*first, *(index for index in claim.row_indices if index not in first))
    extreme, column = EXTREMES_BY_DIRECTION[by.direction, found[0] in claim.table.dates], claim.table.columns[found[0]]
    shown = RowsFound(claim.table, indices, len(indices), extreme, column, "same")
    if len(first) == len(values):
        return shown
    name = next(claim.table.rows[row.row_index][row.column] for row in claim.mentions if row.row_index == first[0])
    return replace(shown, decision="first", name=name)
