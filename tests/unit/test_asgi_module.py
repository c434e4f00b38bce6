"""What an ASGI server gets when it asks for the application."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from fastapi import FastAPI

import shared.logging
from modules.llm_platform import asgi


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No application of another test, and nobody's logging is changed."""
    monkeypatch.setattr(shared.logging, "configure_logging", lambda *arguments: None)
    asgi.make_app.cache_clear()
    yield
    asgi.make_app.cache_clear()


def test_one_application() -> None:
    """It is made when it is asked for, and the same one each time."""
    assert isinstance(asgi.app, FastAPI)
    assert asgi.app is asgi.make_app()
    assert asgi.app.state.door.platform is None


def test_no_other_names() -> None:
    """A name that does not exist is an ordinary AttributeError."""
    with pytest.raises(AttributeError, match="application"):
        _ = asgi.application


def test_a_wrong_setting_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the variable's name, nothing else."""
    monkeypatch.setenv("LLM_PLATFORM_PORT", "not a port")
    with pytest.raises(SystemExit, match=r"^LLM_PLATFORM_PORT") as ended:
        asgi.make_app()
    assert "\n" not in str(ended.value)


def test_a_missing_extra_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the server's packages the line says what to install."""
    monkeypatch.setitem(sys.modules, "modules.llm_platform.presentation.rest.app", None)
    with pytest.raises(SystemExit, match=r'pip install "llm-platform\[server\]"'):
        asgi.make_app()
