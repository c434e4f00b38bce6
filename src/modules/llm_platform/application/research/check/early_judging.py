"""Ask the judge about doubted sentences while the answer is still being written, so that the reader waits less."""

import asyncio
from collections.abc import Iterable, Sequence

from modules.llm_platform.application.research.check.judge_task import JudgeTask, ask_judge
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.citation_dtos import Citation, CitedClaim, ModelVerdict
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending

MAX_EARLY_CALLS = 3  # Each call repeats the rules, about 350 tokens.


class EarlyJudging:
    """Judges citations while the answer is written.

    It makes at most MAX_EARLY_CALLS calls, one at a time. Each call is about the doubted sentences that are complete by then.
    After a failed call, there are no more calls.

    `verdicts` maps a claim with its quote to the verdict. If a page that is read late changes the quote, the old verdict does
    not apply. The judge is not asked again about the claims of a cancelled call: a cached answer leaves no time for a call, so
    each repeat of its question would pay for another cancelled call.
    """

    def __init__(self, judge_task: JudgeTask) -> None:
        self._judge_task, self._question = judge_task, judge_task.question
        self._began = asyncio.get_running_loop().time()
        self._waiting: list[CitedClaim] = []
        self._asked: list[CitedClaim] = []  # claims that the running call verifies
        self._task: asyncio.Task[None] | None = None
        self._calls = 0
        self.verdicts: dict[CitedClaim, ModelVerdict | None] = {}
        self.spent = NOTHING_SPENT
        self.degraded: tuple[Degraded, ...] = ()

    def add(self, checked: Iterable[tuple[str, Citation]]) -> None:
        """Take further sentences with their citations, and start a call if none is running."""
        claims = (self._judge_task.select_claim(claim, citation) for claim, citation in checked)
        self._waiting += [
            claim
            for claim in claims
            if claim is not None
            and claim not in self.verdicts
            and (self._question, claim) not in self._judge_task.late_claims
        ]
        is_idle = self._task is None or self._task.done()
        if self._waiting and is_idle and self._calls < MAX_EARLY_CALLS and not self.degraded:
            self._asked, self._waiting = list(dict.fromkeys(self._waiting)), []
            self._calls += 1
            self._task = asyncio.create_task(self._ask(self._asked))

    def discard(self) -> None:
        """Forget the waiting sentences, because their text was discarded."""
        self._waiting.clear()

    async def finish(self) -> None:
        """Wait for the running call at most `max_wait_share` of the time so far, then cancel it."""
        share = self._judge_task.max_wait_share
        if self._task is not None and share is not None:
            elapsed = asyncio.get_running_loop().time() - self._began
            await asyncio.wait((self._task,), timeout=share * elapsed)
            if not self._task.done():
                late = (*self._asked, *self._waiting)
                self._judge_task.late_claims.update({(self._question, claim): True for claim in late})
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the running call. It counts as a call."""
        # Drop the reference to the task first: the traceback of a cancelled task would keep this object and its sources alive.
        task, self._task = self._task, None
        if task is not None and not task.done():
            await cancel_and_wait(task)
            self.spent += Spending.of_unfinished_call(is_free=self._judge_task.judge.is_free)

    async def _ask(self, claims: Sequence[CitedClaim]) -> None:
        judged, degraded = await ask_judge(self._judge_task, claims)
        if not degraded:
            self.verdicts |= dict(zip(claims, judged.verdicts, strict=True))
        self.spent += judged.spent
        self.degraded += (*judged.degraded, *degraded)
