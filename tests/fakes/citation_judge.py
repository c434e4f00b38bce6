"""A fake citation judge, and the contract of `ICitationJudge`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, JudgedClaims, ModelVerdict
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.testing.waiting import error_of, is_cancelled_promptly
from shared.exceptions import AppException


class FakeCitationJudge(ICitationJudge):
    """Returns `verdict` for every claim, or the result of `verdict(claim)`.

    `error` is raised instead. `delay_s`: seconds before each result. `calls` records the claims.
    """

    def __init__(
        self,
        verdict: ModelVerdict | Callable[[CitedClaim], ModelVerdict | None] = "supported",
        *,
        name: str = "judge/fake",
        error: AppException | None = None,
        delay_s: float = 0.0,
        spent: Spending = NOTHING_SPENT,
        degraded: tuple[Degraded, ...] = (),
    ) -> None:
        self.name = name
        self.calls: list[tuple[CitedClaim, ...]] = []
        self._verdict = verdict
        self._error = error
        self._delay_s = delay_s
        self._spent = spent
        self._degraded = degraded

    async def judge(self, question: str, claims: Sequence[CitedClaim]) -> JudgedClaims:
        if not claims:
            return JudgedClaims(verdicts=())
        self.calls.append(tuple(claims))
        await asyncio.sleep(self._delay_s)
        if self._error is not None:
            raise self._error
        verdicts = tuple(self._verdict(claim) if callable(self._verdict) else self._verdict for claim in claims)
        return JudgedClaims(verdicts=verdicts, spent=self._spent, degraded=self._degraded)


class CitationJudgeContract:
    """Subclass it and add these fixtures.

    judge: its verdicts for `CLAIMS` are supported and unsupported · broken: raises an error · slow: a function that starts a
    verification of several seconds.
    """

    QUESTION = "How long does a session token stay valid, and who may renew it?"
    CLAIMS = (
        CitedClaim(
            claim="A token can be used for half an hour after the last request.",
            quote="A session token stays valid for thirty minutes after the last request.",
            title="Sessions",
        ),
        CitedClaim(
            claim="Guests may renew a token.",
            quote="Only the owner of an account may renew a session token. Guests have to sign in again.",
            title="Roles",
        ),
    )

    async def test_verdicts_are_in_the_order_of_the_claims(self, judge: ICitationJudge) -> None:
        """There is one verdict per claim, in order."""
        judged = await judge.judge(self.QUESTION, self.CLAIMS)
        assert judged.verdicts == ("supported", "unsupported")

    async def test_verdicts_are_repeatable(self, judge: ICitationJudge) -> None:
        """A second call returns the same verdicts."""
        first = await judge.judge(self.QUESTION, self.CLAIMS)
        again = await judge.judge(self.QUESTION, self.CLAIMS)
        assert again.verdicts == first.verdicts

    async def test_no_claims_spend_nothing(self, judge: ICitationJudge) -> None:
        """Without claims there are no verdicts and no calls."""
        judged = await judge.judge(self.QUESTION, ())
        assert judged.verdicts == ()
        assert judged.spent.calls == 0

    async def test_failure_raises_an_error(self, broken: ICitationJudge) -> None:
        """A failure is an AppException, never an empty result."""
        await error_of(broken.judge(self.QUESTION, self.CLAIMS), AppException)

    async def test_judge_has_name_and_version(self, judge: ICitationJudge) -> None:
        """The name is used in `degraded`, the version in cache keys."""
        assert judge.name
        assert isinstance(judge.version, str)

    async def test_cancelled_verification_ends_promptly(self, slow: Callable[[], Awaitable[JudgedClaims]]) -> None:
        """A cancelled verification ends promptly."""
        task = asyncio.ensure_future(slow())
        await asyncio.sleep(0.01)
        assert not task.done()
        assert await is_cancelled_promptly(task)
