"""The port of citation judges: claims and their quotes in, a verdict on each out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, JudgedClaims, ModelVerdict


class ICitationJudge(ABC):
    """Decides by meaning whether a quote supports a claim, after the word comparison."""

    name: str = "custom"  # component name in `degraded`
    is_free: bool = False  # True if every call costs nothing
    version: str = ""  # version of its prompt or rules: a stored verdict of another version is not used

    @abstractmethod
    async def judge(self, question: str, claims: Sequence[CitedClaim]) -> JudgedClaims:
        """Return one verdict for each claim, in order; None without a verdict. Without claims no call is made.

        `claims` are in the order of the answer to `question`. The verdicts are not trusted: callers limit what they
        change. Raises an AppException if no claim could be judged; an LLMException reports the spending.
        """

    async def recall(self, question: str, claims: Sequence[CitedClaim]) -> Mapping[CitedClaim, ModelVerdict | None]:
        """Return the verdicts of earlier calls on these claims, which cost nothing; None for a claim without a verdict.

        A judge that stores no verdicts returns none.
        """
        return {}
