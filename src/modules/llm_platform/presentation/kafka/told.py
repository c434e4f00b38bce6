"""What the brokers say when they are asked, or that they do not."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from confluent_kafka import KafkaException

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class NotTold:
    """`code` is that of a KafkaError, None where there was no answer at all; `why` its name."""

    code: int | None
    why: str

    @property
    def words(self) -> str:
        return f"could not be found out: the brokers do not say ({self.why})"


NOT_KEPT: Final = NotTold(None, "they keep no rights")


def told(answer: Future[Result], within_s: float) -> Result | NotTold:
    """The answer, or why there is none."""
    try:
        return answer.result(within_s)
    except KafkaException as error:
        return NotTold(error.args[0].code(), error.args[0].name())
    except TimeoutError:
        return NotTold(None, "no answer")
