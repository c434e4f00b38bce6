"""Read the facts of an answer from its evidence and its citations."""

from collections.abc import Iterator, Sequence
from typing import Final

from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow, RowState
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.watch_dtos import LedgerFact
from modules.llm_platform.domain.text.sentences import each_sentence, is_question
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.urls.canonical_url import canonical_url

ANSWERED: Final[frozenset[RowState]] = frozenset({"answered", "disagree"})
SIDES: Final = 2  # the first quotes of a row whose sources disagree


def read_facts(
    rows: Sequence[EvidenceRow], citations: Sequence[Citation], sources: Sequence[Source], language: str
) -> tuple[LedgerFact, ...]:
    """Return the facts in the order of the answer, each sentence of a source once.

    A citation counts if its source says at least a part of the sentence. A longer quote is several facts, and a question is
    none.
    """
    found: dict[tuple[str, str], LedgerFact] = {}
    for quoted in (*_evidence_facts(rows), *_cited_facts(citations, sources, is_answer=_is_answered(rows))):
        for fact in _split(quoted, language):
            found.setdefault((canonical_url(fact.url), normalize(fact.quote)), fact)
    return tuple(found.values())


def _split(fact: LedgerFact, language: str) -> list[LedgerFact]:
    """Return a fact for each statement of the quote. If it has a question too, its words may all be those of the question."""
    sentences = [fact.quote[start:end] for start, end in each_sentence(fact.quote, language)]
    statements = [sentence for sentence in sentences if not is_question(sentence)]
    is_answer = fact.is_answer and len(statements) == len(sentences)
    return [fact.model_copy(update={"quote": statement, "is_answer": is_answer}) for statement in statements]


def _is_answered(rows: Sequence[EvidenceRow]) -> bool:
    """Return whether a row has an answer, or no row was made. A page that repeats the question does not answer it."""
    said = [row for row in rows if row.state in ANSWERED and not all(is_question(quote.text) for quote in row.quotes)]
    return not rows or bool(said)


def _evidence_facts(rows: Sequence[EvidenceRow]) -> Iterator[LedgerFact]:
    for number, row in enumerate(rows):
        for place, quote in enumerate(row.quotes):
            is_side = row.state == "disagree" and place < SIDES
            yield LedgerFact(
                quote=quote.text,
                url=quote.url,
                published=quote.published,
                is_answer=row.state in ANSWERED,
                dispute=number if is_side else None,
            )


def _cited_facts(citations: Sequence[Citation], sources: Sequence[Source], *, is_answer: bool) -> Iterator[LedgerFact]:
    numbered = {source.index: source for source in sources}
    for citation in citations:
        source = numbered.get(citation.source_index)
        if source is not None and citation.quote and citation.verdict in ("supported", "partial"):
            yield LedgerFact(
                quote=citation.quote,
                url=source.url,
                published=source.published,
                verdict=citation.verdict,
                is_answer=is_answer,
            )
