"""Find the table rows that a question describes by a property that they have or lack: `Which invoices are not paid?`

The words after the "not" name a value (`paid`), a column of yes and no (`projector`), or a column that may be empty or 0
(`failures`). The answer is all other rows of the table. Without a "not", it is all rows that have what a column names: `Which
rooms have a projector?` If several columns have the same values, the question names both: `Who is off on Monday?` All need the
whole table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.rows_beyond import asks_for_rows_beyond, is_compared_with
from modules.llm_platform.domain.extractive.superlatives import find_superlative
from modules.llm_platform.domain.extractive.table_words import (
    asks_for_rows,
    fold_words,
    is_cell_named,
    list_content_words,
    load_word_list,
    matches_any_word,
    split_cell,
)
from modules.llm_platform.domain.extractive.tables import MAX_COUNTED, RowsFound, Table, filter_rows
from modules.llm_platform.domain.text.negation import load_negation_words

MIN_REASON_WORDS: Final = 3
_ASKS_WHY: Final = re.compile(r"\W*(?:why|warum|weshalb|wieso|pourquoi|por qué)\b", re.IGNORECASE)
OUT_OF: Final = ["out", "of"]  # `out of stock` denies stock
DENYING_PREFIX: Final = "un"  # `unpaid` is "not paid"
MIN_STEM: Final = 4  # letters after the prefix
KNOWN_SHARE: Final = 0.5  # of the words on each side of the "not", the table must have this share
MAX_UNKNOWN: Final = 1  # words of a question without a "not" that the columns need not have
SINGULAR_VOWELS: Final = str.maketrans("äöü", "aou")  # German: `Räume` are several of a column `Raum`


class _Description(NamedTuple):
    """How a question describes rows, in folded content words.

    - `words` say what the rows have, or, with `is_denied`, what they lack. `others` are the remaining words.
    - `min_share` is the share of `words` that must be known.
    - `is_guessed` is True if only a prefix denies.
    - `superlative` is a word that must be in the name of the column: `first` in `First aid`.
    - `max_unknown` words may be unknown to the table, if the question has the whole name of the column.
    """

    words: Sequence[str]
    others: Sequence[str]
    is_denied: bool
    min_share: float = KNOWN_SHARE
    is_guessed: bool = False
    superlative: str = ""
    max_unknown: int = 0


def asks_for_described_rows(question: Question) -> bool:
    """Return whether a question asks which rows have something, lack it or are not something."""
    return bool(_list_descriptions(question)) and not asks_for_rows_beyond(question)


def may_describe_rows(question: Question, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Return whether a question may describe rows of a table. `rows` are the known ones; the table may have others.

    Such a question names a column that is not the first one or, if it denies something, a cell. Without a "not", the columns
    must have all of its words but one, because most questions with "which" are about something else.
    """
    names = [split_cell(name) for name in columns]
    known_rows = [[split_cell(cell) for cell in row] for row in rows]
    return any(_may_describe(described, names, known_rows) for described in _list_descriptions(question))


def _may_describe(
    described: _Description, names: Sequence[Sequence[str]], rows: Sequence[Sequence[Sequence[str]]]
) -> bool:
    is_named = any(matches_any_word(word, name) for name in names[1:] for word in described.words)
    if described.superlative and not any(described.superlative in name for name in names[1:]):
        return False
    if described.is_denied:
        return is_named or any(is_cell_named(cell, described.words) for row in rows for cell in row)
    known = [word for name in names for word in name]
    forms_of_words = [(word, word.translate(SINGULAR_VOWELS)) for word in described.words]
    unknown = [forms for forms in forms_of_words if not any(matches_any_word(form, known) for form in forms)]
    return is_named and len(unknown) <= MAX_UNKNOWN


def drop_rows_that_cannot_answer(question: Question, chosen: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates, without table rows if the question has a "not" or a superlative, or if it asks "why" and no cell can
    give a reason.

    Single rows do not answer a question with a "not" or a superlative, nor does a row that others are compared with. A reason
    takes a few words.
    """
    words = fold_words(question.text)
    is_denied = any(described.is_denied and not described.is_guessed for described in _list_descriptions(question))
    superlative = words[find_superlative(words) :][:1]
    asks_why = _ASKS_WHY.match(question.text) is not None

    def may_answer(row: Candidate) -> bool:
        if is_denied or (asks_why and not _may_give_reason(row)) or is_compared_with(question, row.sentence.row):
            return False
        known = [word for text in (*row.sentence.columns, *row.sentence.row) for word in split_cell(text)]
        return not superlative or matches_any_word(superlative[0], known)  # `Last service` is the name of a row

    return [one for one in chosen if not one.sentence.row or may_answer(one)]


def _may_give_reason(row: Candidate) -> bool:
    return any(len(cell.split()) >= MIN_REASON_WORDS for cell in row.sentence.row)


def find_described_rows(question: Question, tables: Sequence[Table]) -> RowsFound | None:
    """Return the rows of a whole table that the question describes; None if it is not certain which are meant."""
    descriptions = _list_descriptions(question)
    if descriptions and not any(described.is_denied and not described.is_guessed for described in descriptions):
        with_value = [rows for table in tables if (rows := _find_rows_with_value(table, question)) is not None]
        if with_value:
            return with_value[0] if len(with_value) == 1 else None
    for described in [*descriptions, *(one._replace(max_unknown=MAX_UNKNOWN) for one in descriptions)]:
        found = [rows for table in tables for rows in _find_described_rows(table, described)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _find_rows_with_value(table: Table, question: Question) -> RowsFound | None:
    """Return the rows with a value of the question in the column that it names; None if no other column has the value."""
    words = fold_words(question.text)
    named = [column for column, name in enumerate(table.column_words) if column and _is_name_among(name, words)]
    if len(named) != 1:
        return None
    (column,) = named
    name, cells = table.column_words[column], list(map(split_cell, table.list_cells(column)))
    values = {cell for cell in cells if cell and set(cell).issubset(words) and cell != name}
    if len(values) != 1:
        return None
    (value,) = values
    others = [word for word in list_content_words(question) if word not in value and not matches_any_word(word, name)]
    has_unknown_words = len(others) - _count_known(table, others) > MAX_UNKNOWN
    if has_unknown_words or not _is_in_other_columns(table, value, column):
        return None
    kept = tuple(index for index in filter_rows(table, others) if cells[index] == value)
    return RowsFound(table, kept, len(table.rows)) if 0 < len(kept) <= MAX_COUNTED else None


def _is_name_among(name: Sequence[str], words: Sequence[str]) -> bool:
    return bool(name) and all(matches_any_word(word, words) for word in name)


def _is_in_other_columns(table: Table, value: Sequence[str], column: int) -> bool:
    """Return whether a cell of another column, except the first one, has a value."""
    others = [other for other in range(1, len(table.columns)) if other != column]
    return any(value == split_cell(row[other]) for row in table.rows for other in others)


def _list_descriptions(question: Question) -> list[_Description]:
    """Return how the question may describe rows, the likeliest description first; empty if it asks for something else."""
    words = fold_words(question.text)
    denying = load_negation_words().negators | load_word_list("denying")
    denials = [at for at, word in enumerate(words) if word in denying or words[at : at + 2] == OUT_OF]
    left_out = denying.union(*map(load_word_list, ("fillers", "choosing", "listing", "people")))
    content = [word for word in list_content_words(question) if word not in left_out]
    superlative = next(iter(words[find_superlative(words) :]), "")
    is_compared = superlative and (denials or superlative not in load_word_list("earliest") | load_word_list("latest"))
    if not content or len(denials) > 1 or is_compared or not _asks_for_rows_or_describes(question, words):
        return []
    if superlative:
        return [_Description(content, [], is_denied=False, superlative=superlative)]
    if not denials:
        return [*_list_denials_by_prefix(content), _Description(content, [], is_denied=False)]
    after = words[denials[0] :]
    denied = [word for word in content if word in after]
    others = [word for word in content if word not in after]
    if not denied:  # German has the verb at the end: `Für welche Kinder liegt das Einverständnis nicht vor?`
        return [_Description(others, others, is_denied=True, min_share=0)]
    return [_Description(denied, others, is_denied=True)]


def _list_denials_by_prefix(content: Sequence[str]) -> list[_Description]:
    """Return the description in which `unpaid` means "not paid". It is a guess: a university is not a denial."""
    stems = {word: word.removeprefix(DENYING_PREFIX) for word in content if word.startswith(DENYING_PREFIX)}
    denied = [stem for stem in stems.values() if len(stem) >= MIN_STEM]
    others = [word for word in content if word not in stems]
    return [_Description(denied, others, is_denied=True, is_guessed=True)] if denied else []


def _asks_for_rows_or_describes(question: Question, words: Sequence[str]) -> bool:
    """Return whether rows are asked for: by a word such as "which" or "list", or by their description alone."""
    if asks_for_rows(question) or words[0] in load_word_list("listing"):
        return True
    return not load_word_list("describing").isdisjoint(words) and load_word_list("asking_else").isdisjoint(words)


def _find_described_rows(table: Table, described: _Description) -> Iterator[RowsFound]:
    """Yield the rows that are described, for each column that may be meant."""
    if _count_known(table, described.others) < KNOWN_SHARE * len(described.others):
        return
    for column in range(1, len(table.columns)):
        has = _read_cells(table, column, described)
        indices = filter_rows(
            table, [word for word in described.others if not matches_any_word(word, table.column_words[column])]
        )
        states = [has.get(cell) for cell in table.list_cells(column)]
        kept = tuple(
            index for index in indices if states[index] is not None and states[index] is not described.is_denied
        )
        if len(set(has.values())) > 1 and 0 < len(kept) <= MAX_COUNTED:
            yield RowsFound(table, kept, len(table.rows))


def _read_cells(table: Table, column: int, described: _Description) -> Mapping[str, bool]:
    """Return for each cell of a column whether it has what is asked about. Cells that tell nothing are left out."""
    cells = {cell: split_cell(cell) for cell in table.list_cells(column)}
    if described.is_denied:
        named = {cell for cell, words in cells.items() if is_cell_named(words, described.words)}
        if named:
            known = [word for word in described.words if any(matches_any_word(word, cells[cell]) for cell in named)]
            is_meant = len(known) >= described.min_share * len(described.words)
            return {cell: cell in named for cell, words in cells.items() if words and is_meant}
    if not _is_column_meant(table, column, described):
        return {}
    yes, lacking = load_word_list("yes"), load_word_list("lacking")
    if any(words and yes.issuperset(words) for words in cells.values()):
        return {cell: bool(words) and yes.issuperset(words) for cell, words in cells.items()}
    return {cell: not lacking.issuperset(words) for cell, words in cells.items()}


def _is_column_meant(table: Table, column: int, described: _Description) -> bool:
    """Return whether the column is named: if something is denied, by enough of the words, else by words of its own.

    Without a "not", each other word must be known, and none may name a cell: such a question is about this row alone.
    """
    named = [word for word in described.words if matches_any_word(word, table.column_words[column])]
    if described.superlative and described.superlative not in table.column_words[column]:
        return False
    if described.is_denied or not named:
        return bool(named) and len(named) >= described.min_share * len(described.words)
    others = [word for word in described.words if word not in named]
    is_whole = _is_name_among(table.column_words[column], described.words)
    max_unknown = described.max_unknown if is_whole else 0  # `first aid training` for a column `First aid`
    return _count_known(table, others) >= len(others) - max_unknown and not table.find_named_cells(others)


def _count_known(table: Table, words: Sequence[str]) -> int:
    singular = [word.translate(SINGULAR_VOWELS) for word in words]
    return max(table.count_matches(words), table.count_matches(singular))
