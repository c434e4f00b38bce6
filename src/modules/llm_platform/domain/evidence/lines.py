"""Write the evidence of a research run as lines, one for each quote, for programs that read it."""

from collections.abc import Iterable, Iterator

from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceLine, EvidenceRow, EvidenceSource
from modules.llm_platform.domain.dtos.source_dtos import Source, SourceRef
from modules.llm_platform.domain.urls.canonical_url import canonical_url


def list_evidence_lines(rows: Iterable[EvidenceRow], sources: Iterable[Source | SourceRef]) -> tuple[EvidenceLine, ...]:
    """Return the lines of all rows, in order. Each quote has the number that its source has in `sources`."""
    numbers = {canonical_url(source.url): source.index for source in sources}
    return tuple(line for row in rows for line in _list_row_lines(row, numbers))


def _list_row_lines(row: EvidenceRow, numbers: dict[str, int]) -> Iterator[EvidenceLine]:
    line = EvidenceLine(question=row.question, state=row.state, needs=row.needs, coverage=row.coverage)
    if not row.quotes:
        yield line
    for quote in row.quotes:
        index = numbers.get(canonical_url(quote.url))
        source = EvidenceSource(index=index, url=quote.url, title=quote.title, published=quote.published)
        yield line.model_copy(
            update={
                "quote": quote.text,
                "start": quote.start,
                "end": quote.end,
                "round": quote.round,
                "voices": quote.voices,
                "source": source,
            }
        )
