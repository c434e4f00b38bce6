"""Select the questions to search for from those that a model, an engine or a store proposes."""

from collections.abc import Callable, Iterable

from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS, clean_query
from modules.llm_platform.domain.research.content_words import content_key
from modules.llm_platform.domain.search.query_syntax import has_foreign_syntax

MAX_QUESTIONS = 3  # the default for one plan
MIN_QUESTION_CHARS = 3


class QuestionSelector:
    """Collects the first `limit` valid questions that differ from each other and from the questions in `taken`.

    `emit` is called with each collected question. `written` are the texts that the user wrote, as in `is_query`.
    """

    def __init__(
        self,
        language: str,
        *,
        written: Iterable[str],
        taken: Iterable[str] = (),
        limit: int = MAX_QUESTIONS,
        emit: Callable[[str], None] | None = None,
    ) -> None:
        self.items: list[str] = []
        self._language, self._limit, self._emit = language, limit, emit
        self._written = tuple(written)
        self._seen = {content_key(question, language) for question in taken}

    def add(self, question: str) -> None:
        if len(self.items) == self._limit or not is_query(question, self._written):
            return
        key = content_key(question, self._language)
        if key in self._seen:
            return
        self._seen.add(key)
        self.items.append(question)
        if self._emit:
            self._emit(question)

    def add_all(self, questions: Iterable[str]) -> None:
        for question in questions:
            self.add(question)


def select_questions(
    questions: Iterable[str],
    language: str,
    taken: Iterable[str] = (),
    limit: int = MAX_QUESTIONS,
    *,
    written: Iterable[str],
) -> tuple[str, ...]:
    """Return the questions that a QuestionSelector accepts."""
    selected = QuestionSelector(language, written=written, taken=taken, limit=limit)
    selected.add_all(questions)
    return tuple(selected.items)


def is_query(question: str, written: Iterable[str]) -> bool:
    """Return whether a question of a model, an engine or a store may be searched for.

    Providers accept it (valid length, visible characters, encodable as UTF-8), and its addresses, operators and bangs are in
    one of the texts that the user wrote.
    """
    try:
        question.encode()
        is_accepted = MIN_QUESTION_CHARS <= len(clean_query(question)) <= MAX_QUERY_CHARS
    except ValueError:  # a lone surrogate is a UnicodeEncodeError
        return False
    return is_accepted and not has_foreign_syntax(question, written)
