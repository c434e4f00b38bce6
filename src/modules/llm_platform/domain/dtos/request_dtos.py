"""The request of a research run, and the conversation it belongs to."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from modules.llm_platform.domain.callers.request_id import REQUEST_ID_PATTERN
from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.freshness import parse_freshness
from modules.llm_platform.domain.dtos.uploaded_file_dtos import MAX_FILES, UploadedFile, clean_names
from modules.llm_platform.domain.untrusted.output_schema import InvalidSchemaError, check_output_schema

Depth = Literal["shallow", "deep", "report"]
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
FIELDS_FOR_REPORTS = ("plan", "urls", "max_llm_calls", "max_cost_usd", "max_seconds", "fresh")


def _clean_url(url: str) -> str:
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if not url.isprintable() or any(map(str.isspace, url)):
        raise ValueError("must be an address without blanks")
    return url


GivenUrl = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=MAX_URL_CHARS), AfterValidator(_clean_url)
]


def _check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        check_output_schema(schema)
    except InvalidSchemaError as error:
        raise PydanticCustomError("output_schema", "{reason}", {"reason": str(error)}) from None
    return schema


OutputSchema = Annotated[dict[str, Any], AfterValidator(_check_schema)]


def _reject_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character")
    return text


def _check_freshness(text: str) -> str:
    parse_freshness(text)
    return text


Freshness = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(_check_freshness)]
Context = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=MAX_CONTEXT_CHARS), AfterValidator(_reject_nul)
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
    files: Annotated[tuple[UploadedFile, ...], AfterValidator(clean_names)] = Field(default=(), max_length=MAX_FILES)
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

    @field_validator(*FIELDS_FOR_REPORTS)
    @classmethod
    def _require_report_depth(cls, value: Value, info: ValidationInfo) -> Value:
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


class StoredTurns(BaseModel, frozen=True):
    """The last turns of a conversation, oldest first: what a follow-up question needs of an earlier run.

    - `turns` have each question as it was understood, and each answer shortened.
    - `scope` says where the last run searched; None if the caller sent the turns.
    """

    turns: tuple[Turn, ...]
    language: str | None = None
    scope: str | None = None
