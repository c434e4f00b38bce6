"""Answer a question that only names a document, such as `What does “Travel rules” say?`, with its first sentences."""

import re
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.text.tokens import normalize

OPENING_SENTENCES: Final = 3
_QUOTED = re.compile(r"[“„«「『《\"]([^“”„«»「」『』《》\"]{2,200})[”“»」』》\"]")


def find_opening(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the first sentences of the document named in quotation marks; empty if the question asks for more."""
    named = _QUOTED.search(question.text)
    if named is None or not _asks_for_contents(_QUOTED.sub(" ", question.text), question.language):
        return []
    title = normalize(named[1])
    of_document = [one for one in candidates if normalize(one.source.title) == title and one.is_quotable]
    own = [one for one in of_document if one.source_rank == of_document[0].source_rank]
    return sorted(own, key=lambda one: one.sentence.position)[:OPENING_SENTENCES]


def _asks_for_contents(rest: str, language: str) -> bool:
    """Return whether the question without the title has a verb such as `say` and no other content word.

    Without such a verb, the beginning may not answer the question: `Where is “Travel rules”?` The rest is also read in the
    language that is detected in it, because the title may have another language.
    """
    verbs = load_words("quoting", "words_for_contents")
    readings = (
        {term.word for term in read_question(rest, one).terms} for one in (language, detect_language(rest) or language)
    )
    return any(words and words <= verbs for words in readings)
