"""Find the rows that answer a question about one table: which row has the most, which is the latest, or how many there are.

The answer quotes the rows, so that a reader can check it. There is no answer if it is uncertain which column or rows are meant.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_columns import (
    Columns,
    filter_columns_by_measure,
    has_better_column,
    holds_measure,
    list_nearest_columns,
)
from modules.llm_platform.domain.extractive.dated_rows import asks_for_dated_rows
from modules.llm_platform.domain.extractive.measures import (
    BEGINNING,
    DATE,
    Measure,
    get_measure,
    is_measuring_word,
    list_asked_measures,
)
from modules.llm_platform.domain.extractive.question import NAME_WEIGHT, Question
from modules.llm_platform.domain.extractive.superlatives import (
    EXTREMES,
    Superlative,
    find_superlative,
    list_interpretations,
    means_earliest_start,
    read_row_count,
)
from modules.llm_platform.domain.extractive.table_words import (
    fold_words,
    list_content_words,
    load_word_list,
    matches_any_word,
    split_cell,
)
from modules.llm_platform.domain.extractive.tables import (
    MAX_COUNTED,
    MAX_EQUAL,
    RowsFound,
    Table,
    filter_rows,
    find_rows_by_name,
    keep_nearest_tables,
    may_name_rows,
)
from modules.llm_platform.domain.text.negation import count_negators


class RankingQuestion(NamedTuple):
    """A question about the most, the least, the latest or the number of rows.

    - `words` are its folded words. `content` has no function words, and no words that compare, such as "most".
    - `superlatives` are the interpretations of its superlative; empty without one. `at` is the index of the superlative among
      the words, or the number of words without one.
    - `row_count` is the number of rows that it asks for: 3 for `the three cheapest`.
    - `described` are the content words that do not name the rows.
    """

    words: Sequence[str]
    content: Sequence[str]
    superlatives: Sequence[Superlative]
    at: int
    row_count: int
    described: Sequence[str]


def read_ranking_question(question: Question) -> RankingQuestion:
    words = fold_words(question.text)
    per = load_word_list("per")  # `per item` names no row
    left_out = load_word_list("fillers") | load_word_list("choosing") | load_word_list("now") | per
    this, year = load_word_list("this"), load_word_list("year")  # `this year` and `now` name no row either
    left_out |= {two for one, two in itertools.pairwise(words) if one in per or (one in this and two in year)}
    content = [word for word in list_content_words(question) if not _is_comparing_word(word) and word not in left_out]
    at = find_superlative(words)
    superlatives = list_interpretations(words[at:])
    if superlatives and means_earliest_start(words, at, question.language):
        superlatives = [Superlative("earliest", get_measure(BEGINNING), needs_name=True)]
    return RankingQuestion(words, content, superlatives, at, read_row_count(words), _list_described(words, content, at))


def _list_described(words: Sequence[str], content: Sequence[str], at: int) -> list[str]:
    """Return the content words without the one after "which", and without a clause after the superlative: `that we have`."""
    asking, choosing = load_word_list("asking"), load_word_list("choosing")
    end = next((end for end in range(at, len(words)) if words[end] in asking), len(words))
    for_rows = {two for one, two in itertools.pairwise(words) if one in choosing}
    return [word for word in words[:end] if word in content and word not in for_rows]


def asks_to_rank_or_count(question: Question) -> bool:
    """Return whether a question asks for the most, the latest or a number of rows. A question with a "not" does not."""
    asked = read_ranking_question(question)
    counts = not load_word_list("counting").isdisjoint(asked.words)
    return (counts or bool(asked.superlatives)) and not count_negators(asked.words)


def find_ranked_rows(question: Question, tables: Sequence[Table], candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows that answer a question about the most, the latest or the number of rows; None if there is no answer.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    if not asks_to_rank_or_count(question):
        return None
    asked = read_ranking_question(question)
    if not asked.superlatives and asks_for_dated_rows(question):
        return None  # `How many orders came in May?` counts the rows of a month
    nearest = keep_nearest_tables(tables, asked.content)
    names = [term.word for term in question.terms if term.weight == NAME_WEIGHT] if asked.superlatives else []
    about = [
        table
        for table in nearest
        if _is_table_about(asked, table, candidates) and all(_has_name(table, name) for name in names)
    ]
    found = [rows for table in about if (rows := _find_compared_rows(table, asked)) is not None]
    # A column that the question names is preferred to one that is only chosen because its table has no other to compare.
    found = [
        rows for rows in found if any(matches_any_word(name, asked.content) for name in split_cell(rows.column))
    ] or found
    return found[0] if len(found) == 1 else None


def _has_name(table: Table, name: str) -> bool:
    """Return whether a table has a name of the question: `the minimum order at Brampton` is not about a table without it."""
    return table.has_word(name) or table.is_in_title(name) or table.count_matches([name]) > 0


def _is_table_about(asked: RankingQuestion, table: Table, candidates: Sequence[Candidate]) -> bool:
    """Return whether the table has at least a third of the question's content words.

    A superlative such as "cheapest" says what is compared. With it, the table must have all `described` words. Only the words
    that name the rows may be missing, as in `Which outing is the cheapest?`
    """
    is_measured = bool(list_asked_measures(asked.words)) or any(one.measure is not None for one in asked.superlatives)
    if asked.superlatives and is_measured:
        is_described = table.count_matches(asked.described) == len(asked.described)
        return is_described and may_name_rows(asked.content, table, candidates)
    known = table.count_matches(asked.content)
    return known > 0 and 3 * known >= len(asked.content)


def _find_compared_rows(table: Table, asked: RankingQuestion) -> RowsFound | None:
    named = find_rows_by_name(table, asked.content)
    if len(named) == 1:
        return None  # "last" may be a part of the name of a column, as in `the last service of Anna`
    indices = [index for index in filter_rows(table, asked.content) if not named or index in named]
    if asked.superlatives and table.is_in_column_name(asked.words, asked.at):
        return None
    if asked.superlatives:
        return find_extreme(table, indices, asked)
    # The question names a single row, and does not count it: "How many seats does Anna have?"
    is_count = 1 < len(indices) < len(table.rows) and len(indices) <= MAX_COUNTED
    return RowsFound(table, tuple(indices), len(table.rows)) if is_count else None


def find_extreme(
    table: Table, indices: Sequence[int], asked: RankingQuestion, max_equal: int = MAX_EQUAL
) -> RowsFound | None:
    """Return the rows with the highest or lowest value.

    Return None if the interpretations of the superlative disagree, or if more than `max_equal` rows tie.

    Rows found by numbers are preferred to rows found by dates: the oldest member need not have joined first.
    """
    found = [
        one
        for superlative in asked.superlatives
        if (one := _find_rows_of_superlative(table, indices, asked, superlative, max_equal))
    ]
    of_numbers = [one for one in found if one.extreme in ("highest", "lowest")]
    agree = len({one.row_indices for one in of_numbers or found}) == 1
    return (of_numbers or found)[0] if agree else None


def _find_rows_of_superlative(
    table: Table, indices: Sequence[int], asked: RankingQuestion, superlative: Superlative, max_equal: int
) -> RowsFound | None:
    columns = list_ranked_columns(table, asked, superlative)
    if len(columns) != 1:
        return None
    ((chosen, column),) = columns.items()
    known = [(value, index) for index in indices if (value := column.values[index]) is not None]
    best = sorted({value for value, _ in known}, reverse=superlative.kind in ("highest", "latest"))[: asked.row_count]
    found = tuple(index for value, index in known if value in best)
    if not found or len(found) > max(max_equal, asked.row_count):
        return None
    return RowsFound(table, found, len(indices), superlative.kind, table.columns[chosen])


def list_ranked_columns(table: Table, asked: RankingQuestion, superlative: Superlative) -> Columns:
    """Return the columns that the question may be about: by their name, by a word such as "cheapest", or the only one.

    They are empty if nothing points to them. Several are equally near: a price per day, and one per week.
    """
    sought = list_asked_measures(asked.words)
    columns = table.dates if superlative.is_of_dates else table.quantities
    columns = {index: column for index, column in columns.items() if index and not _is_bound(table, index, asked.words)}
    if superlative.measure is not None and not superlative.is_of_dates:
        if _names_other_column(table, columns, asked, superlative.measure):
            return {}
        columns = filter_columns_by_measure(table.columns, columns, superlative.measure, asked.words)
    if superlative.is_of_dates:
        sought = [superlative.measure or get_measure(DATE)]
    left, has_hint = list_nearest_columns(table.columns, columns, asked.words, sought)
    if len(left) > 1 and superlative.measure is not None:
        left, has_hint = list_nearest_columns(
            table.columns, {column: columns[column] for column in left}, asked.words, [superlative.measure]
        )
    if any(has_better_column(table, column, asked.words, sought) for column in left):
        return {}
    is_pointed_to = superlative.measure is not None or superlative.is_of_dates or not sought
    is_certain = has_hint or (is_pointed_to and not superlative.needs_name and not _names_column_of_words(table, asked))
    return {column: columns[column] for column in left} if is_certain else {}


def _names_column_of_words(table: Table, asked: RankingQuestion) -> bool:
    """Return whether the noun after the superlative names a column without numbers: `the minimum order`, `Standing order`."""
    noun = asked.words[asked.at + 1 : asked.at + 2]
    named = set(table.list_columns_by_own_words(noun)) if set(noun).issubset(asked.content) else set()
    return bool(named - {0, *table.quantities, *table.dates})


def _is_bound(table: Table, column: int, words: Sequence[str]) -> bool:
    """Return whether a column has limits of age that the question does not ask about: `Minimum age` has nobody's age."""
    name = table.column_words[column]
    bounds = load_word_list("bounds").intersection(name)
    return bool(bounds) and bounds.isdisjoint(words) and not load_word_list("ages").isdisjoint(name)


def _names_other_column(table: Table, columns: Columns, asked: RankingQuestion, measure: Measure) -> bool:
    """Return whether the word after the superlative only names columns of other measures: `the shortest range` is not a time."""
    after = asked.words[asked.at + 1 : asked.at + 2]
    named = [one for one in columns if any(matches_any_word(word, after) for word in table.column_words[one])]
    return bool(named) and not any(holds_measure(measure, table.columns[one], columns[one]) for one in named)


def _is_comparing_word(word: str) -> bool:
    return is_measuring_word(word) or any(word in load_word_list(kind) for kind in (*EXTREMES, "counting"))
