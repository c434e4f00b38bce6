"""From what went wrong to what its sender is told (rag-core.md §§4.5, 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMUnavailableError,
    OutcomeStoreError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
    ResearchTimeoutError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.presentation.kafka.request_error import WHOLE_MESSAGE, RequestError
from shared.exceptions import AppException

ErrorCode = Literal["invalid_payload", "embedding_failed", "retrieval_failed", "llm_failed", "timeout", "internal"]
DependencyName = Literal["index", "embedder", "model", "outcomes"]  # what a request needs

MAX_MESSAGE_CHARS: Final = 500
# What an operator has to mend: such a failure is no outcome.
MUST_MEND: Final = (LLMConfigError, EmbeddingConfigError, VectorStoreConfigError, OutcomeStoreError)

# Most specific first. A page is an address of the context that cannot be read: a part of retrieval.
CODES: Final[tuple[tuple[tuple[type[AppException], ...], ErrorCode], ...]] = (
    ((ResearchTimeoutError,), "timeout"),
    ((EmbeddingError, EmbeddingConfigError), "embedding_failed"),
    ((VectorStoreError, VectorStoreConfigError), "retrieval_failed"),
    ((PageRequestError, PageConfigError, PageConnectionError, PageError), "retrieval_failed"),
    ((LLMException,), "llm_failed"),
)

DEPENDENCIES: Final[tuple[tuple[tuple[type[AppException], ...], DependencyName], ...]] = (
    ((EmbeddingError, EmbeddingConfigError), "embedder"),
    ((VectorStoreError, VectorStoreConfigError), "index"),
    ((LLMConfigError, LLMConnectionError, LLMUnavailableError), "model"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failure says. `recoverable`: the same request under a new id may succeed. `dependency`: what failed beneath;
    `must_mend`: by a cause that only the operator can mend, unless the request itself brought it about.
    """

    code: ErrorCode
    recoverable: bool
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    dependency: DependencyName | None = None
    must_mend: bool = False


OUTCOME_TOO_LARGE: Final = Failure(
    "internal",
    False,
    "the outcome is longer than its topic takes: ask for fewer documents, or send less metadata",
    {"field": WHOLE_MESSAGE, "reason": "outcome_too_large"},
)


UNFORESEEN: Final = Failure("internal", False, "this should not have happened: the log of the worker says more")


def failure_of(error: RequestError | AppException | TimeoutError) -> Failure:
    """The failure that an error stands for."""
    if isinstance(error, RequestError):
        return Failure("invalid_payload", False, str(error), error.details())
    if isinstance(error, TimeoutError):
        return Failure("timeout", True, "there was no outcome before the deadline: try again under a new id")
    code: ErrorCode = next((code for kinds, code in CODES if isinstance(error, kinds)), "internal")
    return Failure(
        code, error.retryable, error.message[:MAX_MESSAGE_CHARS], {"cause": error.code},
        dependency=next((name for kinds, name in DEPENDENCIES if isinstance(error, kinds)), None),
        must_mend=isinstance(error, MUST_MEND),
    )  # fmt: skip
