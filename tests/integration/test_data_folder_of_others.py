"""An unreadable data folder: it belongs to another user, as after `su` without `-`, or its name is too long for the
disk.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.cases import for_each
from tests.support.forked_command import COMMAND_LINE, UVICORN, run_forked

TIMEOUT_S = 60.0
TOO_LONG = "x" * 300  # root can read every folder, but not one with this name
REASON = "the data folder {} cannot be accessed (File name too long): set LLM_PLATFORM_DATA_DIR to a folder"


@for_each(
    "program, arguments",
    [
        (COMMAND_LINE, ("research", "What is tea?")),
        (COMMAND_LINE, ("search", "tea")),
        (COMMAND_LINE, ("doctor",)),
        (COMMAND_LINE, ("serve", "--port", "0")),
        (UVICORN, ("modules.llm_platform.asgi:app", "--port", "0")),
    ],
)
def test_the_command_names_the_folder_and_the_setting(program: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """The error is one line with the folder, the reason and the remedy. The exit code is 1, and there is no traceback."""
    folder = tmp_path / TOO_LONG
    variables = {**os.environ, "LLM_PLATFORM_DATA_DIR": str(folder), "LLM_PLATFORM_OFFLINE": "true"}
    ended = run_forked(program, *arguments, env=variables, cwd=tmp_path, timeout=TIMEOUT_S)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert REASON.format(folder) in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") <= 2, ended.stderr


@for_each("arguments", [("outcomes", "show"), ("researches", "list")])
def test_a_store_names_the_setting(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """With a remote index, the store still reports the setting instead of a failed write."""
    variables = {
        **os.environ,
        "LLM_PLATFORM_DATA_DIR": str(tmp_path / TOO_LONG),
        "LLM_PLATFORM_OFFLINE": "true",
        "QDRANT_URL": "http://127.0.0.1:9",
    }
    ended = run_forked(COMMAND_LINE, *arguments, env=variables, cwd=tmp_path, timeout=TIMEOUT_S)
    assert ended.returncode == 1
    assert "cannot be used" in ended.stderr
    assert "LLM_PLATFORM_DATA_DIR" in ended.stderr
