"""aider in a separate process answers a question and changes a file in a repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import ANSWER, KEY, LLM, QUESTION, URL, check, main

# By default aider asks GitHub for prices, PyPI for versions, and sends analytics. These hosts are unreachable here.
QUIET = (
    "--yes-always",
    "--no-check-update",
    "--analytics-disable",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--no-detect-urls",
    "--no-pretty",
    "--no-fancy-input",
    "--no-gitignore",
    "--no-suggest-shell-commands",
)
NO_PROXY = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}


def aider(folder, model, *words):
    command = [
        sys.executable,
        "-m",
        "aider",
        *QUIET,
        "--model",
        f"openai/{model}",
        "--weak-model",
        f"openai/{LLM}",
        *words,
    ]
    key = {"OPENAI_API_BASE": f"{URL}/v1", "OPENAI_API_KEY": KEY, "HOME": folder}
    env = {**os.environ, **NO_PROXY, **key}
    done = subprocess.run(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@check("a question, streamed and whole", "chat", "stream")
def ask():
    with tempfile.TemporaryDirectory() as folder:
        for model, stream in (("research-shallow", "--stream"), (LLM, "--no-stream")):
            said = aider(folder, model, "--no-git", "--chat-mode", "ask", stream, "--message", QUESTION)
            assert ANSWER in " ".join(said.split()), said


@check("a change of a file, with its commit", "second turn")
def change():
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org"]
        Path(folder, "notes.md").write_text("Notes\n")
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Notes"]):
            subprocess.run([*git, *words], check=True)
        for name, value in (("user.name", "a"), ("user.email", "a@example.org")):
            subprocess.run([*git, "config", name, value], check=True)
        said = aider(
            folder, LLM, "--edit-format", "whole", "--message", "Write what asyncio is into notes.md.", "notes.md"
        )
        assert ANSWER in Path(folder, "notes.md").read_text(), said
        commits = subprocess.run([*git, "log", "--oneline"], check=True, capture_output=True, text=True).stdout
        assert len(commits.splitlines()) == 2, commits


main()
