"""The commands and programs of the tutorial and the how-tos run, and the quoted messages exist."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.docs.pages import (
    DOCS,
    PAGES,
    ROOT,
    code_in,
    files_in,
    output_of,
    rows_of,
    sessions_in,
    shell,
    shows,
    text_of,
)
from tests.support.cases import for_each

from shared.config import Settings, variable_names
from shared.setting_names import FIXED, REPLACED

PROGRAMS = ("searching.py", "researching.py", "reporting.py", "failing.py", "replacing.py")
PRINTED = {
    "searching.py": ["Use a SearXNG instance doc:howto/searxng.md", "found True", "web_search_request 422"],
    "researching.py": ["The next search provider is asked only when", "doc:explanation/searching.md", "3 searches"],
    "reporting.py": [
        "decomposition ('When is a cited sentence unsupported?', 'Which stages lose their model calls near a limit?')",
        "read doc:howto/limits-and-budgets.md",
        "stages lose their model calls in this order",
        " 0 ()\nwhen-is-a-cited-sentence-unsupported",
    ],
    "failing.py": ["web_search_config False Bocha needs a key: set BOCHA_API_KEY"],
    "replacing.py": ["[1]. ", "['What is known about tides?']"],
}
NOT_SETTINGS = {  # variables of compose files and of the tests, and a constant of the guide for changes
    "ANSWER_VERSION",
    "SEARXNG_SECRET",
    "REDIS_PASSWORD",
    "REDIS_PORT",
    "SEARXNG_TEST_URL",
    "SEARXNG_TEST_QUERY",
    "QDRANT_TEST_URL",
    "QDRANT_TEST_API_KEY",
    "LLM_TEST_BASE_URL",
    "LLM_TEST_MODEL",
    "LLM_TEST_API_KEY",
    "READ_HEADERS",
    "ALLOWED_HEADERS",
    "MAX_STREAMS",
    "PLAN_VERSION",
    "REPORT_PROMPT",
    "REPORT_VERSION",  # names in the code
    "MAX_QUERY_CHARS",
    "UPSTREAM_STATUSES",
    "WORKER_METRICS",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_MODEL",  # read by Anthropic's clients
}
MIN_FIXED_CHARS = 12  # shortest format string; a shorter one would match anything
MESSAGE_TABLES = {"docs/howto/searxng.md": 10, "docs/howto/bocha.md": 4, "docs/howto/brave.md": 6}
OUR_VARIABLE = re.compile(rf"\b(?:{'|'.join({name.split('_')[0] for name in Settings.model_fields})})_[A-Z_]+\b")
OPTION = re.compile(r"(?<=\s)--[a-z][a-z-]+")


def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    """The tutorial's notes, questions and program run unchanged."""
    page = "docs/tutorial.md"
    shell(re.findall(r"```bash\n(mkdir .*?)```", text_of(page), re.S)[0], tmp_path)
    (tmp_path / "ask.py").write_text(files_in(page)["ask.py"], encoding="utf-8")
    sessions = sessions_in(page)
    assert len(sessions) == 3
    for command, shown in sessions:
        printed = shell(command.replace("python ", f"{sys.executable} "), tmp_path)
        assert shows(shown, printed), printed


def test_the_tutorial_keeps_an_answer(tmp_path: Path) -> None:
    """Step 2 leaves a page in the folder and prints the JSON of the server."""
    page = text_of("docs/tutorial.md")
    shell(re.findall(r"```bash\n(mkdir .*?)```", page, re.S)[0], tmp_path)
    printed = shell(re.findall(r"```bash\n(llm-platform research [^\n]*--output.*?)```", page, re.S)[0], tmp_path)
    assert "<html" in (tmp_path / "answer.html").read_text(encoding="utf-8")
    assert '"citations"' in printed


def test_the_list_of_documents_is_as_shown(tmp_path: Path) -> None:
    """The page shows the real number of documents, their addresses and titles."""
    [(command, shown)] = sessions_in("docs/howto/documents.md")
    printed = shell(command.replace("docs/", f"{DOCS}/"), tmp_path)
    assert shows(shown, printed), printed


@pytest.fixture(scope="module")
def beside_the_docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs share this folder, so later programs find the index of the first one."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "docs").symlink_to(DOCS)
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_of_the_guide_run(name: str, beside_the_docs: Path) -> None:
    """Each program of "Use llm-platform from Python" runs unchanged and prints what the page says."""
    (beside_the_docs / name).write_text(files_in("docs/howto/use-from-python.md")[name], encoding="utf-8")
    printed = shell(f"{sys.executable} {name}", beside_the_docs)
    for piece in PRINTED[name]:
        assert piece in printed


def test_every_program_of_the_guide_is_run() -> None:
    """A new program on the page must be run too."""
    assert set(files_in("docs/howto/use-from-python.md")) == set(PROGRAMS)


@cache
def strings_of_the_source() -> tuple[str, list[re.Pattern[str]]]:
    """Return all string literals as one text, and patterns for the literals with fields."""
    literals = [
        literal
        for path in (ROOT / "src/modules/llm_platform/infrastructure").rglob("*.py")
        for literal in re.findall(r'"([^"\n]*)"', path.read_text(encoding="utf-8"))
    ]
    source = " ".join(literals)
    fixed_parts = [re.split(r"\{[^{}]*\}", literal) for literal in literals]
    return source, [
        re.compile(".+".join(map(re.escape, parts)))
        for parts in fixed_parts
        if len(parts) > 1 and len("".join(parts)) >= MIN_FIXED_CHARS
    ]


@for_each("page", MESSAGE_TABLES)
def test_quoted_messages_are_those_of_the_code(page: str) -> None:
    """A reader who searches for a printed message finds it as part of a string or as a filled-in format string.

    The source is read, because most of these messages need a server that fails in its own way.
    """
    source, formats = strings_of_the_source()
    text = text_of(page)
    table = [
        row[0] for row in rows_of(page) if len(row) >= 2 and text.index(f"| {row[0]} |") > text.index("| message |")
    ]
    messages = [message for message in table if message != "message"]
    assert len(messages) == MESSAGE_TABLES[page]
    printed = [any(pattern.fullmatch(message) for pattern in formats) for message in messages]
    assert [
        message for message, known in zip(messages, printed, strict=True) if message not in source and not known
    ] == []


@for_each("page", PAGES)
def test_every_variable_that_is_named_exists(page: Path) -> None:
    """Every setting in the documents exists, because a misspelt setting would be ignored silently."""
    known = {name for field in Settings.model_fields for name in variable_names(field)} | NOT_SETTINGS
    known |= {*REPLACED, *FIXED} if page.name == "CHANGELOG.md" else set()  # names replacements of removed settings
    named = {name for code in code_in(page) for name in OUR_VARIABLE.findall(code)}
    named = {name for name in named if not name.endswith("_")}
    unknown = ", ".join(sorted(named - known))
    assert not unknown, (
        f"{unknown}: no setting. A constant of the code is written without backticks, or listed in NOT_SETTINGS"
    )


@for_each("page", PAGES)
def test_every_option_that_is_shown_exists(page: Path) -> None:
    """The reference lists every option of the command lines on the pages."""
    known = set(OPTION.findall(" " + text_of("docs/reference/cli.md").replace("[", " ")))
    lines = [line for code in code_in(page) for line in code.splitlines() if "llm-platform " in line]
    shown = {option for line in lines for option in OPTION.findall(line.split("llm-platform ", 1)[1])}
    assert sorted(shown - known) == []


@for_each("page", PAGES)
def test_no_page_installs_the_package_from_an_index(page: Path) -> None:
    """The package is on no index, so the pages show commands that work in a checkout."""
    assert 'pip install "llm-platform[' not in page.read_text(encoding="utf-8")


def test_the_map_leads_to_every_page() -> None:
    """The overview links to every page except single decisions. Their index links to those (test_decisions.py)."""
    overview = text_of("docs/README.md")
    pages = [path for path in DOCS.rglob("*") if path.suffix in {".md", ".json"} and path != DOCS / "README.md"]
    names = [str(path.relative_to(DOCS)) for path in pages if path.parent != DOCS / "adr" or path.name == "README.md"]
    assert [name for name in names if f"({name})" not in overview] == []


def test_the_question_of_the_readme_is_worth_asking() -> None:
    """The demo answers from explanations, not from a settings table or a command's help."""
    assert "doc:reference/" not in output_of("README.md", "make demo")
