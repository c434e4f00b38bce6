"""Separate the name of a table from a question about its rows: `the cheapest item on the tool hire list`.

Such a name seldom has the words of the table, so its words would rule out all rows.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.table_words import fold_words, load_word_list
from modules.llm_platform.domain.extractive.tables import Table

_POSSESSIVE: Final = re.compile(r"['’]s?\b")


@cache
def _compile_name() -> re.Pattern[str]:
    """Return the pattern of a preposition, an article, a few words, and a word such as "list": `on the price list`.

    The words may also follow, as in `de la lista de precios`.
    """
    within, articles, kinds = ("|".join(sorted(load_word_list(f"tables_{part}"))) for part in ("in", "the", "kinds"))
    before = rf"(?:(?!(?:{within}|{articles}) )[\w'’-]{{1,30}} ){{0,4}}"
    name = rf"{before}(?:{kinds})(?: de[srl]? [\w'’-]{{1,30}})?"
    return re.compile(rf"\b(?:{within}) (?:{articles}) (?P<name>{name})\b", re.IGNORECASE)


def narrow_to_named_tables(question: Question, tables: Sequence[Table]) -> tuple[Question, Sequence[Table]]:
    """Return the question without the name of a table, and the tables whose title or columns have a word of that name.

    Both are unchanged if the question names no table, or none of these.
    """
    found = _compile_name().search(question.text)
    words = fold_words(_POSSESSIVE.sub("", found["name"])) if found else ()
    named = [table for table in tables if any(table.is_in_title(word) or table.is_in_columns(word) for word in words)]
    if found is None or not named or any(table.find_named_cells(words) for table in named):
        return question, tables  # `in the gold plan` names cells
    rest = f"{question.text[: found.start()]}{question.text[found.end() :]}"
    return read_question(" ".join(rest.split()), question.language), named
