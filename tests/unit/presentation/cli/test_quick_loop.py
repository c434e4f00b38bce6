"""The event loop of the command `worker`."""

from __future__ import annotations

import asyncio
import sys

import pytest

from modules.llm_platform.presentation.cli.exit_codes import run
from modules.llm_platform.presentation.cli.worker_command import quick_loop


async def _whose() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_the_quick_one_where_it_is_installed() -> None:
    """What the command runs on is the loop that the server has, not Python's own."""
    assert run(_whose(), quick_loop()) == "uvloop"


def test_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no condition: the worker runs on Python's own loop."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert quick_loop() is None
    assert run(_whose(), quick_loop()) == "asyncio"
