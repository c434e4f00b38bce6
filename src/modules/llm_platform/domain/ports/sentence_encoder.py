"""The port of sentence encoders: how near sentences are to a question by their meaning, in any language."""

from abc import ABC, abstractmethod
from collections.abc import Sequence


class ISentenceEncoder(ABC):
    """Compares a question with many sentences by vectors, which needs no word in common."""

    name: str = "custom"  # component name in `degraded`

    @abstractmethod
    async def measure_closeness(
        self, question: str, sentences: Sequence[str], *, is_english: bool = False
    ) -> list[float]:
        """Return the cosine of the vectors of the question and of each sentence, -1 to 1, in order.

        `is_english` says that all texts are English, so that an encoder may use a model for this language. Cosines of two
        models cannot be compared. Texts longer than the encoder reads are cut; a text without a letter or figure has 0. Raises
        an AppException if the encoder cannot be loaded or run.
        """

    async def find_nearest(self, question: str, sentences: Sequence[str], count: int) -> list[int]:
        """Return the indices of the `count` sentences that are nearest by vectors that take little time, in any order.

        Return an empty list without such vectors.
        """
        return []

    async def list_unknown_words(self, words: Sequence[str]) -> list[str]:
        """Return the lower-case words that the English vocabulary lacks: misspelled and rare ones. Empty without one.

        Raises an AppException if the vocabulary cannot be loaded.
        """
        return []

    def begin_loading(self, *, is_english: bool = False) -> None:
        """Load the weights in the background. Safe to call often; errors are raised by `measure_closeness`."""
        return
