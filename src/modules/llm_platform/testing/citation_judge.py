"""A scripted judge of citations, and the promises of `ICitationJudge` as tests that every judge's suite subclasses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import CitedClaim, JudgedClaims, ModelVerdict
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.testing.patience import RETURNS_WITHIN_S
from shared.exceptions import AppException


class FakeCitationJudge(ICitationJudge):
    """Gives every claim the verdict that `verdict` has for it: one word for all, or a function of the claim.

    `error` is raised instead. `delay_s` passes before it answers. `calls` keeps what was asked.
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
        verdicts = tuple(self._verdict(each) if callable(self._verdict) else self._verdict for each in claims)
        return JudgedClaims(verdicts=verdicts, spent=self._spent, degraded=self._degraded)


class CitationJudgeContract:
    """Subclass, give these fixtures, and the port's promises are checked.

    judge: calls the first of `CLAIMS` supported and the second unsupported · broken: cannot judge · slow: starts a judging
    that takes seconds.
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

    async def test_each_claim_has_its_place(self, judge: ICitationJudge) -> None:
        """There is one verdict for each claim, in their order."""
        said = await judge.judge(self.QUESTION, self.CLAIMS)
        assert said.verdicts == ("supported", "unsupported")

    async def test_the_same_claims_have_the_same_verdicts(self, judge: ICitationJudge) -> None:
        """A judge that is asked again says the same."""
        first = await judge.judge(self.QUESTION, self.CLAIMS)
        again = await judge.judge(self.QUESTION, self.CLAIMS)
        assert again.verdicts == first.verdicts

    async def test_no_claims_cost_nothing(self, judge: ICitationJudge) -> None:
        """Without claims there are no verdicts, and nothing is spent."""
        said = await judge.judge(self.QUESTION, ())
        assert said.verdicts == ()
        assert said.spent.calls == 0

    async def test_a_failure_is_an_error(self, broken: ICitationJudge) -> None:
        """Who cannot judge raises one of our errors: no verdicts would look like an answer."""
        try:
            await broken.judge(self.QUESTION, self.CLAIMS)
        except AppException:
            return
        raise AssertionError("a judge that cannot judge must raise")

    async def test_it_signs_what_it_says(self, judge: ICitationJudge) -> None:
        """It has a name for `degraded`, and a version for the keys of what is kept."""
        assert judge.name
        assert isinstance(judge.version, str)

    async def test_cancelling_is_prompt(self, slow: Callable[[], Awaitable[JudgedClaims]]) -> None:
        """A cancelled judge is gone at once, whatever it waits for."""
        task = asyncio.ensure_future(slow())
        await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=RETURNS_WITHIN_S)
        assert done, "a cancelled judge must return"
        assert task.cancelled()
