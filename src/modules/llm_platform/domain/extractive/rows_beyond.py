"""Find the rows that have more or less than a named row, or than the average: `Which tools are cheaper than the generator?`

There is no answer if it is uncertain which row or column is meant. If several columns may be meant, they must give the same rows.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.comparatives import (
    Comparison,
    compares_otherwise,
    find_comparisons,
    load_than_words,
)
from modules.llm_platform.domain.extractive.compared_columns import holds_measure
from modules.llm_platform.domain.extractive.compared_rows import (
    RankingQuestion,
    list_ranked_columns,
    read_ranking_question,
)
from modules.llm_platform.domain.extractive.limits import read_limits
from modules.llm_platform.domain.extractive.measures import SIZE, is_measuring_word, list_asked_measures
from modules.llm_platform.domain.extractive.quantities import find_unit
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.row_limits import asks_for_rows_or_count
from modules.llm_platform.domain.extractive.summed_rows import compute_average
from modules.llm_platform.domain.extractive.superlatives import EXTREMES_BY_DIRECTION, Superlative, means_earliest_start
from modules.llm_platform.domain.extractive.table_values import Column
from modules.llm_platform.domain.extractive.table_words import (
    fold_words,
    is_cell_named,
    list_content_words,
    load_row_question_words,
    load_word_list,
    matches_any_word,
    matches_word,
    split_cell,
    strip_genitive,
)
from modules.llm_platform.domain.extractive.tables import (
    MAX_COUNTED,
    Row,
    RowsFound,
    Table,
    filter_rows,
    keep_nearest_tables,
    may_name_rows,
)
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import load_number_words

MAX_WORDS: Final = 100  # of a question that is read
MIN_PART_LETTERS: Final = 3  # of a single word that names a row with a longer name
_ELISION: Final = re.compile(r"\b(qu|l)['’](?=\w)", re.IGNORECASE)  # `plus âgé qu'Anna`, `que l'atelier`


class _BeyondQuestion(NamedTuple):
    """A question with one comparison.

    - `words` are its folded words.
    - `subject` are the content words between "which" or "how many" and the comparative; empty after "who".
    """

    words: Sequence[str]
    compared: Comparison
    subject: Sequence[str]
    language: str

    @property
    def after(self) -> Sequence[str]:
        """The words after the "than"."""
        return self.words[self.compared.than + 1 :]


class _Reference(NamedTuple):
    """What rows are compared with: a row, or, with None, the average. `rest` has the other words after the "than"."""

    row_index: int | None
    rest: Sequence[str]


def asks_for_rows_beyond(question: Question) -> bool:
    """Return whether a question asks which rows, or how many, have more or less than something that is not a value."""
    return bool(_list_comparisons(question, _split(question)))


def find_rows_beyond(question: Question, tables: Sequence[Table], candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows beyond the row or the average that the question names; None if it is not certain which are meant.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    words = _split(question)
    compared = _list_comparisons(question, words)
    if len(compared) != 1 or count_negators(words):
        return None
    subject = _list_subject(words[: compared[0].start], question.language)
    asked = _BeyondQuestion(words, compared[0], subject, question.language)
    nearest = keep_nearest_tables(tables, list_content_words(_make_question(words, question.language)))
    found = [rows for table in nearest if (rows := _find_rows(table, asked, candidates)) is not None]
    return found[0] if len(found) == 1 else None


def is_compared_with(question: Question, row: Row) -> bool:
    """Return whether a question asks for rows beyond this one, which therefore does not answer it alone."""
    words, stop_words = _split(question), load_stop_words(question.language)
    if not words or words[0] in load_word_list("yes_or_no"):
        return False
    for compared in _list_comparisons(question, words):
        content = [word for word in words[compared.than + 1 :] if word not in stop_words]
        cells = [cell for cell in map(split_cell, row) if cell]
        is_part = bool(cells and content) and all(matches_any_word(word, cells[0]) for word in content)
        if is_part or any(is_cell_named(cell, content) for cell in cells):
            return True
    return False


def _split(question: Question) -> list[str]:
    text = _ELISION.sub(lambda found: "que " if found[1].casefold() == "qu" else "", question.text)
    return [strip_genitive(word) for word in fold_words(text)]


def _make_question(words: Sequence[str], language: str) -> Question:
    return read_question(" ".join(words), language)


def _list_comparisons(question: Question, words: Sequence[str]) -> list[Comparison]:
    if not 0 < len(words) <= MAX_WORDS or not asks_for_rows_or_count(words) or read_limits(question.text):
        return []
    if words[0] in load_word_list("yes_or_no") and not load_word_list("every").isdisjoint(words):
        return []  # `Are all items heavier than the trolley?`
    found = find_comparisons(words, question.language)
    return [one for one in found if one.than + 1 < len(words) and _asks_before(words[: one.start], question.language)]


def _asks_before(words: Sequence[str], language: str) -> bool:
    """Return whether a word before the comparative asks for rows: not `La scie est-elle plus chère que la perceuse ?`"""
    kinds = ("choosing", "counting", "persons", "asking_else")
    asking = frozenset().union(*(load_word_list(kind, language) for kind in kinds)) - load_than_words(language)
    first = load_word_list("listing") | load_word_list("yes_or_no")
    return not asking.isdisjoint(words) or not first.isdisjoint(words[:1])


def _list_subject(words: Sequence[str], language: str) -> list[str]:
    asking = load_row_question_words()
    at = next((at for at, word in enumerate(words) if word in asking), len(words))
    if load_word_list("persons").intersection(words[at : at + 1]):
        return []
    return [word for word in words[at:] if word not in asking and word not in load_stop_words(language)]


def _find_noun(table: Table, asked: _BeyondQuestion) -> str:
    """Return the word for the rows, which the table may lack: `tools` of `garden tools`; empty if there is none."""
    cells = [word for named in table.find_named_cells(asked.subject).values() for cell in named for word in cell]
    noun = next((word for word in asked.subject if not matches_any_word(word, cells)), "")
    return "" if is_measuring_word(noun) else noun


def _find_rows(table: Table, asked: _BeyondQuestion, candidates: Sequence[Candidate]) -> RowsFound | None:
    reference, compared = _find_reference(table, asked), asked.compared
    if reference is None or any(_list_named(table, asked.words[: compared.than], asked.language)):
        return None  # `How many more seats does the hall have than the library?`
    words = [*asked.words[: compared.than + 1], *reference.rest]  # without the name of the row
    if compares_otherwise(words, compared) or _states_difference(table, words, compared):
        return None
    ranking = read_ranking_question(_make_question(words, asked.language))
    left_out = {*words[compared.start : compared.at + 1], *load_word_list("listing"), *load_word_list("average")}
    noun = _find_noun(table, asked)
    described = [word for word in ranking.content if word not in left_out and not (noun and matches_word(word, noun))]
    periods = _list_periods(words)
    if not all(_is_known(table, word) for word in periods) or not _is_table_about(
        table, noun, reference, described, candidates
    ):
        return None
    superlatives = list(_list_superlatives(asked))
    ranking = ranking._replace(superlatives=superlatives, at=compared.at, described=[*described, *periods])
    kept = _find_beyond(table, ranking, reference)
    return RowsFound(table, kept, len(table.rows)) if 0 < len(kept) <= MAX_COUNTED else None


def _find_reference(table: Table, asked: _BeyondQuestion) -> _Reference | None:
    """Return the only row that the words after the "than" name, or the average if they name no row."""
    averages = load_word_list("average")
    named = _find_named_rows(table, asked)
    if not named:
        rest = [word for word in asked.after if word not in averages]
        return _Reference(None, rest) if len(rest) < len(asked.after) else None
    (index, name), *others = named.items()
    rest = [word for word in asked.after if not matches_any_word(word, name)]
    return None if others or not averages.isdisjoint(rest) else _Reference(index, rest)


def _find_named_rows(table: Table, asked: _BeyondQuestion) -> Mapping[int, Row]:
    """Return the names of the rows that the words after the "than" name, by the index of the row.

    A row is named by a whole name, or by a part of a name if the table has no whole one: `Anna` is `Anna Keller`.
    """
    for named in _list_named(table, asked.after, asked.language):
        if named:
            longest = [cell for cell in named.values() if not any(set(cell) < set(other) for other in named.values())]
            return {index: cell for index, cell in named.items() if cell in longest}
    stop_words = load_stop_words(asked.language)
    content = [word for word in asked.after if word not in stop_words and not _is_known(table, word)]
    if not content or (
        len(content) == 1 and (len(content[0]) < MIN_PART_LETTERS or table.count_cells(content[0]) != 1)
    ):
        return {}
    return {
        index: cell
        for column in _list_naming_columns(table)
        for index, cell in enumerate(map(split_cell, table.list_cells(column)))
        if all(matches_any_word(word, cell) for word in content)
    }


def _list_named(table: Table, words: Sequence[str], language: str) -> Iterator[Mapping[int, Row]]:
    """Yield for each column of names the cells whose words are all among these, by row. Function words alone name nothing."""
    stop_words = load_stop_words(language)
    for column in _list_naming_columns(table):
        cells = map(split_cell, table.list_cells(column))
        yield {
            index: cell
            for index, cell in enumerate(cells)
            if is_cell_named(cell, words) and not stop_words.issuperset(cell)
        }


def _list_naming_columns(table: Table) -> Iterator[int]:
    """Yield the columns whose cells can name rows: the first one, and columns of text in which all cells differ."""
    for column in range(len(table.columns)):
        cells = list(map(split_cell, table.list_cells(column)))
        is_of_values = column in table.quantities or column in table.dates
        if column == 0 or (not is_of_values and all(cells) and len(set(cells)) == len(cells)):
            yield column


def _is_known(table: Table, word: str) -> bool:
    return table.is_in_columns(word) or table.is_in_title(word)


def _states_difference(table: Table, words: Sequence[str], compared: Comparison) -> bool:
    """Return whether a question states how much more: `two years older`, `a year older`. The table may have a number."""
    numbers = load_number_words()
    values = [(word, numbers.get(word, word)) for word in words]
    if any(any(map(str.isdigit, value)) and value != "1" and not _is_known(table, word) for word, value in values):
        return True
    before = words[max(0, compared.start - 2) : compared.start]
    return len(before) > 1 and before[0] in load_word_list("single") and find_unit(before[1]) is not None


def _list_superlatives(asked: _BeyondQuestion) -> Iterator[Superlative]:
    """Yield the superlatives with the direction and the measure of the comparison."""
    is_earliest_start = means_earliest_start(asked.words, asked.compared.at, asked.language)
    for one in asked.compared.measures:
        kind = EXTREMES_BY_DIRECTION[one.direction, one.is_of_dates]
        is_bare = one.measure is None and not one.is_of_dates  # `more than`
        yield Superlative(kind, one.measure, needs_name=is_bare or is_earliest_start)
        if one.measure is not None and one.measure.name == SIZE:
            yield Superlative(kind, needs_name=True)  # `a larger quantity than`


def _list_periods(words: Sequence[str]) -> list[str]:
    """Return the units after "per", which the name of the column must have: `per day`."""
    pairs = itertools.pairwise(words)
    return [two for one, two in pairs if one in load_word_list("per") and find_unit(two) is not None]


def _is_table_about(
    table: Table, noun: str, reference: _Reference, described: Sequence[str], candidates: Sequence[Candidate]
) -> bool:
    """Return whether the table has all words but the noun, and the noun may mean its rows. A named row shows the table."""
    if reference.row_index is not None:
        candidates = [one for one in candidates if one.source.index == table.source]
    may_mean_rows = not noun or may_name_rows([noun], table, candidates)
    return may_mean_rows and table.count_matches(described) == len(described)


def _find_beyond(table: Table, ranking: RankingQuestion, reference: _Reference) -> tuple[int, ...]:
    """Return the rows beyond the reference; empty if there are none, or if interpretations or columns give different rows.

    As with superlatives, numbers come before dates.
    """
    found = [
        (superlative, _list_beyond(table, index, column, superlative, reference, ranking.described))
        for superlative in ranking.superlatives
        for index, column in list_ranked_columns(table, ranking, superlative).items()
        if _is_meant(table, index, ranking)
    ]
    of_numbers = [rows for superlative, rows in found if not superlative.is_of_dates]
    results = set(of_numbers or [rows for _, rows in found])
    return results.pop() if len(results) == 1 else ()


def _is_meant(table: Table, chosen: int, ranking: RankingQuestion) -> bool:
    """Return whether no other column holds what the question measures, and no word names another column.

    A word may also name the rows, a column of yes and no, or a cell and its column.
    """
    sought = list_asked_measures(ranking.words)
    holding = {
        index
        for index, other in table.quantities.items()
        if any(holds_measure(one, table.columns[index], other) for one in sought)
    }
    described = {0, chosen, *table.flags, *table.find_named_cells(ranking.described)}
    names = [word for index in described for word in table.column_words[index]]
    words = [*ranking.described, ranking.words[ranking.at]]  # `more light than` may be about a column `Light`
    is_of_other = any(table.is_in_columns(word) and not matches_any_word(word, names) for word in words)
    return not is_of_other and (chosen in holding or not holding)


def _list_beyond(
    table: Table,
    chosen: int,
    column: Column,
    superlative: Superlative,
    reference: _Reference,
    words: Sequence[str],
) -> tuple[int, ...]:
    """Return the rows with more or less than the reference; empty if this is uncertain. `words` may describe the rows."""
    indices = filter_rows(table, [word for word in words if not matches_any_word(word, table.column_words[chosen])])
    is_more = superlative.kind in ("highest", "latest")
    results = {
        tuple(
            index
            for index in indices
            if (value := column.values[index]) is not None
            and (value > bound) is is_more
            and not math.isclose(value, bound)
        )
        for bound in _list_bounds(table, column, superlative, reference, indices)
    }
    return results.pop() if len(results) == 1 else ()


def _list_bounds(
    table: Table, column: Column, superlative: Superlative, reference: _Reference, indices: Sequence[int]
) -> list[float]:
    """Return the value of the named row, or the average of all rows and of the described rows; empty if it has none."""
    if reference.row_index is not None:
        bound = column.values[reference.row_index]
        return [] if bound is None or column.has_long_periods else [bound]
    if superlative.is_of_dates:
        return []
    averages = (
        compute_average(table, values) for values in (column.values, [column.values[index] for index in indices])
    )
    return [average for average in averages if average is not None]
