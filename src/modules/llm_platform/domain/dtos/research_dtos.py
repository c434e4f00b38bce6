"""The request and the answer of a research run, with its sources and citations."""

import hashlib
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    computed_field,
    field_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from modules.llm_platform.domain.callers.request_id import REQUEST_ID_PATTERN
from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow, StopReason
from modules.llm_platform.domain.dtos.freshness import parse_freshness
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.uploaded_file_dtos import MAX_FILES, UploadedFile, with_clean_names
from modules.llm_platform.domain.text.page_starts import PageStarts
from modules.llm_platform.domain.untrusted.output_schema import InvalidSchemaError, check_output_schema

Depth = Literal["shallow", "deep", "report"]
Verdict = Literal["supported", "partial", "unsupported", "unchecked"]
ModelVerdict = Literal["supported", "partial", "unsupported"]
CheckedBy = Literal["words", "encoder", "model"]
CitedBy = Literal["model", "platform"]
TextKind = Literal["page", "snippet", "document"]
DifferenceKind = Literal["number", "name", "date", "negation", "other"]
Finding = Literal["contradicts", "absent"]
Value = TypeVar("Value")

MIN_QUESTION_CHARS = 3
Question = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=MIN_QUESTION_CHARS, max_length=dtos.MAX_QUERY_CHARS),
    AfterValidator(dtos.clean_query),
]

MAX_CONTEXT_CHARS = 32_000
MAX_PLAN_QUESTIONS = 10  # a person may write this many; a model proposes three
MAX_URLS = 20
MAX_URL_CHARS = 2000
MAX_INSTRUCTION_CHARS = 2000
MAX_MODEL_CHARS = 320
MAX_LLM_CALLS = 10_000
LONGEST_RESEARCH_S = 86_400
MAX_TURNS = 10  # more than are used: the first turn and the last ones, MAX_STORED_TURNS in all
MAX_TURN_CHARS = 20_000  # an earlier answer in a request
MAX_STORED_TURNS = 3
MAX_STORED_ANSWER_CHARS = 1000
MAX_PAGES = 10
MAX_ROUNDS = 4
READ_IN_PART = 0.25  # a share of a page's visible text; menus and teasers alone are often half of it
OF_A_REPORT = ("plan", "urls", "max_llm_calls", "max_cost_usd", "max_seconds", "fresh")


def _clean_url(url: str) -> str:
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if not url.isprintable() or any(map(str.isspace, url)):
        raise ValueError("must be an address without blanks")
    return url


GivenUrl = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=MAX_URL_CHARS), AfterValidator(_clean_url)
]


def _checked_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        check_output_schema(schema)
    except InvalidSchemaError as error:
        raise PydanticCustomError("output_schema", "{reason}", {"reason": str(error)}) from None
    return schema


OutputSchema = Annotated[dict[str, Any], AfterValidator(_checked_schema)]


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character")
    return text


def _checked_freshness(text: str) -> str:
    parse_freshness(text)
    return text


Freshness = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(_checked_freshness)]
Context = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=MAX_CONTEXT_CHARS), AfterValidator(_without_nul)
]
ModelName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_MODEL_CHARS)]
PreviousId = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=REQUEST_ID_PATTERN)]


class Turn(BaseModel, frozen=True):
    """An earlier question of a conversation and its answer."""

    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=dtos.MAX_QUERY_CHARS)]
    answer: str = Field(default="", max_length=MAX_TURN_CHARS)


class ResearchRequest(BaseModel):
    """A question to research, and how to research it.

    - `depth` is `shallow` for one search and one synthesis, `deep` for three concurrent searches and one synthesis, and
      `report` to rank, read and summarise the pages behind the results before writing.
    - `freshness` limits the age of web results: oneDay, oneWeek, oneMonth, oneYear, noLimit, a date, or a range of dates
      (2026-03-01..2026-03-31). It overrides `time_range`.
    - `context` is text of the caller beyond the question. It is untrusted data: a model reads it when it writes, and no
      address in it is opened. A question that was taken from this text is made to stand alone before it is searched.
    - `instructions` are wishes for the text, for a model to follow.
    - `model` is a configured language model, `PROVIDER/MODEL`, for all stages of this run. No other model replaces it.
    - `files` are read for this answer and searched beside the given `sources`; without `sources` only the files are
      searched. Files are not stored; what the answer shows of them is, if the caller stores the answer.
    - `pages` is how many pages are read before a shallow or deep answer is written, by default 3 or 4; 0 reads none. Up to
      twice as many more, which the text cites, are read while it is written.
    - `rounds` is how many further rounds search for what the first search leaves open, by default 1 for a deep run and 2
      for a report; 0 makes none. A shallow run never makes one.
    - `previous_id` is the `metadata.request_id` of an earlier research run of the same caller.
    - `history` is a conversation, oldest turn first, in whose context the question is understood. With both, `history` is
      used if the earlier run is no longer stored.
    - `output_schema` is the JSON Schema of an object that a model fills from the finished text. The answer has it as
      `output`.

    The other fields belong to a report:

    - `plan` replaces the sub-questions of the model.
    - `urls` are pages to read. Only these are read, unless `sources` is given too.
    - `max_llm_calls`, `max_cost_usd` (US dollars) and `max_seconds` limit what the run may take.
    - `fresh` reuses nothing from the store.
    """

    model_config = ConfigDict(frozen=True)  # its subclasses are not declared as frozen

    query: Question
    depth: Depth = "shallow"
    sources: tuple[dtos.SourceKind, ...] = Field(default=("web",), min_length=1, max_length=4)
    language: dtos.Language | None = None
    omit_raw: bool = Field(default=False, strict=True)
    time_range: dtos.TimeRange | None = None
    freshness: Freshness | None = None
    domains: dtos.Domains = ()
    context: Context | None = None
    instructions: str | None = Field(default=None, max_length=MAX_INSTRUCTION_CHARS)
    model: ModelName | None = None
    files: Annotated[tuple[UploadedFile, ...], AfterValidator(with_clean_names)] = Field(
        default=(), max_length=MAX_FILES
    )
    pages: int | None = Field(default=None, ge=0, le=MAX_PAGES, strict=True)
    rounds: int | None = Field(default=None, ge=0, le=MAX_ROUNDS, strict=True)
    previous_id: PreviousId | None = None
    history: tuple[Turn, ...] = Field(default=(), max_length=MAX_TURNS)
    output_schema: OutputSchema | None = None
    plan: tuple[Question, ...] | None = Field(default=None, min_length=1, max_length=MAX_PLAN_QUESTIONS)
    urls: tuple[GivenUrl, ...] = Field(default=(), max_length=MAX_URLS)
    max_llm_calls: int | None = Field(default=None, ge=0, le=MAX_LLM_CALLS, strict=True)
    max_cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=True)
    max_seconds: float | None = Field(default=None, gt=0, le=LONGEST_RESEARCH_S, allow_inf_nan=False, strict=True)
    fresh: bool = Field(default=False, strict=True)

    @field_validator(*OF_A_REPORT)
    @classmethod
    def _belongs_to_a_report(cls, value: Value, info: ValidationInfo) -> Value:
        """Refuse a field that would be ignored: a caller who sets a budget must not be billed without one."""
        is_given = value is not None and value is not False and value != ()
        if is_given and info.data.get("depth", "report") != "report":  # an invalid depth has its own error
            raise PydanticCustomError("report_only", "belongs to a report: add depth report, or leave it out")
        return value

    @field_validator("pages")
    @classmethod
    def _belongs_to_an_answer(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("depth") == "report":
            raise PydanticCustomError(
                "not_of_a_report", "belongs to a shallow or deep answer: a report reads REPORT_PAGES"
            )
        return value


class ShortMessage(ResearchRequest):
    """A chat message that is too short to search for, such as `hi`. Its answer asks for a question."""

    query: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=MIN_QUESTION_CHARS - 1),
        AfterValidator(dtos.clean_query),
    ]


class Source(BaseModel, frozen=True):
    """A numbered text that an answer may cite. Offsets of quotes point into `text`, in Unicode code points.

    - `text_kind` is `page` for a page that was read, `snippet` for an excerpt by a search engine, and `document` for a
      document of the operator.
    - `extraction` is the share of the page's visible text that was kept, 0 to 1; None if no page was read, or if its reader
      does not tell.
    - `pages` says where the pages of a PDF begin in `text`.
    - `is_whole` is True if `text` is known to be a whole document: its tables have all their rows.
    """

    index: int
    title: str
    url: str
    text: str
    published: str | None = None
    text_kind: TextKind = "page"
    extraction: float | None = None
    pages: PageStarts = ()
    is_whole: bool = False


class SourceRef(BaseModel, frozen=True):
    """A source as an answer lists it. `extraction` is the share of the page's visible text that was kept, 0 to 1."""

    index: int
    title: str
    url: str
    extraction: float | None = Field(default=None, ge=0, le=1)

    @property
    def is_read_in_part(self) -> bool:
        """True if so little of the page was kept that the rest may contain what `text` lacks."""
        return self.extraction is not None and self.extraction < READ_IN_PART

    @classmethod
    def of(cls, source: Source) -> Self:
        return cls(index=source.index, title=source.title, url=source.url, extraction=source.extraction)


class CellVerdict(BaseModel, frozen=True):
    """The verdict on one cell of a table row. `start` and `end` delimit the cell in the answer, in code points."""

    start: int
    end: int
    verdict: Verdict


class TextSpan(BaseModel, frozen=True):
    """A part of a text: the code points from `start` up to `end`, exclusive."""

    start: int
    end: int


class Difference(BaseModel, frozen=True):
    """A difference between a sentence and its source.

    - `claimed` is a part of the answer.
    - `found` is the part of the source's stored text that says otherwise.
    """

    claimed: TextSpan
    found: TextSpan
    kind: DifferenceKind


class Citation(BaseModel, frozen=True):
    """One sentence of the answer and one source that it cites.

    - `start` and `end` delimit the sentence in the answer, without the markers at its end, in code points.
    - `quote` is the part of the source's stored text that fits best, and `quote_start` and `quote_end` delimit it there. If
      nothing fits, the quote is empty and both offsets are 0.
    - `checked_by` says who gave `verdict`: the comparison of words (`words`), the support model of the package (`encoder`) or
      a language model (`model`) after it.
    - `is_verbatim` is True if the source has the sentence word for word, apart from markup.
    - `score` is the score of the comparison of words, and `word_verdict` its verdict if another gave `verdict`.
    - `cited_by` is `platform` if the author of the answer named no source here, and the platform found this one and added
      its marker.
    - `checked_against` is the kind of text that the sentence was compared with.
    - `quote_url` is the address of the page with a text fragment, at which a browser shows the quote; None without a quote
      or a page on the web.
    - `page` is the number, from 1, of the page of a PDF at which the quote begins. `quote_url` then ends with `#page=` and
      this number.
    - `cells` are the cells of a table row that the source does not support as one sentence. The first cell, the head of the
      row, is left out; if several cells have markers, only those that cite this source are listed. `verdict` is the weakest
      verdict among them.
    - `difference` is the number, name, date or negation that the source has otherwise, if the comparison of words found one.
    - `finding` says why a verdict is `unsupported`: the source `contradicts` the sentence in the `difference`, or the sentence
      is `absent` from it.
    """

    start: int
    end: int
    source_index: int
    quote: str = ""
    quote_start: int = 0
    quote_end: int = 0
    verdict: Verdict
    score: float
    # A citation that was stored without it has its score: 1 was given for a copy.
    is_verbatim: bool = Field(default_factory=lambda data: data.get("score") == 1)
    checked_by: CheckedBy = "words"
    word_verdict: Verdict | None = None
    cited_by: CitedBy = "model"
    checked_against: TextKind = "page"
    quote_url: str | None = None
    page: int | None = None
    cells: tuple[CellVerdict, ...] = ()
    difference: Difference | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def finding(self) -> Finding | None:
        return classify_unsupported(self.verdict, self.difference)


def classify_unsupported(verdict: Verdict, difference: Difference | None) -> Finding | None:
    """Return why a sentence is unsupported; None for any other verdict. Another wording alone is no contradiction."""
    if verdict != "unsupported":
        return None
    return "contradicts" if difference is not None and difference.kind != "other" else "absent"


class CitedClaim(BaseModel, frozen=True):
    """A sentence of an answer, without markers, and its quote. `title` is the title of the quote's source."""

    claim: str
    quote: str
    title: str = ""


class JudgedClaims(BaseModel, frozen=True):
    """The verdicts of a judge, in the order of the claims; None for a claim on which it gave none."""

    verdicts: tuple[ModelVerdict | None, ...]
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


class StoredVerdicts(BaseModel, frozen=True):
    """The stored verdicts of a judge on the claims of one question.

    - `verdicts` has them by the digest of claim and quote; None for a claim on which the judge gave none.
    - `sent_to` is what was sent for all of them.
    - `degraded` has the reasons of calls whose answers could not be used.
    """

    verdicts: dict[str, ModelVerdict | None]
    sent_to: tuple[Sent, ...] = ()
    degraded: tuple[Degraded, ...] = ()


class Synthesis(BaseModel, frozen=True):
    """The text of a writer.

    - `answered` is False if the text says that the sources do not answer. `closest` are then the passages to show below, in
      Markdown; empty if the writer has none.
    - `sent_to` is what was sent when the text was written; only caches set it.
    """

    text: str
    synthesizer: str
    answered: bool = True
    closest: str = ""
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
    """The next piece of an answer that is being written, before it is sanitised."""

    text: str


class SynthesisReset(BaseModel, frozen=True):
    """A writer failed before the end of its text. Discard the text so far: the next writer begins."""

    reason: str


SynthesisPart = SynthesisToken | SynthesisReset | Synthesis


class RawResult(BaseModel, frozen=True):
    """One search result as the answer shows it.

    - `content` is the stored text that quotes point into.
    - `pages` says where the pages of a document begin in `content`, and `is_whole` is as for a search result. Neither is part
      of the JSON.
    """

    title: str
    url: str
    content: str
    source: str | None = None
    score: float | None = None
    published: str | None = None
    pages: SkipJsonSchema[PageStarts] = Field(default=(), exclude=True, repr=False)
    is_whole: SkipJsonSchema[bool] = Field(default=False, exclude=True, repr=False)

    @classmethod
    def of(cls, item: dtos.WebSearchResultItem) -> Self:
        return cls(
            title=item.title,
            url=item.url,
            content=item.text,
            source=item.source,
            score=item.score,
            published=item.published_date,
            pages=item.pages,
            is_whole=item.is_whole,
        )


class ResearchMetadata(BaseModel, frozen=True):
    """The cost of an answer, and how it was made.

    - `latency_ms` is the time the answer took, in milliseconds.
    - `cost_usd` is None if the price of a model is not known.
    - `searches` counts requests to search providers.
    - `uncited` are the statements of the text that cite no source, and `uncited_sentences` is their number.
    - `verdicts_changed` counts the citations on which a model decided otherwise than the comparison of words.
    - `related_questions` are up to five questions that engines suggest or that the plan searched, and that were not asked.
    - `files` are the names of the files of the request, which are not stored.
    - `standalone_query` is how a question was understood that follows up on another or was taken from a longer text; None for
      any other question.
    - `pages_read` counts the pages that were read before and during the writing, and `pages_cited` those of them that the
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
    searches: int = 0
    llm_calls: int = 0
    synthesizer: str = ""
    providers: tuple[str, ...] = ()
    language: str = "en"
    truncated_tokens: int = 0
    uncited_sentences: int = 0
    uncited: tuple[TextSpan, ...] = ()
    verdicts_changed: int = 0
    correction: str | None = None
    related_questions: tuple[str, ...] = ()
    request_id: str = ""
    files: tuple[str, ...] = ()
    standalone_query: str | None = None
    pages_read: int = 0
    pages_cited: int = 0
    pages_failed: int = 0
    pages_late: int = 0
    rounds: int = 0
    open_questions: tuple[str, ...] = ()
    stopped: StopReason | None = None
    sent_to: tuple[Sent, ...] = ()
    cached_sent_to: tuple[Sent, ...] = ()
    plan: tuple[str, ...] = ()
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
    sources: tuple[SourceRef, ...] = ()
    raw_results: tuple[RawResult, ...] | None = None
    citations: tuple[Citation, ...] = ()
    evidence: tuple[EvidenceRow, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    metadata: ResearchMetadata

    def with_degraded(self, *entries: Degraded) -> Self:
        """Return a copy to whose `degraded` these entries are added, for what failed after the answer was made."""
        return self.model_copy(update={"degraded": (*self.degraded, *entries)})


class HeldSource(BaseModel, frozen=True):
    """A stored source as it was read. `sha256` is the hex digest of its text in UTF-8."""

    index: int
    url: str
    title: str
    text: str
    text_kind: TextKind = "page"
    sha256: str


class StoredSources(BaseModel, frozen=True):
    """The sources of one research run, and its evidence after the run has ended."""

    sources: tuple[Source, ...]
    evidence: tuple[EvidenceRow, ...] = ()

    def find(self, index: int) -> HeldSource | None:
        """Return source number `index`; None if the run had no such source."""
        for source in self.sources:
            if source.index == index:
                digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()
                return HeldSource(
                    index=index,
                    url=source.url,
                    title=source.title,
                    text=source.text,
                    text_kind=source.text_kind,
                    sha256=digest,
                )
        return None


class StoredTurns(BaseModel, frozen=True):
    """The last turns of a conversation, oldest first: what a follow-up question needs of an earlier run.

    - `turns` have each question as it was understood, and each answer shortened.
    - `scope` says where the last run searched; None if the caller sent the turns.
    """

    turns: tuple[Turn, ...]
    language: str | None = None
    scope: str | None = None
