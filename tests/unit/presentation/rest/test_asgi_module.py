"""The module for ASGI servers."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from fastapi import FastAPI

import shared.logging
from modules.llm_platform import asgi
from modules.llm_platform.presentation.rest.http.shutdown import RunningRequests, drain_on_signals


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clear the cached application, and do not configure logging."""
    monkeypatch.setattr(shared.logging, "configure_logging", lambda *arguments: None)
    asgi.make_app.cache_clear()
    yield
    asgi.make_app.cache_clear()


def test_app_is_created_once() -> None:
    """The first access creates the application."""
    assert isinstance(asgi.app, FastAPI)
    assert asgi.app is asgi.make_app()
    assert asgi.app.state.server.platform is None


def test_unknown_attribute_is_an_error() -> None:
    """An unknown attribute is an AttributeError."""
    with pytest.raises(AttributeError, match="application"):
        _ = asgi.application


def test_invalid_setting_exits_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the variable."""
    monkeypatch.setenv("LLM_PLATFORM_PORT", "not a port")
    with pytest.raises(SystemExit, match=r"^LLM_PLATFORM_PORT") as ended:
        asgi.make_app()
    assert "\n" not in str(ended.value)


def test_missing_extra_exits_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what to install."""
    monkeypatch.setitem(sys.modules, "modules.llm_platform.presentation.rest.app", None)
    with pytest.raises(SystemExit, match=r'pip install "llm-platform\[server\]"'):
        asgi.make_app()


async def test_application_in_a_program_leaves_its_signals_alone() -> None:
    """Only the handlers of uvicorn are replaced while it serves."""
    before = signal.getsignal(signal.SIGINT)
    with drain_on_signals(RunningRequests(), 1.0):
        assert signal.getsignal(signal.SIGINT) is before


def test_missing_package_of_rate_limits_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `pip install` line appears at the start, and not as an error of every request."""
    monkeypatch.delitem(sys.modules, "modules.llm_platform.infrastructure.limits.memory_rate_limiter", raising=False)
    for name in [name for name in sys.modules if name.startswith("throttled.")]:  # imported by another test
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "throttled", None)
    monkeypatch.setenv("RATE_LIMIT_PER_MINUTE", "60")
    with pytest.raises(SystemExit, match=r'The server needs throttled: pip install "llm-platform\[server\]"'):
        asgi.make_app()
