"""Failures of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.presentation.kafka.contract.outcomes import (
    MAX_ERROR_CHARS,
    OUTCOME_TOO_LARGE,
    UNEXPECTED_ERROR,
    ErrorCode,
    failure_of,
)
from modules.llm_platform.presentation.kafka.contract.requests import RequestError
from shared.exceptions import AppException


def _errors() -> Iterator[type[AppException]]:
    for name in dir(exceptions):
        found = getattr(exceptions, name)
        if isinstance(found, type) and issubclass(found, AppException):
            yield found


def _expected(error: type[AppException]) -> str:
    name = error.__name__
    if name == "ResearchTimeoutError":
        return "timeout"
    if issubclass(error, LLMException):
        return "llm_failed"
    if name.startswith("Embedding"):
        return "embedding_failed"
    if name.startswith(("VectorStore", "Page")):
        return "retrieval_failed"
    return "internal"  # no stage of a worker raises it


@pytest.mark.parametrize("error", list(_errors()), ids=lambda error: error.__name__)
def test_each_error_has_its_error_code(error: type[AppException]) -> None:
    """It is recoverable as the error says; the details have its code."""
    failure = failure_of(error())
    assert failure.code == _expected(error)
    assert failure.recoverable is error.retryable
    assert failure.message == error().message
    assert failure.details == {"cause": error.code}


def test_all_error_codes_are_used() -> None:
    """The six of the contract."""
    codes = {_expected(error) for error in _errors()} | {failure_of(RequestError("query", "wrong_type")).code}
    assert codes == set(get_args(ErrorCode))


def test_timeout_is_recoverable() -> None:
    """Another time it may be quicker."""
    failure = failure_of(TimeoutError("who waited where"))
    assert (failure.code, failure.recoverable, failure.details) == ("timeout", True, {})
    assert "where" not in failure.message


def test_error_message_is_cut() -> None:
    """However much an error has to say."""
    assert len(failure_of(AppException("long " * 1000)).message) == MAX_ERROR_CHARS


@pytest.mark.parametrize("failure", [UNEXPECTED_ERROR, OUTCOME_TOO_LARGE])
def test_internal_failures_are_not_recoverable(failure: object) -> None:
    """The same request would end the same way."""
    assert (getattr(failure, "code", None), getattr(failure, "recoverable", None)) == ("internal", False)
