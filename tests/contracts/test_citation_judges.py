"""Every judge of citations fulfils the contract of the port: the scripted one, the one with a model, and the cached
one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.citation_judge import CitationJudgeContract, FakeCitationJudge

from modules.llm_platform.application.research.check.judge import CachedCitationJudge, LLMCitationJudge
from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, JudgedClaims, ModelVerdict
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.testing import FakeLLM

ROWS = '[[1, "supported"], [2, "unsupported"]]'
LONG_S = 30.0


def only_the_first(claim: CitedClaim) -> ModelVerdict:
    return "supported" if claim == CitationJudgeContract.CLAIMS[0] else "unsupported"


class TestFakeCitationJudge(CitationJudgeContract):
    @pytest.fixture
    def judge(self) -> FakeCitationJudge:
        return FakeCitationJudge(only_the_first)

    @pytest.fixture
    def broken(self) -> FakeCitationJudge:
        return FakeCitationJudge(error=LLMConnectionError())

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[JudgedClaims]]:
        return lambda: FakeCitationJudge(delay_s=LONG_S).judge(self.QUESTION, self.CLAIMS)


class TestLLMCitationJudge(CitationJudgeContract):
    @pytest.fixture
    def judge(self) -> LLMCitationJudge:
        return LLMCitationJudge(FakeLLM([ROWS]))

    @pytest.fixture
    def broken(self) -> LLMCitationJudge:
        return LLMCitationJudge(FakeLLM([LLMConnectionError()]))

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[JudgedClaims]]:
        return lambda: LLMCitationJudge(FakeLLM([ROWS], delay_s=LONG_S)).judge(self.QUESTION, self.CLAIMS)


class TestCachedCitationJudge(CitationJudgeContract):
    @pytest.fixture
    def judge(self) -> CachedCitationJudge:
        return CachedCitationJudge(FakeCitationJudge(only_the_first), MemoryCache(10), ttl_s=60)

    @pytest.fixture
    def broken(self) -> CachedCitationJudge:
        return CachedCitationJudge(FakeCitationJudge(error=LLMConnectionError()), MemoryCache(10), ttl_s=60)

    @pytest.fixture
    def slow(self) -> Callable[[], Awaitable[JudgedClaims]]:
        slow = CachedCitationJudge(FakeCitationJudge(delay_s=LONG_S), MemoryCache(10), ttl_s=60)
        return lambda: slow.judge(self.QUESTION, self.CLAIMS)

    async def test_verdicts_are_cached(self) -> None:
        """The same claims of the same question cost nothing; another question is judged."""
        fake = FakeCitationJudge(spent=Spending(calls=1, prompt_tokens=100))
        judge = CachedCitationJudge(fake, MemoryCache(10), ttl_s=60)
        first = await judge.judge(self.QUESTION, self.CLAIMS)
        again = await judge.judge(self.QUESTION, self.CLAIMS)
        assert (first.spent.calls, again.spent.calls) == (1, 0)
        await judge.judge("Who may renew it?", self.CLAIMS)
        assert len(fake.calls) == 2

    async def test_an_unreadable_answer_is_paid_once(self) -> None:
        """A model is not asked again after an unreadable answer, nor after a readable one."""
        for content in ("I cannot say.", '[[1, "supported"]]'):
            model = FakeLLM([content])
            judge = CachedCitationJudge(LLMCitationJudge(model), MemoryCache(10), ttl_s=60)
            first = await judge.judge(self.QUESTION, self.CLAIMS)
            again = await judge.judge(self.QUESTION, self.CLAIMS)
            assert (len(model.requests), first.spent.calls, again.spent.calls) == (1, 1, 0)
            assert again.verdicts == first.verdicts

    async def test_missing_verdicts_after_a_failure_are_not_cached(self) -> None:
        """A model that failed before this answer may return verdicts the next time."""
        failed = Degraded(component="openai", reason="llm_connection: the connection was refused")
        fake = FakeCitationJudge(lambda claim: None, degraded=(failed,))
        judge = CachedCitationJudge(fake, MemoryCache(10), ttl_s=60)
        await judge.judge(self.QUESTION, self.CLAIMS)
        await judge.judge(self.QUESTION, self.CLAIMS)
        assert len(fake.calls) == 2

    @pytest.mark.parametrize("verdict", ["supported", None])
    async def test_no_claim_is_judged_twice(self, verdict: ModelVerdict | None) -> None:
        """This holds for any other claims in the request, and after an unreadable answer, because the next one would be
        unreadable too.
        """
        fake = FakeCitationJudge(lambda claim: verdict)
        judge = CachedCitationJudge(fake, MemoryCache(10), ttl_s=60)
        assert await judge.recall(self.QUESTION, self.CLAIMS) == {}
        first = await judge.judge(self.QUESTION, self.CLAIMS[:1])
        again = await judge.judge(self.QUESTION, self.CLAIMS)
        await judge.judge(self.QUESTION, self.CLAIMS)
        assert fake.calls == [tuple(self.CLAIMS[:1]), tuple(self.CLAIMS[1:])]
        assert again.verdicts[:1] == first.verdicts == (verdict,)
        assert await judge.recall(self.QUESTION, self.CLAIMS) == dict.fromkeys(self.CLAIMS, verdict)
