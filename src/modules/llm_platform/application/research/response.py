"""Fold what the stages brought into the answer that every door gives (docs/reference/http.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from modules.llm_platform.application.research.plan import Plan
from modules.llm_platform.application.research.search import SearchResults, providers_of
from modules.llm_platform.application.research.writing import WrittenAnswer
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import (
    Depth,
    RawResult,
    ResearchMetadata,
    ResearchRequest,
    ResearchResponse,
    Source,
    SourceRef,
    Synthesis,
)
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.text.messages import messages_for


@dataclass(frozen=True, slots=True)
class ResearchResult:
    """What a research has in hand at its end; `written` is None when nothing was found."""

    request: ResearchRequest
    request_id: str
    language: str
    planned: Plan
    gathered: SearchResults
    sources: tuple[Source, ...]
    raw: tuple[RawResult, ...]
    written: WrittenAnswer | None
    spent: Spending | None = None  # by all stages, where they were counted together


def build_response(
    done: ResearchResult, *, last_resort: str, latency_s: float, sent_to: tuple[Sent, ...] = ()
) -> ResearchResponse:
    """The answer; of the sources it keeps those that the text cites, under their numbers."""
    written = done.written
    synthesis = written.synthesis if written else Synthesis(text="", synthesizer=last_resort, answered=False)
    cited = written.checked.cited if written else frozenset()
    failed = written.degraded if written else ()
    return ResearchResponse(
        query=done.request.query,
        depth=done.request.depth,
        synthesis=written.text if written else nothing_found_text(done.request.depth, done.language),
        sources=tuple(source_ref(source) for source in done.sources if source.index in cited),
        raw_results=None if done.request.omit_raw else done.raw,
        citations=written.checked.citations if written else (),
        degraded=_once((*done.planned.degraded, *done.gathered.degraded, *synthesis.degraded, *failed)),
        metadata=_metadata(done, synthesis, latency_s, sent_to),
    )


def _metadata(
    done: ResearchResult, synthesis: Synthesis, latency_s: float, sent_to: tuple[Sent, ...]
) -> ResearchMetadata:
    writing = done.written.spent if done.written else NOTHING_SPENT
    spent = done.spent if done.spent is not None else done.planned.spent + writing
    answers = done.gathered.answers
    return ResearchMetadata(
        latency_ms=round(latency_s * 1000),
        cache_hit=synthesis.cached,
        tokens_used=spent.tokens,
        cost_usd=spent.cost_usd,
        searches=done.gathered.searches,
        llm_calls=spent.calls,
        synthesizer=synthesis.synthesizer,
        providers=tuple(dict.fromkeys(name for answer in answers for name in providers_of(answer))),
        language=done.language,
        truncated_tokens=synthesis.truncated_tokens,
        uncited_sentences=done.written.checked.uncited_sentences if done.written else 0,
        correction=next((answer.correction for answer in answers if answer.correction), None),
        request_id=done.request_id,
        sent_to=sent_to,
    )


def _once(degraded: Iterable[Degraded]) -> tuple[Degraded, ...]:
    """Each trouble once: a model that failed at the plan is skipped again at the answer."""
    return tuple({(entry.component, entry.reason): entry for entry in degraded}.values())


def nothing_found_text(depth: Depth, language: str) -> str:
    """Our words where no search found anything; a shallow research names the deep one."""
    own = messages_for(language)
    return own.nothing_found if depth != "shallow" else f"{own.nothing_found} {own.go_deeper}"


def source_ref(source: Source) -> SourceRef:
    """The source as an answer lists it."""
    return SourceRef(index=source.index, title=source.title, url=source.url)
