"""Every failure below us and every status above 299 becomes one error of ours."""

from __future__ import annotations

import ssl
from dataclasses import replace

import httpx2
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.exceptions import (
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMTimeoutError,
)
from modules.llm_platform.infrastructure.http.errors import TRANSPORT_ERRORS
from modules.llm_platform.infrastructure.models.kinds import LLMConnection, Variables
from modules.llm_platform.infrastructure.models.openai.errors import (
    KNOWN_ERROR_TYPES,
    make_status_error,
    make_transport_error,
    read_reported_error,
)

HERE = LLMConnection(name="n", kind="openai", model="m")


@for_each(
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
        (TimeoutError(), LLMTimeoutError),
    ],
)
def test_every_transport_error_is_translated(error: Exception, kind: type[LLMException]) -> None:
    """`TRANSPORT_ERRORS` contains it, and its class says what can be done."""
    assert isinstance(error, TRANSPORT_ERRORS)
    assert type(make_transport_error(HERE, error, "late")) is kind


def test_default_address_is_named() -> None:
    """A connection error names the address of the kind; of one that the operator has set, the setting alone."""
    ours = LLMConnection(name="ollama", kind="ollama", model="m", variables=Variables())
    theirs = replace(ours, base_url="http://me:secret@127.0.0.1:9/v1")
    error = httpx2.ConnectError("x")
    assert (
        "nothing answers at http://localhost:11434/v1 (LLM_BASE_URL);"
        in make_transport_error(ours, error, "late").message
    )
    assert "nothing answers at LLM_BASE_URL;" in make_transport_error(theirs, error, "late").message


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
    for failure in (make_status_error(HERE, status, body, {}), read_reported_error(HERE, body)):
        assert isinstance(failure, LLMException)
        assert failure.message.isascii()
        assert len(failure.message) < 200


@for_each("word", sorted(KNOWN_ERROR_TYPES))
def test_only_known_error_types_are_repeated(word: str) -> None:
    """Any other text of the service is not."""
    assert word in make_status_error(HERE, 500, {"error": {"type": word}}, {}).message
    assert (
        "shouting" not in make_status_error(HERE, 500, {"error": {"type": "shouting", "code": "shouting"}}, {}).message
    )
