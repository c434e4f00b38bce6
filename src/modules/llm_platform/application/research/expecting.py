"""How many calls are still to come, so that the budget keeps what the more important ones need."""

from __future__ import annotations

from modules.llm_platform.application.research.budget import Budget


class Expecting:
    """Counts what an exploration knows of its own future: sub-questions without queries, batches without ranks."""

    def __init__(self, budget: Budget, queries_each: int) -> None:
        self._budget = budget
        self._queries_each = queries_each
        self._questions = 0
        self._batches = 0

    def questions(self, change: int) -> None:
        """So many more sub-questions (or fewer) wait for their queries."""
        self._questions += change
        self._tell()

    def batches(self, change: int) -> None:
        """So many more batches of results (or fewer) wait for their ranks."""
        self._batches += change
        self._tell()

    def nothing(self) -> None:
        """The exploration is over, whatever it had still in mind."""
        self._questions = self._batches = 0
        self._tell()

    def _tell(self) -> None:
        self._budget.expect("queries", self._questions)
        self._budget.expect("rank", self._batches + self._questions * self._queries_each)
