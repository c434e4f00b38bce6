"""Builds the answer of a research run from the results of its stages (docs/reference/http.md)."""

from __future__ import annotations

from dataclasses import dataclass

from modules.llm_platform.application.research.plan import Plan
from modules.llm_platform.application.research.read_pages import NOTHING_READ, ReadCounts
from modules.llm_platform.application.research.search import SearchResults, providers_of
from modules.llm_platform.application.research.writing import WrittenAnswer
from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import distinct_degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.egress_log import EgressLog
from modules.llm_platform.domain.text.messages import messages_for


@dataclass(frozen=True, slots=True)
class ResearchResult:
    """The results of all stages; `written` is None if nothing was found."""

    request: dtos.ResearchRequest
    request_id: str
    language: str
    planned: Plan
    gathered: SearchResults
    sources: tuple[dtos.Source, ...]
    raw: tuple[dtos.RawResult, ...]
    written: WrittenAnswer | None
    spent: Spending | None = None  # by all stages, if a budget counted them
    reads: ReadCounts = NOTHING_READ


def build_response(
    result: ResearchResult, *, fallback: str, latency_s: float, egress_log: EgressLog | None = None
) -> dtos.ResearchResponse:
    """The answer, with the sources that its text cites under their numbers."""
    written = result.written
    synthesis = written.synthesis if written else dtos.Synthesis(text="", synthesizer=fallback, answered=False)
    cited = written.checked.cited if written else frozenset()
    degraded = written.degraded if written else ()
    return dtos.ResearchResponse(
        query=result.request.query,
        depth=result.request.depth,
        synthesis=written.text if written else nothing_found_text(result.request.depth, result.language),
        sources=tuple(source_ref(source) for source in result.sources if source.index in cited),
        raw_results=None if result.request.omit_raw else result.raw,
        citations=written.checked.citations if written else (),
        degraded=distinct_degraded((*result.planned.degraded, *result.gathered.degraded, *synthesis.degraded, *degraded)),
        metadata=_metadata(result, synthesis, latency_s, egress_log or EgressLog()),
    )


def _metadata(
    result: ResearchResult, synthesis: dtos.Synthesis, latency_s: float, egress_log: EgressLog
) -> dtos.ResearchMetadata:
    writing = result.written.spent if result.written else NOTHING_SPENT
    spent = result.spent if result.spent is not None else result.planned.spent + writing
    answers = result.gathered.answers
    return dtos.ResearchMetadata(
        latency_ms=round(latency_s * 1000),
        cache_hit=synthesis.cached,
        tokens_used=spent.tokens,
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        cost_usd=spent.cost_usd,
        searches=result.gathered.searches,
        llm_calls=spent.calls,
        synthesizer=synthesis.synthesizer,
        providers=tuple(dict.fromkeys(name for answer in answers for name in providers_of(answer))),
        language=result.language,
        truncated_tokens=synthesis.truncated_tokens,
        verdicts_changed=sum(_is_changed(each) for each in result.written.checked.citations) if result.written else 0,
        uncited_sentences=result.written.checked.uncited_sentences if result.written else 0,
        pages_read=result.reads.read,
        pages_failed=result.reads.failed,
        pages_late=result.reads.late,
        correction=next((answer.correction for answer in answers if answer.correction), None),
        request_id=result.request_id,
        sent_to=egress_log.sent(),
        cached_sent_to=egress_log.cached(),
    )


def _is_changed(citation: dtos.Citation) -> bool:
    return citation.checked_by == "model" and citation.verdict != citation.word_verdict


def nothing_found_text(depth: dtos.Depth, language: str) -> str:
    """The text of an answer without results; for a shallow research it suggests a deep one."""
    messages = messages_for(language)
    return messages.nothing_found if depth != "shallow" else f"{messages.nothing_found} {messages.go_deeper}"


def source_ref(source: dtos.Source) -> dtos.SourceRef:
    """The source as an answer lists it."""
    return dtos.SourceRef(index=source.index, title=source.title, url=source.url)
