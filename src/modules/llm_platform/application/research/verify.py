"""Let a judge look at the citations of an answer after its words were compared; where it cannot, their verdicts stay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from modules.llm_platform.domain.citations import CheckedAnswer
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import Citation, CitedClaim, JudgedClaims, Source
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.judged_citations import can_be_judged, claims_of, judged
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from shared.exceptions import AppException

MIN_JUDGING_S: Final = 1.0  # with less time left a call would be paid for and not waited for
LATE: Final = "timeout: the verdicts are those of the words, since no time was left to verify them"
UNREADABLE: Final = "llm_provider: its answer held no verdicts; those of the words stay"
INCOMPLETE: Final = "incomplete: {count} of {all} citations were not judged and keep the verdict of the words"


@dataclass(frozen=True, slots=True)
class Verification:
    """Who judges the citations of an answer, and until when (event loop time)."""

    judge: ICitationJudge
    until: float


@dataclass(frozen=True, slots=True)
class Verified:
    """The citations with their final verdicts, what that cost, and what went wrong."""

    checked: CheckedAnswer
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


async def verify(
    by: Verification, question: str, answer: str, language: str, sources: Sequence[Source], checked: CheckedAnswer
) -> Verified:
    """Ask the judge about all citations of the answer at once; about none whose source has its very words."""
    claims = claims_of(answer, language) if checked.citations else {}
    of_citation = [claims.get((each.start, each.end), "") for each in checked.citations]
    places = [n for n, each in enumerate(checked.citations) if can_be_judged(each, of_citation[n])]
    if not places:
        return Verified(checked)
    titles = {source.index: source.title for source in sources}
    asked = [_cited_claim(checked.citations[n], of_citation[n], titles) for n in places]
    said, degraded = await _asked(by, question, asked)
    verdicts = dict(zip(places, said.verdicts, strict=False))
    citations = tuple(
        judged(each, of_citation[n], verdict) if (verdict := verdicts.get(n)) is not None else each
        for n, each in enumerate(checked.citations)
    )
    return Verified(replace(checked, citations=citations), said.spent, (*said.degraded, *degraded))


def _cited_claim(citation: Citation, claim: str, titles: dict[int, str]) -> CitedClaim:
    return CitedClaim(claim=claim, quote=citation.quote, title=titles.get(citation.source_index, ""))


async def _asked(
    by: Verification, question: str, claims: Sequence[CitedClaim]
) -> tuple[JudgedClaims, tuple[Degraded, ...]]:
    """What the judge says, nothing where it is late or fails; and a word for `degraded` where a verdict is missing."""
    if by.until - asyncio.get_running_loop().time() < MIN_JUDGING_S:
        return JudgedClaims(verdicts=()), (Degraded(component=by.judge.name, reason=LATE),)
    try:
        async with asyncio.timeout_at(by.until):
            said = await by.judge.judge(question, claims)
    except TimeoutError:  # it may have answered, but nobody will ever tell how much
        return JudgedClaims(verdicts=(), spent=Spending(calls=1)), (Degraded(component=by.judge.name, reason=LATE),)
    except AppException as error:
        spent = error.spent if isinstance(error, LLMException) else NOTHING_SPENT
        return JudgedClaims(verdicts=(), spent=spent), (Degraded.of(by.judge.name, error),)
    missing = len(claims) - sum(verdict is not None for verdict in said.verdicts[: len(claims)])
    if not missing:
        return said, ()
    reason = UNREADABLE if missing == len(claims) else INCOMPLETE.format(count=missing, all=len(claims))
    return said, (Degraded(component=by.judge.name, reason=reason),)
