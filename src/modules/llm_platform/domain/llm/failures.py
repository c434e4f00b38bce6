"""Record failures before an answer: of models before the next model, and of writers before the next writer."""

from dataclasses import dataclass, field
from typing import TypeVar

from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse, Spending
from modules.llm_platform.domain.exceptions import LLMException
from shared.exceptions import AppException

Answer = TypeVar("Answer", LLMResponse, Synthesis)


@dataclass(slots=True)
class Failures:
    """The failed calls of one request, and what they spent."""

    errors: list[AppException] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    spent: Spending = field(default_factory=Spending)

    def add(self, name: str, error: AppException) -> None:
        self.errors.append(error)
        self.degraded.append(Degraded.of(name, error))
        if isinstance(error, LLMException):
            self.spent += error.spent

    def add_to_answer(self, answer: Answer, skipped: tuple[Degraded, ...] = ()) -> Answer:
        """Return the answer with the cost of all calls; `degraded` lists what was skipped, and the failures."""
        before: tuple[Degraded, ...] = (*skipped, *self.degraded)
        return answer.after(self.spent, before) if before else answer

    def last_error(self) -> AppException:
        """Return the last error; one of a language model carries what all calls spent."""
        error = self.errors[-1]
        if isinstance(error, LLMException):
            error.spent = self.spent
        return error
