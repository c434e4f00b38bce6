"""The text of a writer, and the answer of a research run."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, FailFast, Field, computed_field
from pydantic.json_schema import SkipJsonSchema

from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow, StopReason
from modules.llm_platform.domain.dtos.fail_fast import FailFastTuple
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.source_dtos import RawResult, SourceRef


class Synthesis(BaseModel, frozen=True):
    """The text of a writer.

    - `answered` is False if the text says that the sources do not answer. `closest` are then the passages to show below, in
      Markdown; empty if the writer has none.
    - `is_doubtful` is True if no sentence that the writer read seems to answer the question.
    - `correction` is the question in the spelling of the sources, if a word of it seems to be misspelled.
    - `sent_to` is what was sent when the text was written; only caches set it.
    """

    text: str
    synthesizer: str
    answered: bool = True
    closest: str = ""
    is_doubtful: bool = False
    correction: str | None = None
    truncated_tokens: int = 0
    finish_reason: str = "stop"
    cached: bool = False
    sent_to: tuple[Sent, ...] = ()
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()

    def after(self, spent: Spending, degraded: tuple[Degraded, ...]) -> Self:
        """Return a copy to which the spending and the failures of earlier writers are added."""
        return self.model_copy(update={"spent": spent + self.spent, "degraded": (*degraded, *self.degraded)})


class SynthesisToken(BaseModel, frozen=True):
    """The next piece of an answer that is being written, before it is sanitised.

    If `is_doubtful` is True, no sentence that the writer read seems to answer the question. It is the same for all tokens of a
    text.
    """

    text: str
    is_doubtful: bool = False


class SynthesisReset(BaseModel, frozen=True):
    """A writer failed before the end of its text. Discard the text so far: the next writer begins."""

    reason: str


SynthesisPart = SynthesisToken | SynthesisReset | Synthesis


class ResearchMetadata(BaseModel, frozen=True):
    """The cost of an answer, and how it was made.

    - `latency_ms` is the time the answer took, in milliseconds.
    - `cost_usd` is None if the price of a model is not known, or if a call was cut off. If that is the only reason,
      `is_cost_cut_off` is True, which is not part of the JSON.
    - `searches` counts requests to search providers.
    - `uncited` are the statements of the text that cite no source, and `uncited_sentences` is their number.
    - `verdicts_changed` counts the citations on which a model decided otherwise than the word comparison.
    - `related_questions` are up to five questions that engines suggest or that the plan searched, and that were not asked.
    - `files` are the names of the files of the request, which are not stored.
    - `standalone_query` is how a question was understood that follows up on another or was taken from a longer text; None for
      any other question.
    - `pages_read` counts the pages that were read before and during the writing. `pages_cited` counts the read pages that the
      text cites.
    - `pages_failed` counts the pages that could not be read, and `pages_late` those that were not read in time.
    - `rounds` counts the further rounds of search.
    - `open_questions` are the questions that no quote answers.
    - `stopped` says why no further round was made; None for a run without rounds, unless its caller asked for its end.
    - `sent_to` is the ledger of what left this process.
    - `cached_sent_to` is the ledger of earlier runs, for the parts of the answer that come from a cache or the store.
    - `plan` are the sub-questions of a report, and `topic` is its name in the store.
    - `stored_at` is when a report that comes from the store was finished.
    """

    latency_ms: int
    cache_hit: bool = False
    tokens_used: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    is_cost_cut_off: SkipJsonSchema[bool] = Field(default=False, exclude=True, repr=False)
    searches: int = 0
    llm_calls: int = 0
    synthesizer: str = ""
    providers: FailFastTuple[str] = ()
    language: str = "en"
    truncated_tokens: int = 0
    uncited_sentences: int = 0
    uncited: FailFastTuple[TextSpan] = ()
    verdicts_changed: int = 0
    correction: str | None = None
    related_questions: FailFastTuple[str] = ()
    request_id: str = ""
    files: FailFastTuple[str] = ()
    standalone_query: str | None = None
    pages_read: int = 0
    pages_cited: int = 0
    pages_failed: int = 0
    pages_late: int = 0
    rounds: int = 0
    open_questions: FailFastTuple[str] = ()
    stopped: StopReason | None = None
    sent_to: FailFastTuple[Sent] = ()
    cached_sent_to: FailFastTuple[Sent] = ()
    plan: FailFastTuple[str] = ()
    topic: str | None = None
    stored_at: datetime | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def understood_question(self) -> str | None:
        """The question that was searched, if it is not the question as sent: another name of `standalone_query`."""
        return self.standalone_query


class ResearchResponse(BaseModel, frozen=True):
    """The answer to a research request.

    - `synthesis` is the text, in Markdown, with markers `[n]` that cite `sources`.
    - `output` is the text as an object of the request's `output_schema`. It is None without a schema, and if the model did
      not fill the schema; `degraded` then names `output`.
    - `sources` are those that the text cites, with the numbers they had before the writing began.
    - `evidence` has, for each question, the quotes that answer it. A shallow run has none.
    """

    query: str
    depth: Depth
    synthesis: str
    output: dict[str, Any] | None = None
    sources: FailFastTuple[SourceRef] = ()
    raw_results: Annotated[tuple[RawResult, ...] | None, FailFast()] = None
    citations: FailFastTuple[Citation] = ()
    evidence: FailFastTuple[EvidenceRow] = ()
    degraded: FailFastTuple[Degraded] = ()
    metadata: ResearchMetadata

    def with_degraded(self, *entries: Degraded) -> Self:
        """Return a copy to whose `degraded` these entries are added, for what failed after the answer was made."""
        return self.model_copy(update={"degraded": (*self.degraded, *entries)})
