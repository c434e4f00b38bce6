"""The evidence strip of an answer: one cell for each sentence, as on the page at /."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan, Verdict
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedSentence
from modules.llm_platform.domain.ports.synthesizer import EXTRACTIVE
from modules.llm_platform.domain.text.counts import format_count

SentenceVerdict = Literal[Verdict, "absent", "uncited", "quoted"]
# What a reader should look at first: doubts that were found, then sentences that were compared with nothing.
WORST_FIRST: Final[Sequence[SentenceVerdict]] = (
    "unsupported",
    "absent",
    "partial",
    "uncited",
    "unchecked",
    "supported",
    "quoted",
)
BLOCKS: Final[Mapping[SentenceVerdict, str]] = {  # a taller or greyer block means more doubt
    "supported": "▁", "partial": "▄", "absent": "▆", "unsupported": "█", "uncited": "░", "unchecked": "▒",
    "quoted": "▁",
}  # fmt: skip
MAX_BLOCKS: Final = 72  # a longer strip shows the worst sentence of each stretch


@dataclass(frozen=True, slots=True)
class SentenceEvidence:
    """A sentence of an answer, in code points, with its verdict.

    An `unsupported` sentence is contradicted by its source, an `absent` one is not found in it, and an `uncited` one has none.
    A `quoted` sentence is copied from its source without a language model, and may say nothing on the question. `sources` are
    the numbers of the cited sources.
    """

    start: int
    end: int
    verdict: SentenceVerdict
    sources: frozenset[int] = frozenset()


def decide_shown_verdict(checked: Citation | VerifiedSentence, synthesizer: str = "") -> SentenceVerdict:
    """Return the verdict as it is shown on a sentence that `synthesizer` wrote.

    An unsupported sentence that no source contradicts is `absent`. A sentence that was copied without a model is `quoted`.
    """
    is_copied = isinstance(checked, Citation) and checked.is_verbatim and checked.verdict == "supported"
    if is_copied and synthesizer == EXTRACTIVE:
        return "quoted"
    return "absent" if checked.finding == "absent" else checked.verdict


def list_sentence_evidence(response: ResearchResponse) -> list[SentenceEvidence]:
    """Return the sentences of an answer in their order, as `list_evidence` does."""
    return list_evidence(response.citations, response.metadata.uncited, response.metadata.synthesizer)


def list_evidence(
    citations: Iterable[Citation], uncited: Iterable[TextSpan], synthesizer: str
) -> list[SentenceEvidence]:
    """Return a sentence for each cited and each uncited statement, in the order of the text.

    `synthesizer` wrote the text.

    One source that supports a statement is enough. Statements that overlap are clauses of one sentence, which has the worst of
    their verdicts.
    """
    by_span: dict[tuple[int, int], list[Citation]] = {}
    for citation in citations:
        by_span.setdefault((citation.start, citation.end), []).append(citation)
    found = [
        SentenceEvidence(
            start, end, _decide_statement(cited, synthesizer), frozenset(citation.source_index for citation in cited)
        )
        for (start, end), cited in by_span.items()
    ]
    found += [SentenceEvidence(span.start, span.end, "uncited") for span in uncited]
    sentences: list[SentenceEvidence] = []
    for statement in sorted(found, key=lambda sentence: (sentence.start, -sentence.end)):
        last = sentences[-1] if sentences else None
        if last is None or statement.start >= last.end:
            sentences.append(statement)
        else:
            sentences[-1] = SentenceEvidence(
                last.start,
                max(last.end, statement.end),
                _choose_worse(last.verdict, statement.verdict),
                last.sources | statement.sources,
            )
    return sentences


def render_evidence_line(sentences: Sequence[SentenceEvidence]) -> str:
    """Return one block character for each sentence, and their counts: `▁▁█▄▁ 3 of 5 hold`; empty without sentences."""
    return f"{render_evidence_blocks(sentences, MAX_BLOCKS)} {describe_evidence(sentences)}" if sentences else ""


def describe_evidence(sentences: Sequence[SentenceEvidence]) -> str:
    """Return how many sentences hold, such as `3 of 5 hold`, or for an answer of quotes alone `3 quotes from 2 sources`."""
    if not (sources := count_quoted_sources(sentences)):
        return f"{count_held_sentences(sentences)} of {len(sentences)} hold"
    return f"{format_count(len(sentences), 'quote')} from {format_count(sources, 'source')}"


def count_quoted_sources(sentences: Sequence[SentenceEvidence]) -> int:
    """Return the number of sources that an answer of quotes alone cites; 0 for other answers."""
    if any(sentence.verdict != "quoted" for sentence in sentences):
        return 0
    return len(frozenset[int]().union(*(sentence.sources for sentence in sentences)))


def render_evidence_blocks(sentences: Sequence[SentenceEvidence], most: int) -> str:
    """Return one block character for each sentence. With more than `most` sentences, a block shows the worst of several."""
    verdicts = [sentence.verdict for sentence in sentences]
    width = -(-len(verdicts) // most) or 1
    shown = [min(verdicts[start : start + width], key=WORST_FIRST.index) for start in range(0, len(verdicts), width)]
    return "".join(BLOCKS[verdict] for verdict in shown)


def count_held_sentences(sentences: Sequence[SentenceEvidence]) -> int:
    """Return how many of these sentences their sources support, quotes included."""
    return sum(sentence.verdict in ("supported", "quoted") for sentence in sentences)


def _decide_statement(citations: Sequence[Citation], synthesizer: str) -> SentenceVerdict:
    """Return the verdict on a statement from the verdicts of all its sources.

    It is `quoted` if a citation is. Otherwise `_combine_verdicts` decides, and an unsupported statement that no source
    contradicts is `absent`.
    """
    if any(decide_shown_verdict(citation, synthesizer) == "quoted" for citation in citations):
        return "quoted"
    verdict = _combine_verdicts(citations)
    is_contradicted = any(citation.finding == "contradicts" for citation in citations)
    return "absent" if verdict == "unsupported" and not is_contradicted else verdict


def _combine_verdicts(citations: Sequence[Citation]) -> Verdict:
    """Return `supported` if one source supports all of a statement, else the worst verdict of the sources.

    For a table row, the sources complement each other: each cell has the best verdict of any source, and the worst cell decides.
    """
    verdicts = [citation.verdict for citation in citations]
    if any(citation.verdict == "supported" and not citation.cells for citation in citations):
        return "supported"
    best: dict[int, Verdict] = {}
    for citation in citations:
        for cell in citation.cells:
            known = best.get(cell.start, cell.verdict)
            best[cell.start] = max(known, cell.verdict, key=WORST_FIRST.index)
    return min(best.values() or verdicts, key=WORST_FIRST.index)


def _choose_worse(one: SentenceVerdict, other: SentenceVerdict) -> SentenceVerdict:
    checked = [verdict for verdict in (one, other) if verdict != "uncited"]
    return min(checked, key=WORST_FIRST.index) if checked else "uncited"
