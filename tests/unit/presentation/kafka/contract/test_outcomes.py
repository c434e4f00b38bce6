"""Failures of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain import exceptions
from modules.llm_platform.presentation.kafka.contract.outcomes import (
    OUTCOME_ERROR_CHARS,
    OUTCOME_TOO_LARGE,
    UNEXPECTED_ERROR,
    ErrorCode,
    describe_failure,
)
from modules.llm_platform.presentation.kafka.contract.requests import RequestError
from shared.exceptions import AppException


def _errors() -> Iterator[type[AppException]]:
    for name in dir(exceptions):
        found = getattr(exceptions, name)
        if isinstance(found, type) and issubclass(found, AppException):
            yield found


@for_each("error", list(_errors()))
def test_each_error_is_recoverable_as_it_says(error: type[AppException]) -> None:
    """The details have its code; an error that no stage of a worker raises is internal."""
    failure = describe_failure(error())
    assert failure.code in get_args(ErrorCode)
    assert failure.recoverable is error.retryable
    assert failure.message == error().message
    assert failure.details == {"cause": error.code}


@for_each(
    ("error", "code"),
    [
        (exceptions.ResearchTimeoutError(), "timeout"),
        (exceptions.LLMQuotaError(), "llm_failed"),
        (exceptions.EmbeddingError(), "embedding_failed"),
        (exceptions.EmbeddingConfigError(), "embedding_failed"),
        (exceptions.VectorStoreBusyError(), "retrieval_failed"),
        (exceptions.PageTimeoutError(), "retrieval_failed"),
        (exceptions.StoreError(), "internal"),
        (RequestError("query", "wrong_type"), "invalid_payload"),
    ],
)
def test_errors_of_a_kind_share_an_error_code(error: AppException | RequestError, code: ErrorCode) -> None:
    """The kind of an error is its class: a page is a URL of the context, so it belongs to retrieval."""
    assert describe_failure(error).code == code


def test_timeout_is_recoverable() -> None:
    """Another time it may be quicker."""
    failure = describe_failure(TimeoutError("who waited where"))
    assert (failure.code, failure.recoverable, failure.details) == ("timeout", True, {})
    assert "where" not in failure.message


def test_error_message_is_cut() -> None:
    """However much an error has to say."""
    assert len(describe_failure(AppException("long " * 1000)).message) == OUTCOME_ERROR_CHARS


@pytest.mark.parametrize("failure", [UNEXPECTED_ERROR, OUTCOME_TOO_LARGE])
def test_internal_failures_are_not_recoverable(failure: object) -> None:
    """The same request would end the same way."""
    assert (getattr(failure, "code", None), getattr(failure, "recoverable", None)) == ("internal", False)
