"""Every failure below us and every status above 299 becomes one error of ours."""

from __future__ import annotations

import ssl
import sys
import types

import anyio
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.exceptions import (
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMTimeoutError,
)
from modules.llm_platform.infrastructure.llm.errors import (
    KNOWN_ERROR_TYPES,
    library_errors,
    reported_error,
    status_error,
    translate_error,
)
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection

HERE = LLMConnection(name="n", kind="openai", model="m")
REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1")


def _caused(cause: Exception) -> openai.APIConnectionError:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx2.ConnectError("x"), LLMConnectionError),
        (httpx2.ReadError("x"), LLMConnectionError),
        (httpx2.RemoteProtocolError("x"), LLMConnectionError),
        (httpx2.ConnectTimeout("x"), LLMTimeoutError),
        (httpx2.ReadTimeout("x"), LLMTimeoutError),
        (httpx2.PoolTimeout("x"), LLMTimeoutError),
        (httpx2.UnsupportedProtocol("x"), LLMConfigError),
        (httpx2.InvalidURL("x"), LLMConfigError),
        (httpx2.LocalProtocolError("x"), LLMConfigError),
        (httpx2.DecodingError("x"), LLMProviderException),
        (ssl.SSLError("x"), LLMConnectionError),
        (ConnectionResetError("x"), LLMConnectionError),
        (anyio.EndOfStream(), LLMConnectionError),
        (_caused(httpx2.ConnectError("x")), LLMConnectionError),
        (_caused(ssl.SSLError("x")), LLMConnectionError),
        (openai.APITimeoutError(request=REQUEST), LLMConnectionError),
        (_caused(httpx2.ReadTimeout("x")), LLMTimeoutError),
        (openai.OpenAIError("x"), LLMConnectionError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_every_library_error_is_translated(error: Exception, kind: type[LLMException]) -> None:
    """`library_errors` contains it, and its class says what can be done."""
    assert isinstance(error, library_errors())
    assert type(translate_error(error, HERE)) is kind


def test_every_openai_error_is_translated() -> None:
    """Classes of later versions too."""
    kinds = [
        each
        for each in (getattr(openai, name) for name in openai.__all__)
        if isinstance(each, type) and issubclass(each, openai.OpenAIError)
    ]
    assert len(kinds) > 10
    assert all(issubclass(kind, library_errors()) for kind in kinds)


@given(
    st.integers(300, 599),
    st.recursive(
        st.none() | st.text() | st.integers() | st.booleans(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["error", "message", "type", "code", "status", "detail"]), inner)
        ),
    ),
)
def test_any_status_with_any_body_is_translated(status: int, body: object) -> None:
    """No body breaks the translation."""
    for failure in (status_error(HERE, status, body, {}), reported_error(HERE, body)):
        assert isinstance(failure, LLMException)
        assert failure.message.isascii()
        assert len(failure.message) < 200


@pytest.mark.parametrize("word", sorted(KNOWN_ERROR_TYPES))
def test_only_known_error_types_are_repeated(word: str) -> None:
    """Any other text of the service is not."""
    assert word in status_error(HERE, 500, {"error": {"type": word}}, {}).message
    assert "shouting" not in status_error(HERE, 500, {"error": {"type": "shouting", "code": "shouting"}}, {}).message


@pytest.mark.parametrize("module", ["openai", "anyio"])
def test_a_partly_imported_package_is_ignored(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be importing it."""
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    assert {httpx2.HTTPError, OSError} <= set(library_errors())
