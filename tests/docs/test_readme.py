"""README shows the product's real output. The tests compare it with fresh output, and only `…` marks a cut."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx2
from tests.docs.pages import ROOT, files_in, output_of, sessions_in, shell, shows, text_of

from modules.llm_platform.container import build_platform
from modules.llm_platform.presentation.rest.app import create_app
from shared.config import Settings

DEMO = re.compile(r"^QUESTION := (.*)$", re.M)
BEFORE_LINE = 25


def run(*command: str, cwd: Path) -> str:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.rstrip("\n")


def test_the_demo_prints_what_the_readme_shows() -> None:
    """`make demo` still prints the shown answer, sources and quotes, offline and without a key."""
    question = DEMO.findall(text_of("Makefile"))[0]
    recipe = ["research", question, "--documents", "docs", "--offline"]
    printed = run(sys.executable, "-m", "modules.llm_platform", *recipe, cwd=ROOT)
    assert shows(output_of("README.md", "make demo"), printed), printed
    assert f"*{question}*" in text_of("README.md")


def test_the_report_is_what_the_readme_shows(tmp_path: Path) -> None:
    """The command in the section on reports runs unchanged, with its own store."""
    (command,) = [session for session, _ in sessions_in("README.md") if "--depth report" in session]
    words = shlex.split(command.replace("--documents ", f"--documents {ROOT}/"))
    printed = shell(shlex.join(words), tmp_path)
    assert shows(output_of("README.md", command), printed), printed
    assert "✘" not in printed
    shown = output_of("README.md", command)
    opening, _, _ = printed.partition("\n## ")
    assert shown.startswith(opening)  # README shows the beginning without a cut
    assert "|" not in opening


def test_the_checked_text_has_the_verdicts_that_the_readme_shows(tmp_path: Path) -> None:
    """The command in the section on checking a text runs unchanged on the shown text."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "claims.md").write_text(output_of("README.md", "cat claims.md"), encoding="utf-8")
    command = "llm-platform verify claims.md --sources docs/explanation"
    assert shell(command, tmp_path) == output_of("README.md", command)


def test_the_demo_answers_from_two_documents() -> None:
    """The demo shows new users the purpose of the product: two sources, and a quote for each sentence."""
    shown = output_of("README.md", "make demo")
    assert len(re.findall(r"^\s+doc:", shown, re.M)) == 2
    verdicts = re.findall(r"^❝ quoted word for word|^[✔✘]", shown, re.M)
    assert len(verdicts) >= 2
    assert set(verdicts) == {"❝ quoted word for word"}


def test_a_sentence_a_command_and_its_output_come_first() -> None:
    """The lines before line 25 tell what the product is, how to start it and what it prints."""
    head = text_of("README.md").splitlines()[: BEFORE_LINE - 1]
    assert head[2].endswith(".")
    assert "$ make demo" in head
    assert head.count("```") == 1, "the output ends before that line"


async def test_the_server_answers_what_the_readme_shows() -> None:
    """Both curl commands get the answers shown below them. The requests equal the requests of curl."""
    platform = build_platform(Settings(DOCUMENTS_DIR=ROOT / "docs"))
    app = create_app(platform, Settings())
    sessions = [session for session in sessions_in("README.md") if session[0].startswith("curl ")]
    assert len(sessions) == 2
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
            for command, shown in sessions:
                answer = await client.send(as_curl_sends(client, command))
                assert answer.status_code == 200, answer.text
                assert shows(shown, answer.text), answer.text


def as_curl_sends(client: httpx2.AsyncClient, command: str) -> httpx2.Request:
    """Convert `curl -X METHOD URL [-H HEADER] -d BODY` to a request. By default curl sends the content type of a form."""
    words = shlex.split(command)
    options = dict(zip(words[1::2], words[2::2], strict=False)) if words[1].startswith("-") else {}
    assert options["-X"] == "POST"
    url = next(word for word in words if "localhost" in word)
    body = words[words.index("-d") + 1]
    headers = [words[position + 1].split(": ") for position, word in enumerate(words) if word == "-H"]
    sent = {"content-type": "application/x-www-form-urlencoded"} | {name.lower(): value for name, value in headers}
    return client.build_request("POST", url if "://" in url else f"http://{url}", content=body, headers=sent)


def test_the_program_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """The short example program runs unchanged."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "ask.py").write_text(files_in("README.md")["ask.py"], encoding="utf-8")
    assert shell(f"{sys.executable} ask.py", tmp_path) == output_of("README.md", "python ask.py")
