"""What the stages of a report hand to one another, and what the store keeps of them (requirements MS1 to MS8)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import MAX_PLAN_QUESTIONS, Question, Synthesis
from modules.llm_platform.domain.dtos.web_search_dtos import Language, WebSearchResultItem

# What a model of its own can be set for (LLM_STAGES).
LLMStage = Literal["plan", "queries", "rank", "summarize", "write", "judge"]
ScoredBy = Literal["model", "keywords", "default"]

MAX_OTHER_THAN = 30  # sub-questions; they all stand in the prompt


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class PlanRequest(_Value):
    """A question to be taken apart. `other_than` are sub-questions that were looked at and not wanted."""

    query: Question
    language: Language | None = None
    other_than: tuple[Question, ...] = Field(default=(), max_length=MAX_OTHER_THAN)


class ResearchPlan(_Value):
    """Up to three sub-questions in the question's language. `planner` is the model that made them, or "decomposition";
    `spent` what that took now: nothing where the plan was there already.
    """

    query: str
    language: str
    questions: tuple[str, ...]
    planner: str
    degraded: tuple[Degraded, ...] = ()
    spent: Spending = NOTHING_SPENT


class AcceptedPlan(_Value):
    """The sub-questions that a person agreed to, as the store keeps them: should the process end before the report is
    there, nobody has to think of them again.
    """

    query: str
    questions: tuple[Question, ...] = Field(min_length=1, max_length=MAX_PLAN_QUESTIONS)
    accepted_at: datetime


class SearchQueries(_Value):
    """What one sub-question asks the search engines."""

    question: str
    queries: tuple[str, ...]


class Candidate(_Value):
    """A result, the sub-question whose search found it first, and every query that found it."""

    item: WebSearchResultItem
    question: str
    queries: tuple[str, ...]


class Score(_Value):
    """The mean of the five criteria, 0 to 10 with one decimal, and who gave it."""

    value: float
    by: ScoredBy
    criteria: tuple[float, ...] = ()


class RankedCandidate(_Value):
    """A result with its score."""

    candidate: Candidate
    score: Score


class Summary(_Value):
    """A page in short. `cut_tokens` counts what of the page the summary does not know; `by` is a model or "extractive"."""

    url: str
    title: str
    text: str
    by: str
    cut_tokens: int = 0


class RankedBatch(_Value):
    """What one call ranked, as the store keeps it. `version` covers all that the scores depend on but the results."""

    version: str
    keys: tuple[str, ...]
    scores: tuple[Score, ...]


class RankedSummaries(_Value):
    """The scores of summaries, in the order of their addresses."""

    urls: tuple[str, ...]
    scores: tuple[Score, ...]


class KeptSynthesis(_Value):
    """A finished text, as the store keeps it: should the process end before the answer is out, nobody pays for it again."""

    synthesis: Synthesis
