"""Let a judge verify the citations of an answer after the word comparison.

A citation that the judge does not decide keeps the lexical verdict. If the judge fails, a support model may decide it
(`DraftComparison.read_unjudged`).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.citations.compare.model_verdicts import apply_model_verdict, can_be_judged, list_claims
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.dtos.citation_dtos import Citation, CitedClaim, JudgedClaims, ModelVerdict
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.tracing import stage
from shared.exceptions import AppException

MIN_JUDGING_S: Final = 1.0  # with less time left, no call is made
LATE: Final = "timeout: no time was left for the judge; the citations were checked without it"
UNREADABLE: Final = "llm_provider: the judge returned no verdicts; the citations keep their word verdicts"
INCOMPLETE: Final = (
    "incomplete: the judge gave no verdict on {count} of {all} citations; the word comparison decides there"
)
NOTHING_KNOWN: Final[Mapping[CitedClaim, ModelVerdict | None]] = {}
NOTHING_JUDGED: Final = JudgedClaims(verdicts=())

# Called with the citations of an answer, and with how many of them the judge has yet to verify.
OnChecked = Callable[[tuple[Citation, ...], int], None]


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """The task of a judge: to verify the citations of one answer, within limits.

    - `until` is the deadline, in event loop time.
    - `question` and `language` belong to the answer. The judge also gets the titles of the `sources`.
    - `skips_supported` is True if the judge gets no citations that the word comparison supports.
    - `max_wait_share` limits how long the reader waits for verdicts after the text is complete, as a share of the time that
      the answer took; None waits until the deadline.
    - `late_claims` has the questions and claims of calls that were too late. Later answers do not ask about them.
    """

    judge: ICitationJudge
    until: float
    question: str
    language: str
    sources: Sequence[Source]
    skips_supported: bool = False
    max_wait_share: float | None = None
    late_claims: MutableMapping[tuple[str, CitedClaim], bool] = field(default_factory=dict)

    def select_claims(self, answer: str, citations: Sequence[Citation]) -> dict[int, CitedClaim]:
        """Return the claims to ask the judge about, by the position of their citation."""
        claims = list_claims(answer, self.language) if citations else {}
        of_citations = (
            self.select_claim(claims.get((citation.start, citation.end), ""), citation) for citation in citations
        )
        return {position: claim for position, claim in enumerate(of_citations) if claim is not None}

    def select_claim(self, claim: str, citation: Citation) -> CitedClaim | None:
        """Return the claim to ask the judge about; None if a judgment would add nothing."""
        if (self.skips_supported and citation.verdict == "supported") or not can_be_judged(citation, claim):
            return None
        titles = (source.title for source in self.sources if source.index == citation.source_index)
        return CitedClaim(claim=claim, quote=citation.quote, title=next(titles, ""))


@dataclass(frozen=True, slots=True)
class JudgedCitations:
    """The citations with their final verdicts, what the judge spent, and what failed.

    `has_failed` is True if the call failed or missed the deadline.
    """

    citations: tuple[Citation, ...]
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()
    has_failed: bool = False


async def judge_citations(
    judge_task: JudgeTask,
    answer: str,
    citations: tuple[Citation, ...],
    on_checked: OnChecked,
    known: Mapping[CitedClaim, ModelVerdict | None] = NOTHING_KNOWN,
) -> JudgedCitations:
    """Ask the judge about the citations of an answer in one call, except about copies of their source.

    - `known` are verdicts of calls that were made while the text was written.
    - `on_checked` is called with the citations before and after the call, unless there is nothing to judge.

    With `max_wait_share` there is no call: only known and stored verdicts are used.
    """
    asked = judge_task.select_claims(answer, citations)
    if not asked:
        return JudgedCitations(citations)
    known = {**await judge_task.judge.recall(judge_task.question, tuple(asked.values())), **known}
    verdicts = {position: known[claim] for position, claim in asked.items() if claim in known}
    positions = [position for position in asked if position not in verdicts and judge_task.max_wait_share is None]
    judged = NOTHING_JUDGED
    degraded: tuple[Degraded, ...] = ()
    if positions:
        on_checked(_apply_verdicts(citations, asked, verdicts), len(positions))
        judged, degraded = await ask_judge(judge_task, [asked[position] for position in positions])
        verdicts |= dict(zip(positions, judged.verdicts, strict=False))
    has_failed = bool(degraded)
    citations = _apply_verdicts(citations, asked, verdicts)
    on_checked(citations, 0)
    if missing := sum(verdict is None for verdict in verdicts.values()):
        reason = UNREADABLE if missing == len(asked) else INCOMPLETE.format(count=missing, all=len(asked))
        degraded = (*degraded, Degraded(component=judge_task.judge.name, reason=reason))
    return JudgedCitations(citations, judged.spent, (*judged.degraded, *degraded), has_failed)


def count_changed(citations: Iterable[Citation]) -> int:
    """Return the number of citations on which the judge and the word comparison disagree."""
    return sum(citation.checked_by == "model" and citation.verdict != citation.word_verdict for citation in citations)


def _apply_verdicts(
    citations: Sequence[Citation], asked: Mapping[int, CitedClaim], verdicts: Mapping[int, ModelVerdict | None]
) -> tuple[Citation, ...]:
    """Return the citations, with the verdict of the judge on those that have one."""
    return tuple(
        apply_model_verdict(citation, asked[position].claim, verdict)
        if (verdict := verdicts.get(position))
        else citation
        for position, citation in enumerate(citations)
    )


@stage("verify")
async def ask_judge(judge_task: JudgeTask, claims: Sequence[CitedClaim]) -> tuple[JudgedClaims, tuple[Degraded, ...]]:
    """Ask the judge, and return a verdict or None for each claim.

    If the judge fails or is late, there are no verdicts, and the second value says why.
    """
    name = judge_task.judge.name
    if judge_task.until - asyncio.get_running_loop().time() < MIN_JUDGING_S:
        return NOTHING_JUDGED, (Degraded(component=name, reason=LATE),)
    try:
        async with deadline_at(judge_task.until):
            judged = await judge_task.judge.judge(judge_task.question, claims)
    except TimeoutError:
        spent = Spending.of_unfinished_call(is_free=judge_task.judge.is_free)
        return JudgedClaims(verdicts=(), spent=spent), (Degraded(component=name, reason=LATE),)
    except AppException as error:
        spent = error.spent if isinstance(error, LLMException) else NOTHING_SPENT
        return JudgedClaims(verdicts=(), spent=spent), (Degraded.of(name, error),)
    missing = len(claims) - len(judged.verdicts)
    return judged.model_copy(update={"verdicts": (*judged.verdicts, *[None] * missing)[: len(claims)]}), ()
