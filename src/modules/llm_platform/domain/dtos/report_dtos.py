"""The values that the stages of a report exchange and store."""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.request_dtos import (
    MAX_PLAN_QUESTIONS,
    MAX_ROUNDS,
    MAX_TURNS,
    MAX_URLS,
    Context,
    GivenUrl,
    ModelName,
    PreviousId,
    Question,
    Turn,
)
from modules.llm_platform.domain.dtos.web_search_dtos import Language, SourceKind, WebSearchResultItem

# LLM_STAGES can set a model for each.
FINAL_PAGES: Final = 5  # pages whose text the writer of a report gets, unless the request names more addresses
LLMStage = Literal["plan", "queries", "rank", "summarize", "write", "judge", "output"]
ScoredBy = Literal["model", "keywords", "default"]

MAX_OTHER_THAN = 30  # sub-questions; they are all in the prompt


class PlanRequest(BaseModel):
    """A question to plan. `other_than` are rejected sub-questions; the other fields mean the same as in a ResearchRequest.

    `sources`, `urls` and `rounds` change nothing but the estimate.
    """

    model_config = ConfigDict(frozen=True)

    query: Question
    language: Language | None = None
    other_than: tuple[Question, ...] = Field(default=(), max_length=MAX_OTHER_THAN)
    context: Context | None = None
    model: ModelName | None = None
    previous_id: PreviousId | None = None
    history: tuple[Turn, ...] = Field(default=(), max_length=MAX_TURNS)
    sources: tuple[SourceKind, ...] = Field(default=("web",), min_length=1, max_length=4)
    urls: tuple[GivenUrl, ...] = Field(default=(), max_length=MAX_URLS)
    rounds: int | None = Field(default=None, ge=0, le=MAX_ROUNDS, strict=True)


class ReportAmounts(BaseModel, frozen=True):
    """The searches, pages, calls, tokens and cost of a report. `cost_usd` is None if a price is unknown."""

    searches: int = 0
    pages: int = 0
    llm_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0


class ReportEstimate(BaseModel, frozen=True):
    """The most that a report over the sub-questions of a plan takes: the sums of the limits of its stages.

    Stored results cost nothing again. A call that is repeated or fails over counts once more.

    - `per_question` is the amount that one more sub-question adds.
    - `max_seconds` is the time limit of the server.
    """

    at_most: ReportAmounts
    per_question: ReportAmounts
    max_seconds: float

    def with_more(self, questions: int) -> ReportAmounts:
        """Return the amounts for a plan with this many more sub-questions; fewer if it is negative."""
        now, for_one = self.at_most, self.per_question
        return ReportAmounts(
            searches=now.searches + questions * for_one.searches,
            pages=now.pages + questions * for_one.pages,
            llm_calls=now.llm_calls + questions * for_one.llm_calls,
            tokens=now.tokens + questions * for_one.tokens,
            cost_usd=None
            if now.cost_usd is None or for_one.cost_usd is None
            else now.cost_usd + questions * for_one.cost_usd,
        )


class ResearchPlan(BaseModel, frozen=True):
    """A plan of a report: up to three sub-questions in the language of the question.

    - `planner` is the model, or "decomposition".
    - `spent` is the cost of this plan; nothing for a cached one.
    - `standalone_query` is how a follow-up question was understood; None for any other question.
    - `estimate` is what the report takes at most; None for a stored plan.
    """

    query: str
    standalone_query: str | None = None
    language: str
    questions: tuple[str, ...]
    planner: str
    degraded: tuple[Degraded, ...] = ()
    spent: Spending = NOTHING_SPENT
    estimate: ReportEstimate | None = None


class AcceptedPlan(BaseModel, frozen=True):
    """The sub-questions that a person accepted, stored so that an interrupted report can use them again."""

    query: str
    questions: tuple[Question, ...] = Field(min_length=1, max_length=MAX_PLAN_QUESTIONS)
    accepted_at: datetime


class SearchQueries(BaseModel, frozen=True):
    """The search queries of one sub-question."""

    question: str
    queries: tuple[str, ...]
    degraded: tuple[Degraded, ...] = ()


class RoundAnswer(BaseModel, frozen=True):
    """The answer of a model in a further round, as the lines that it wrote.

    - `is_done` is True if the model says that nothing is missing.
    - `spent` is the cost of this answer; nothing for a stored one.
    """

    lines: tuple[str, ...]
    is_done: bool = False
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


class Candidate(BaseModel, frozen=True):
    """A result, the sub-question that found it first, and all queries that found it."""

    item: WebSearchResultItem
    question: str
    queries: tuple[str, ...]


class Score(BaseModel, frozen=True):
    """The mean of the five criteria, 0 to 10 with one decimal, and its origin."""

    value: float
    by: ScoredBy
    criteria: tuple[float, ...] = ()


class RankedCandidate(BaseModel, frozen=True):
    """A result with its score."""

    candidate: Candidate
    score: Score


class Summary(BaseModel, frozen=True):
    """The summary of a page. `cut_tokens` counts the tokens of the page that it omits; `by` is a model or "extractive"."""

    url: str
    title: str
    text: str
    by: str
    cut_tokens: int = 0
    degraded: tuple[Degraded, ...] = ()


class RankedBatch(BaseModel, frozen=True):
    """The stored scores of one call. `version` covers everything that the scores depend on, except the results."""

    version: str
    keys: tuple[str, ...]
    scores: tuple[Score, ...]


class RankedSummaries(BaseModel, frozen=True):
    """The scores of summaries, in the order of their addresses."""

    urls: tuple[str, ...]
    scores: tuple[Score, ...]
    degraded: tuple[Degraded, ...] = ()


class KeptSynthesis(BaseModel, frozen=True):
    """A stored text, so that an interrupted report does not pay for it again."""

    synthesis: Synthesis
