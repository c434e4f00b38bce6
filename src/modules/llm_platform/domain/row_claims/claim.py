"""Read a claim together with one table: the rows that it names, and what else it says."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.compared_columns import Columns
from modules.llm_platform.domain.extractive.limits import DATE_LIMITS, QUANTITY_LIMITS, load_phrases
from modules.llm_platform.domain.extractive.measures import is_measuring_word, load_measures
from modules.llm_platform.domain.extractive.quantities import (
    YEARS,
    DateRange,
    find_date,
    find_decimal_sign,
    find_unit,
    list_quantities,
    read_figure,
)
from modules.llm_platform.domain.extractive.superlatives import EXTREMES, find_superlative
from modules.llm_platform.domain.extractive.table_words import (
    fold_words,
    load_word_list,
    matches_any_word,
    split_cell,
    strip_genitive,
)
from modules.llm_platform.domain.extractive.tables import Row, Table
from modules.llm_platform.domain.row_claims.source_tables import (
    MASK,
    PlacedWord,
    RowMention,
    SourceTable,
    list_placed_words,
    mask,
)
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.numbers import ALSO_VERBS, list_numbers, load_date_words, load_number_words
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.tokens import fold

CAPITAL_NOUNS: Final = "de"
MAX_WORDS: Final = 100  # of a claim that is compared with tables
MAX_UNCOVERED: Final = 1  # a word for the rows, such as "member", may be missing in the table
_PRONOUN: Final = re.compile(r"-(?:t-)?(?:il|elle|ils|elles|on)\Z")
_YEAR: Final = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_SCALED: Final = re.compile(r"\d ?(?:million|billion|thousand|bn|mio|mrd|tsd)\b|[£$€] ?\d[\d.,]* ?[km]\b")
TOLERANCE: Final = 1e-6
STOPS: Final = ".,"  # at the end of a number, they belong to the sentence
OTHER_WORDS: Final = (  # lists of words that compare, count or list
    *EXTREMES,
    "equal",
    "twice",
    "half",
    "times",
    "in_all",
    "reporting",
    "counting",
    "choosing",
    "fillers",
    "listing",
    "per",
    "alternatives",
    "every",
    "persons",
)


class Amount(NamedTuple):
    """A number of a claim, converted to its base unit (empty if unknown), and its span."""

    value: float
    unit: str
    span: Span


class RowFinding(NamedTuple):
    """What the cells of a table say about a claim.

    - `is_true` is None if the claim lists only some of the rows that it should list.
    - `row_indices` are the indices of the rows that show this, and `column` is the column of the deciding cells.
    - `claimed` is the span of the wrong part of the claim.
    - `needs_all_rows` is True if only all rows together show this, as for a sum. `average` is the average that the rows are
      compared with, as the cells are written; empty without one.
    """

    is_true: bool | None
    row_indices: Sequence[int]
    column: int | None = None
    claimed: Span | None = None
    needs_all_rows: bool = False
    average: str = ""


class RowClaim:
    """A claim and one table.

    - `mentions` are the rows that the claim names, in the order of the claim.
    - `full_text` is the claim. `masked_text` is the claim with the names of rows masked, so that a number or a word of a name is
      not read as something else.
    - `words` are the words outside of these names, and `folded` are the same words without their spans.
    - `is_question` is True for a question, whose author may not have seen the table.
    """

    def __init__(
        self, text: str, words: Sequence[PlacedWord], source: SourceTable, language: str, *, is_question: bool = False
    ) -> None:
        self.full_text, self.source, self.language, self.is_question = text, source, language, is_question
        self.mentions: list[RowMention] = source.find_mentions(words, language)
        self.masked_text = mask(text, [(row.start, row.end) for row in self.mentions])
        named = {at for row in self.mentions for at in range(row.start, row.end)}
        self.words = [word for word in words if word.start not in named]
        self.folded = [word.word for word in self.words]

    @property
    def table(self) -> Table:
        return self.source.table

    @property
    def row_indices(self) -> list[int]:
        """The indices of the named rows, without repetition."""
        return list(dict.fromkeys(row.row_index for row in self.mentions))

    @cached_property
    def quantities(self) -> Columns:
        """The columns of quantities, without those whose cells name rows of the claim."""
        naming = {row.column for row in self.mentions}
        return {index: column for index, column in self.table.quantities.items() if index not in naming}

    @cached_property
    def _lower_text(self) -> str:
        """The text in lower case, with the same length: `casefold` turns an ß into two letters, and `lower` an İ."""
        return "".join(lower if len(lower := sign.lower()) == 1 else sign for sign in self.masked_text)

    @cached_property
    def date(self) -> DateRange | None:
        """The first date of the claim outside of names. A lower-case "may" is not a month."""
        try:
            day = find_date(self._lower_text) or self._find_year()
        except ValueError:
            return None
        return None if day is None or self.masked_text[day.start : day.end] in ALSO_VERBS else day

    def _find_year(self) -> DateRange | None:
        """Return the year of `vor 2020 angeschafft`: a number before a word is a year only after such a phrase."""
        for found in _YEAR.finditer(self._lower_text):
            before = [word.word for word in self.words if word.end <= found.start()]
            if before and before[-1] in load_phrases("after", "since", "before"):
                year = int(found[0]) * YEARS
                return DateRange(year, year + YEARS - 1, *found.span())
        return None

    @cached_property
    def amounts(self) -> list[Amount]:
        """The numbers of the claim in figures, outside of names and dates."""
        text, day, found = self._lower_text, self.date, []
        for part in list_quantities(text):
            decimal = find_decimal_sign([part.figure])
            if decimal is not None and not (day and day.start <= part.start < day.end):
                end = part.start + len(text[part.start : part.end].rstrip(STOPS))
                found.append(Amount(read_figure(part.figure, decimal) * part.factor, part.unit, (part.start, end)))
        return found

    @cached_property
    def content(self) -> list[str]:
        """The words that name something: no function words, no words of comparisons, no numbers."""
        left_out = load_stop_words(self.language) | _load_other_words()
        words = (_strip_pronoun(strip_genitive(word)) for word in fold_words(self.masked_text.replace(MASK, " ")))
        return [
            word
            for word in words
            if word not in left_out
            and not is_measuring_word(word)
            and not word[0].isdigit()
            and any(map(str.isalpha, word))
            and find_unit(word) is None
        ]

    @cached_property
    def spelled_amounts(self) -> list[Amount]:
        """The numbers of the claim in words, from two on, each with the unit right after it, if there is one."""
        numbers, found = load_number_words(), []
        for at, word in enumerate(self.words):
            value = numbers.get(word.word, "")
            if value.isdigit() and int(value) > 1:
                unit, factor = (find_unit(self.folded[at + 1]) if at + 1 < len(self.words) else None) or ("", 1.0)
                found.append(Amount(int(value) * factor, unit, word[1:]))
        return found

    @cached_property
    def superlative(self) -> int | None:
        """The index of the first superlative among the words; None without one. `a first aider` may be a column."""
        at = find_superlative(self.folded)
        return None if at == len(self.folded) or self.table.is_in_column_name(self.folded, at) else at

    @property
    def is_covered(self) -> bool:
        """True if the table has all content words, or all but one, which may be a word for the rows.

        The missing word may not be part of a name: `Tom Becker` is not `Tom Adeyemi`, and `La Encina Alta` is not `La Encina`.
        """
        return self._unknown_word_count <= MAX_UNCOVERED and not any(map(self._has_other_name, self.mentions))

    def is_unknown(self, word: PlacedWord) -> bool:
        """Return whether a word names something that the table does not have."""
        return word.word in self.content and not self.table.count_matches([word.word])

    @property
    def is_fully_covered(self) -> bool:
        """True if the table has all content words."""
        return not self._unknown_word_count

    @property
    def may_ask_beyond_table(self) -> bool:
        """True for a question with a word that the table lacks: `did Ann leave before 2020` is not about the day she joined."""
        return self.is_question and not self.is_fully_covered

    def _has_other_name(self, row: RowMention) -> bool:
        """Return whether an unknown name is right before or after a name."""
        beside = (word for word in self.words if row.start - word.end == 1 or word.start - row.end == 1)
        is_capital, stop_words = self.shows_name(row.start), load_stop_words(self.language)
        names = (
            word.word for word in beside if self.full_text[word.start].isupper() is self.full_text[row.start].isupper()
        )
        others = (word for word in names if word not in stop_words and not self.table.count_matches([word]))
        return (row.is_part or is_capital) and any(is_capital or word in self.content for word in others)

    def shows_name(self, at: int) -> bool:
        """Return whether the letter at an index is a capital that shows a name. In German, all nouns begin with a capital."""
        return self.full_text[at].isupper() and not self.language.startswith(CAPITAL_NOUNS)

    @cached_property
    def _unknown_word_count(self) -> int:
        """The number of content words that the table lacks.

        A synonym for what a column measures does not count, such as `joined` for a column `Started`.
        """
        names = {word for name in self.table.column_words for word in name}
        heads = frozenset().union(*(one.heads for one in load_measures() if not one.heads.isdisjoint(names)))
        content = [word for word in self.content if word not in heads]
        return len(content) - self.table.count_matches(content)

    def has_cell(self, amount: Amount, indices: Iterable[int], column: int | None = None) -> bool:
        """Return whether one of these rows has this number in a cell, or in the cell of this column."""
        written = self.masked_text[slice(*amount.span)]
        stated = [values for values, _ in list_numbers(written)]
        rows = (self.table.rows[index] for index in indices)
        cells = (cell for row in rows for cell in (row if column is None else [row[column]]))
        return any(values & other for cell in cells for other, _ in list_numbers(cell) for values in stated)

    def confirms_amounts(self, indices: Sequence[int], but: Span | None = None) -> bool:
        """Return whether each number and date of the claim, except in the span `but`, is in a cell of these rows."""
        others = (one for one in self.amounts if but is None or not but[0] <= one.span[0] < but[1])
        return all(self.has_cell(one, indices) for one in others) and self._confirms_dates(indices, but)

    def _confirms_dates(self, indices: Sequence[int], but: Span | None) -> bool:
        """Return whether the date of the claim is in each of these rows. A second date is not confirmed."""
        day = self.date
        if day is None:
            return True
        try:
            is_alone = find_date(self._lower_text[day.end :]) is None
        except ValueError:
            is_alone = False
        if but is not None and but[0] <= day.start < but[1]:
            return is_alone
        values = ([column.values[index] for column in self.table.dates.values()] for index in indices)
        return is_alone and all(any(one is not None and day.first <= one <= day.last for one in row) for row in values)

    @property
    def is_approximate(self) -> bool:
        """True if a number is rounded or has a scale: `about £119`, `£1.2 million`."""
        hedged = any(len(word) > 1 and word in load_phrases("hedges") for word in self.folded)  # the C of °C is none
        return hedged or _SCALED.search(self._lower_text) is not None

    @cached_property
    def has_consistent_mentions(self) -> bool:
        """False if names in two columns are names of different rows, as in `Windflower lies in B5`."""
        by_column: dict[int, set[int]] = {}
        for row in self.mentions:
            by_column.setdefault(row.column, set()).add(row.row_index)
        return len({frozenset(indices) for indices in by_column.values()}) <= 1

    @cached_property
    def flags(self) -> dict[int, list[bool | None]]:
        """The yes-or-no columns whose whole name is in the claim. Up to half of the cells may have other words."""
        flags = self.table.flags.items()
        plain = {column: cells for column, cells in flags if 2 * sum(cell is not None for cell in cells) >= len(cells)}
        return {
            column: cells
            for column, cells in plain.items()
            if all(matches_any_word(word, self.folded) for word in self.table.column_words[column] if len(word) > 1)
        }

    @cached_property
    def named_cells(self) -> dict[int, set[Row]]:
        """The cells, in any row, whose words are all in the claim, by column.

        Columns of quantities and dates, and the columns that name rows of the claim, are left out.
        """
        left_out = {*self.quantities, *self.table.dates, *(row.column for row in self.mentions)}
        return {at: cells for at, cells in self.table.find_named_cells(self.content).items() if at not in left_out}

    def has_other_cells(self, indices: Iterable[int]) -> bool:
        """Return whether one of these rows has another cell value than the claim names, or does not say yes in a named column."""
        indices = list(indices)
        lacks = any(not cells[index] for cells in self.flags.values() for index in indices)
        return lacks or self.has_other_words(indices)

    def has_other_words(self, indices: Iterable[int]) -> bool:
        """Return whether the claim names a cell value that differs in one of these rows."""
        rows = [self.table.rows[index] for index in indices]
        return any(split_cell(row[column]) not in cells for column, cells in self.named_cells.items() for row in rows)


def _strip_pronoun(word: str) -> str:
    """Return a French verb of a question without its subject: `fait-elle`, `a-t-il`."""
    return _PRONOUN.sub("", word)


def equals(one: float, other: float) -> bool:
    return abs(one - other) <= TOLERANCE * max(1.0, abs(one), abs(other))


def read_row_claims(
    text: str, tables: Sequence[SourceTable], language: str, *, is_question: bool = False
) -> Iterator[RowClaim]:
    """Yield the claim with each table; nothing if the claim has more than MAX_WORDS words."""
    words = list_placed_words(text)
    kept = tables if len(words) <= MAX_WORDS else ()
    return (RowClaim(text, words, table, language, is_question=is_question) for table in kept)


@cache
def _load_other_words() -> frozenset[str]:
    phrases = load_phrases(*DATE_LIMITS, *QUANTITY_LIMITS, "between", "and", "or_more", "or_less", "than", "hedges")
    of_limits = frozenset(fold(word) for phrase in phrases for word in phrase.split())
    return of_limits.union(*map(load_word_list, OTHER_WORDS), load_number_words(), load_date_words())
