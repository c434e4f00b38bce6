"""The command `read`: its output for people, programs and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.unit.presentation.cli.fakes import PlatformPart, part_wiring

from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.domain.exceptions import PageBlockedError, PageRequestError
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.testing import FakePageReader, sample_page
from shared.config import Settings

URL = "https://docs.example.org/loops"
PAGE = sample_page(
    URL, "# Loops\n\nCoroutines run on an event loop. [link](https://elsewhere.example/)", "Loops <&>"
).model_copy(update={"published": "2026-01-02", "warning": "only its first 3 pages were read"})


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    settings: Settings | None
    reader: FakePageReader


class Platform(PlatformPart):
    """A platform that reads pages and nothing else."""

    def __init__(self, reader: FakePageReader) -> None:
        self.pages = PageService(reader)


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def call(*arguments: str, outcome: Any = PAGE) -> Ended:
        reader, settings = FakePageReader({URL: outcome}), list[Settings]()
        code = run(["read", *arguments], part_wiring(Platform(reader), settings))
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err, settings[0] if settings else None, reader)

    return call


def test_page_is_printed_with_heading_and_footer(read: Callable[..., Ended]) -> None:
    """The output has the title, the address, the text, what is missing, and the reader."""
    ended = read(f" {URL} ", "--reader", "direct")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Loops <&>\n{URL}\n\n# Loops\n")
    assert ended.out.endswith(
        "Note: only its first 3 pages were read\n76 characters of text/plain, read by fake · published 2026-01-02\n"
    )
    assert ended.reader.urls == [URL]


def test_json_is_the_page(read: Callable[..., Ended]) -> None:
    """All fields."""
    answer = json.loads(read(URL, "--json", "--reader", "jina").out)
    assert answer == PAGE.model_dump(mode="json")
    written = {"url", "title", "text", "read_at", "reader", "sha256", "media_type", "published", "warning"}
    assert set(answer) == {*written, "extraction", "pages"}


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("page.md", ["# Loops \\<\\&\\>", f"[https://docs.example.org/loops](<{URL}>)", "# Loops\n\nCoroutines"]),
        ("page.html", ["<h1>Loops &lt;&amp;&gt;</h1>", "<p>Coroutines run", "only its first 3 pages"]),
        ("page.json", ['"title": "Loops <&>"']),
    ],
)
def test_output_file_holds_the_page(name: str, holds: list[str], tmp_path: Path, read: Callable[..., Ended]) -> None:
    """Each kind holds the page; the screen stays empty."""
    ended = read(URL, "--output", str(tmp_path / name), "--reader", "direct")
    assert (ended.code, ended.out) == (0, "")
    written = (tmp_path / name).read_text(encoding="utf-8")
    assert [part for part in holds if part not in written] == []
    assert 'href="https://elsewhere.example' not in written


def test_invalid_address_is_refused_before_the_jina_notice(read: Callable[..., Ended]) -> None:
    """Nothing is announced that will not happen."""
    ended = read("notaurl")
    assert ended.code == 2
    assert "must begin with http:// or https://" in ended.err
    assert "r.jina.ai" not in ended.err


def test_jina_notice_by_default(read: Callable[..., Ended]) -> None:
    """With the default readers, one line says that Jina is one of them."""
    assert "r.jina.ai" in read(URL).err
    assert "r.jina.ai" not in read(URL, "--reader", "jina").err


@pytest.mark.parametrize(
    "variable", [("READERS", "direct"), ("JINA_API_KEY", "jina_0123456789"), ("JINA_BASE_URL", "http://localhost:1")]
)
def test_no_jina_notice_when_a_reader_is_chosen(
    variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch, read: Callable[..., Ended]
) -> None:
    """A setting of the reader is a choice."""
    monkeypatch.setenv(*variable)
    assert read(URL).err == ""


def test_options_reach_the_settings(read: Callable[..., Ended]) -> None:
    """One reader alone, or none at all."""
    settings = read(URL, "--reader", "direct").settings
    assert settings is not None
    assert settings.READERS == ("direct",)
    offline = read(URL, "--offline").settings
    assert offline is not None
    assert offline.LLM_PLATFORM_OFFLINE


@pytest.mark.parametrize(
    ("arguments", "outcome", "code", "expected"),
    [
        ((URL,), PageRequestError("not that one"), 2, "llm-platform: not that one\n"),
        ((URL,), PageBlockedError("behind a login"), 1, "llm-platform: behind a login\n"),
        ((), PAGE, 2, "URL"),
        ((URL, "--reader", "google"), PAGE, 2, "--reader"),
        ((URL, "--output", "x.pdf"), PAGE, 2, ".md, .html or .json"),
    ],
)
def test_failures_end_with_one_line_and_an_exit_code(
    arguments: tuple[str, ...], outcome: Any, code: int, expected: str, read: Callable[..., Ended]
) -> None:
    """One line on standard error and an exit code."""
    ended = read(*arguments, outcome=outcome)
    assert (ended.code, ended.out) == (code, "")
    assert expected in ended.err


def test_control_sequences_of_the_page_are_removed(read: Callable[..., Ended]) -> None:
    """What steers a terminal is gone from people's view, and escaped in JSON."""
    evil = sample_page(URL, "Te\x1b[2Jxt\u202e", "T\x9b31m")
    shown = read(URL, outcome=evil).out + read(URL, "--json", outcome=evil).out
    assert not set(shown) & set("\x1b\x9b\u202e")
