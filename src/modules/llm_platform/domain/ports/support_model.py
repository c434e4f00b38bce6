"""The port of support models: claims and passages in, the log-odds of support out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence


class ISupportModel(ABC):
    """Reads whether a passage says what a claim says, in whatever words."""

    name: str = "custom"  # component name in `degraded`

    @abstractmethod
    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the log-odds that the passage supports the claim, for each pair (claim, passage), in order.

        Texts longer than the model reads are cut. Raises an AppException if the model cannot be loaded or run.
        """

    def begin_loading(self) -> None:
        """Load the weights in the background. Safe to call often; errors are raised by `score`."""
        return
