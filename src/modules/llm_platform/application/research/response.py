"""Builds the answer of a research run from the results of its stages (docs/reference/http.md)."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain

from modules.llm_platform.application.research.check.judge_task import count_changed
from modules.llm_platform.application.research.find.found import FoundSources
from modules.llm_platform.application.research.find.read_pages import ReadCounts
from modules.llm_platform.application.research.find.search import list_providers
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.write.writing import WrittenAnswer
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse, Synthesis
from modules.llm_platform.domain.dtos.citation_dtos import TextSpan
from modules.llm_platform.domain.dtos.degraded import Degraded, deduplicate_degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.request_dtos import Depth, ShortMessage
from modules.llm_platform.domain.dtos.sent import Sent, merge_sent
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.evidence.ledger import locate_quotes
from modules.llm_platform.domain.exceptions import OutputError
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.research.question_selector import select_questions
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.sentences import QUESTION_MARKS
from modules.llm_platform.domain.untrusted.untrusted_text import neutralise, one_line

MAX_RELATED = 5  # questions that an answer suggests
MAX_RELATED_CHARS = 200  # a longer suggestion is usually a headline
TOO_SHORT = "short_message: the message is too short to search for, so there is nothing to put into the schema"


def build_response(
    run: Run, found: FoundSources, written: WrittenAnswer | None, *, spent: Spending, reads: ReadCounts, fallback: str
) -> ResearchResponse:
    """Return the answer. Its `sources` are the cited ones only, and they keep their numbers.

    - `written` is None if nothing was found. Then the answer names `fallback` as its writer.
    - `spent` is the total of the run.
    """
    synthesis = written.synthesis if written else Synthesis(text="", synthesizer=fallback, answered=False)
    sources, ledger = written.sources if written else found.sources, found.ledger
    cited = written.checked.cited if written else frozenset()
    return ResearchResponse(
        query=run.request.query,
        depth=run.request.depth,
        synthesis=written.text if written else write_nothing_found(run.request.depth, run.language),
        sources=tuple(SourceRef.of(source) for source in sources if source.index in cited),
        raw_results=None if run.request.omit_raw else found.raw,
        citations=written.checked.citations if written else (),
        evidence=locate_quotes(ledger.rows, sources) if ledger.stopped else (),
        degraded=deduplicate_degraded(
            (*found.degraded, *found.results.degraded, *synthesis.degraded, *(written.degraded if written else ()))
        ),
        metadata=_describe_run(run, found, written, synthesis, spent, reads),
    )


def _describe_run(
    run: Run,
    found: FoundSources,
    written: WrittenAnswer | None,
    synthesis: Synthesis,
    spent: Spending,
    reads: ReadCounts,
) -> ResearchMetadata:
    answers, ledger = found.results.answers, found.ledger
    citations = written.checked.citations if written else ()
    uncited = written.checked.uncited if written else ()
    pages = [source.index for source in written.sources if source.text_kind == "page"] if written else []
    correction = synthesis.correction or next((answer.correction for answer in answers if answer.correction), None)
    return ResearchMetadata(
        latency_ms=round((asyncio.get_running_loop().time() - run.began) * 1000),
        cache_hit=synthesis.cached,
        **spent.metadata(),
        searches=found.results.searches,
        synthesizer=synthesis.synthesizer,
        providers=tuple(dict.fromkeys(name for answer in answers for name in list_providers(answer))),
        language=run.language,
        truncated_tokens=synthesis.truncated_tokens,
        verdicts_changed=count_changed(citations),
        uncited_sentences=len(uncited),
        uncited=tuple(TextSpan(start=start, end=end) for start, end in uncited),
        pages_read=reads.read,
        pages_cited=sum(index in written.checked.cited for index in pages) if written else 0,
        pages_failed=reads.failed,
        pages_late=reads.late,
        rounds=ledger.rounds,
        open_questions=ledger.open_questions if ledger.stopped else (),
        stopped=ledger.stopped,
        correction=correction,
        related_questions=select_related_questions(
            _list_suggestions(run, found), run.language, run.asked, correction or ""
        ),
        request_id=run.request_id,
        sent_to=run.egress_log.sent(),
        cached_sent_to=run.egress_log.cached(),
    )


def _list_suggestions(run: Run, found: FoundSources) -> Iterable[str]:
    """Return the suggestions of the search engines, then the searches of the plan that are whole questions.

    The other searches of a plan only repeat words of the question. A report already has a section for each question of its
    plan, so it does not suggest them again.
    """
    suggested = chain.from_iterable(answer.suggestions for answer in found.results.answers)
    if run.request.depth == "report":
        return suggested
    return chain(suggested, (text for text in found.questions if text.rstrip().endswith(tuple(QUESTION_MARKS))))


def select_related_questions(
    suggested: Iterable[str], language: str, asked: Sequence[str], correction: str = ""
) -> tuple[str, ...]:
    """Return at most MAX_RELATED questions that a reader may ask next.

    `suggested` is untrusted: a text with an address, HTML, markers or control characters is left out, because a click sends
    the text as it is. Questions that repeat one of `asked`, or the `correction` of a search engine, are left out too.
    """
    lines = filter(lambda line: len(line) <= MAX_RELATED_CHARS, map(one_line, suggested))
    clean = (neutralise(line) for line in lines if sanitize(line, ()) == line)
    return select_questions(clean, language, taken=(*asked, correction), limit=MAX_RELATED, written=asked)


def get_spending(metadata: ResearchMetadata) -> Spending:
    return Spending(
        calls=metadata.llm_calls,
        prompt_tokens=metadata.prompt_tokens,
        completion_tokens=metadata.completion_tokens,
        cost_usd=metadata.cost_usd,
        is_cost_cut_off=metadata.is_cost_cut_off,
    )


def add_spending(metadata: ResearchMetadata, spent: Spending, sent: Iterable[Sent] = ()) -> ResearchMetadata:
    """Add what another stage spent and sent."""
    total = get_spending(metadata) + spent
    return metadata.model_copy(update={**total.metadata(), "sent_to": merge_sent((*metadata.sent_to, *sent))})


def write_nothing_found(depth: Depth, language: str) -> str:
    """Return the text of an answer if the search found nothing. A shallow answer suggests a deep run."""
    messages = get_messages(language)
    return messages.nothing_found if depth != "shallow" else f"{messages.nothing_found} {messages.go_deeper}"


def make_short_message_response(message: ShortMessage, request_id: str, language: str) -> ResearchResponse:
    """Return the answer to a message that is too short to search for: it says what can be asked."""
    return ResearchResponse(
        query=message.query,
        depth=message.depth,
        synthesis=get_messages(language).ask_more,
        raw_results=None if message.omit_raw else (),
        degraded=() if message.output_schema is None else (Degraded(component=OutputError.code, reason=TOO_SHORT),),
        metadata=ResearchMetadata(latency_ms=0, language=language, request_id=request_id),
    )
