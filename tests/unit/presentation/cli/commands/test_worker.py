"""The event loop of the command `worker`."""

from __future__ import annotations

import asyncio
import sys

import pytest

from modules.llm_platform.presentation.cli.commands.worker import get_loop_factory
from modules.llm_platform.presentation.cli.exit_codes import run_async


async def _loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_uvloop_is_used_if_installed() -> None:
    """The worker uses uvloop like the server."""
    assert run_async(_loop_module(), get_loop_factory()) == "uvloop"


def test_python_loop_is_used_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uvloop the worker uses asyncio's own event loop."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert get_loop_factory() is None
    assert run_async(_loop_module(), get_loop_factory()) == "asyncio"
