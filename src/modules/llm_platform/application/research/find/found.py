"""The result of the find stage (`FoundSources`), which the write stage gets together with its writers and judge (`Writers`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.check.judge_task import JudgeTask
from modules.llm_platform.application.research.find.read_pages import SourcesBeingRead
from modules.llm_platform.application.research.find.search import NOTHING_SEARCHED, SearchResults
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EMPTY_LEDGER, EvidenceRow, Ledger
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.source_dtos import RawResult, Source
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer

NO_SCORES: Mapping[str, float | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSources:
    """The sources of an answer.

    - `question` is the question to answer, and `questions` the searches of a quick run or the sections of a report.
    - `sources` are numbered. Citations are checked against their texts. `raw` has the result of each source, in order.
    - `excerpts` are the parts of the sources that the writer reads; None if it reads them whole.
    - `pages_being_read` gives access to pages that are still being read while the text is written.
    - `ledger` has the questions of the run with their quotes. `evidence` has its rows if the answer needs sentences of several
      sources (`FurtherRounds.list_evidence`).
    - `stop_note` says why the search ended. It is shown below a text that does not answer.
    - `spent` and `degraded` belong to the search and its plan.
    """

    question: str
    sources: tuple[Source, ...]
    questions: tuple[str, ...] = ()
    results: SearchResults = NOTHING_SEARCHED
    raw: tuple[RawResult, ...] = ()
    excerpts: tuple[Source, ...] | None = None
    pages_being_read: SourcesBeingRead | None = None
    ledger: Ledger = EMPTY_LEDGER
    evidence: Sequence[EvidenceRow] = ()
    stop_note: str = ""
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """The writers of an answer, and what verifies its citations.

    - `fallback` replaces `writer` if it fails, is late or writes nothing, or if no source supports what a small model writes.
    - `max_tokens` limits the length of the text.
    - `counts_late_text` is True if a late text of `writer` counts as one call. The budget of a report counts its own calls.
    - `completes_fallback` is True if missing markers are added to a text of `fallback`, as to a text of another writer.
    - `judge_task` lets a judge verify the citations after the word comparison; None skips it.
    - `support_model` decides what the word comparison leaves in doubt, if there is no judge or the judge fails.
      Without it, the lexical verdicts stand.
    """

    writer: ISynthesizer
    fallback: ISynthesizer
    max_tokens: int
    counts_late_text: bool = False
    completes_fallback: bool = False
    judge_task: JudgeTask | None = None
    support_model: ISupportModel | None = None


async def announce_sources(run: Run, found: FoundSources, scores: Mapping[str, float | None] = NO_SCORES) -> None:
    """Emit the sources with their numbers, best first, and store the texts that quotes point into.

    `scores` maps the addresses of a report's sources to their scores.
    """
    kept = tuple(
        events.RankedResult(url=source.url, title=source.title, score=scores.get(source.url))
        for source in found.sources
    )
    run.emit(events.Ranked(request_id=run.request_id, query=run.request.query, kept=kept))
    run.emit(events.SourcesNumbered.of(run.request_id, found.sources))
    await run.store_sources(found.sources)
