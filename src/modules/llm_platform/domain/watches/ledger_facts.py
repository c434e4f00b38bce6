"""Read the facts of an answer from its evidence and its citations."""

from collections.abc import Iterator, Sequence
from typing import Final

from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS, Citation
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow, RowState
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.watch_dtos import LedgerFact
from modules.llm_platform.domain.text.sentences import iterate_sentences
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import normalize, split_words
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from modules.llm_platform.domain.watches.statements import cut_statements

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
    for quoted in (*_list_evidence_facts(rows), *_list_cited_facts(citations, sources)):
        for start, end in iterate_sentences(quoted.quote, language):
            for quote in cut_statements(quoted.quote[start:end]):
                fact = quoted.model_copy(update={"quote": quote, "is_answer": _answers(quote, rows)})
                found.setdefault((canonical_url(fact.url), normalize(quote)), fact)
    return tuple(found.values())


def _answers(quote: str, rows: Sequence[EvidenceRow]) -> bool:
    """Return whether an answered row has a word of the quote; True if the run made no rows.

    A page may repeat the question and say anything after it: "Find out in three minutes!"
    """
    said = split_words(quote)
    return not rows or any(
        row.state in ANSWERED and any(is_form_of_any(word, said) for word in row.words) for row in rows
    )


def _list_evidence_facts(rows: Sequence[EvidenceRow]) -> Iterator[LedgerFact]:
    for number, row in enumerate(rows):
        for place, quote in enumerate(row.quotes):
            dispute = number if row.state == "disagree" and place < SIDES else None
            yield LedgerFact(quote=quote.text, url=quote.url, published=quote.published, dispute=dispute)


def _list_cited_facts(citations: Sequence[Citation], sources: Sequence[Source]) -> Iterator[LedgerFact]:
    numbered = {source.index: source for source in sources}
    for citation in citations:
        source = numbered.get(citation.source_index)
        if source is not None and citation.quote and citation.verdict in SUPPORTING_VERDICTS:
            yield LedgerFact(quote=citation.quote, url=source.url, published=source.published, verdict=citation.verdict)
