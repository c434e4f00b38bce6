"""Columns of an answer for the list of threads: the words to search, and how well its citations support it."""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from modules.llm_platform.domain.citations.show.sentence_evidence import (
    count_held_sentences,
    count_quoted_sources,
    list_evidence,
    render_evidence_blocks,
)
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.research_job_dtos import AnswerEvidence, JobEvent

MAX_SEARCHED_CHARS: Final = 20_000  # searched part of an answer: a search reads all threads of a caller
MAX_CELLS: Final = 48  # cells of the strip of a thread in the list of threads


class _Metadata(BaseModel):
    uncited: tuple[TextSpan, ...] = ()
    synthesizer: str = ""


class _Answer(BaseModel):
    synthesis: str = ""
    citations: tuple[Citation, ...] = ()
    metadata: _Metadata = _Metadata()


class _LastEvent(BaseModel):
    response: _Answer = _Answer()


def make_answer_columns(last: JobEvent) -> Mapping[str, str]:
    """Return `answer_text` in lower case and `evidence` as JSON, for a run with this last event.

    Both are empty if the event has no answer.
    """
    answer = _LastEvent.model_validate_json(last.data).response if last.type == "done" else _Answer()
    sentences = list_evidence(answer.citations, answer.metadata.uncited, answer.metadata.synthesizer)
    evidence = AnswerEvidence(
        strip=render_evidence_blocks(sentences, MAX_CELLS),
        supported=count_held_sentences(sentences),
        sentences=len(sentences),
        quoted_sources=count_quoted_sources(sentences),
    )
    return {
        # PostgreSQL stores no NUL.
        "answer_text": answer.synthesis[:MAX_SEARCHED_CHARS].replace("\x00", " ").casefold(),
        "evidence": evidence.model_dump_json() if sentences else "",
    }
