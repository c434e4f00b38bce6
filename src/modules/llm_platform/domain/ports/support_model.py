"""The port of support models: texts in, the log-odds that one supports or answers the other out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

ENGLISH: Final = "en"
# The support model reads claims in READ_LANGUAGES, in which it was measured, and questions and sentences in QUESTION_LANGUAGES.
READ_LANGUAGES: Final = frozenset({ENGLISH, "ar", "de", "es", "fr", "he", "ru", "zh"})
QUESTION_LANGUAGES: Final = READ_LANGUAGES | {"it", "ja", "nl", "pl", "pt"}

Task = Literal["support", "answer"]
"""What a score is about: whether a passage supports a claim, or whether a sentence answers a question."""


class ClaimToRead(NamedTuple):
    """A claim and what a support model reads beside it.

    - `quote` is the one to three sentences of the source that say most of the claim.
    - `passage` is usually the quote with further sentences of the source that share words with the claim. It may be the quote
      alone, or a part of a long one.

    All are on one line.
    """

    claim: str
    quote: str
    passage: str


class ISupportModel(ABC):
    """Reads whether a passage says what a claim says, and whether a sentence answers a question, in whatever words."""

    name: str = "custom"  # component name in `degraded`
    digest: str = ""  # of the weights: equal digests give equal verdicts

    @abstractmethod
    async def score(self, claims: Sequence[ClaimToRead], *, is_english: bool = True) -> list[float]:
        """Return the log-odds that the passage supports the claim, for each claim, in order.

        `is_english` is False if a claim or a passage may be in another language; the two may have different ones.
        Texts longer than the model reads are cut. Raises an AppException if the model cannot be loaded or run.
        """

    @abstractmethod
    async def score_answers(self, pairs: Sequence[tuple[str, str]], *, is_english: bool = True) -> list[float]:
        """Return the log-odds that the sentence answers the question, for each pair (question, sentence), as `score` does."""

    def begin_loading(self, task: Task = "support") -> None:
        """Load the weights of a task for English in the background. Safe to call often; errors are raised by `score`."""
        return
