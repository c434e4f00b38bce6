"""The entry point: it hands the real wiring to the commands, and leaves."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from modules.llm_platform import __main__ as entry
from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.cli import main
from modules.llm_platform.presentation.cli.setup import Wiring
from modules.llm_platform.presentation.rest import server
from shared.config import Settings


def wiring_of(monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Callable[[], Wiring]:
    """`main` with a command line that does nothing; gives the wiring that it was handed."""
    handed: list[Wiring] = []

    def run(arguments: object, wiring: Wiring) -> int:
        handed.append(wiring)
        return code

    monkeypatch.setattr(main, "run", run)
    return lambda: handed[0]


def test_wiring_is_that_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Platform, provider order and models come from the settings that the command loaded."""
    wiring = wiring_of(monkeypatch)
    with pytest.raises(SystemExit):
        entry.main()
    offline = Settings(LLM_PLATFORM_OFFLINE=True)
    assert wiring().search_order(offline) == ()
    assert wiring().search_order(Settings(DOCUMENTS_DIR=tmp_path)) == ("documents",)
    assert not wiring().has_model(offline)
    assert wiring().has_model(Settings(KIMI_API_KEY="sk-kimi-0123456789"))
    platform = wiring().build_platform(Settings(DOCUMENTS_DIR=tmp_path))
    assert isinstance(platform, LLMPlatform)
    asyncio.run(platform.aclose())


def test_server_builds_its_own_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` starts logging and hands the server a way to build the platform, not a built one."""
    served: list[tuple[Callable[[], LLMPlatform], Settings]] = []
    monkeypatch.setattr(server, "serve", lambda build, settings: served.append((build, settings)))
    wiring = wiring_of(monkeypatch)
    with pytest.raises(SystemExit):
        entry.main()
    settings = Settings(DOCUMENTS_DIR=tmp_path)
    wiring().serve(settings)
    ((build, settings_used),) = served
    assert settings_used is settings
    platform = build()
    assert isinstance(platform, LLMPlatform)
    asyncio.run(platform.aclose())


@pytest.mark.parametrize("code", [0, 2, 130])
def test_exit_code_is_that_of_the_command(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code of the command is the exit code of the process."""
    wiring_of(monkeypatch, code)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    assert leaving.value.code == code


def test_hanging_thread_does_not_delay_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in a thread that cannot be cancelled does not delay the exit."""
    wiring_of(monkeypatch, 130)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    monkeypatch.setattr(os, "_exit", lambda code: sys.exit(f"left with {code}"))
    with pytest.raises(SystemExit, match="left with 130"):
        entry.main()
