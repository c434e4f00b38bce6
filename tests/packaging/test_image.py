"""Tests the Dockerfile, its build context and its locks. `make image-test` executes the Dockerfile."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from scripts.clean_root import ROOT, DockerfileError, Instruction, copy_context, is_ignored, parse_dockerfile
from tests.support.cases import for_each

from shared.config import Settings, variable_names

OF_THE_SYSTEM = {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
PIN = re.compile(r"(?m)^([a-z0-9-]+)==(\S+)")
STAGES = parse_dockerfile((ROOT / "Dockerfile").read_text())
LAST = STAGES[-1].instructions


def of(name: str) -> list[Instruction]:
    return [instruction for instruction in LAST if instruction.name == name]


def pins(path: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / path).read_text()))


def test_lines_become_stages_and_instructions() -> None:
    """The parser joins continued lines, drops comments, separates flags, and splits both command forms into words."""
    text = 'FROM debian:13.7-slim AS a\n# no\nRUN --mount=type=secret,id=x x \\\n    && y\nFROM a\nCMD ["b", "c d"]\n'
    first, last = parse_dockerfile(text)
    assert (first.base, first.name, last.base) == ("debian:13.7-slim", "a", "a")
    assert first.instructions == [Instruction("RUN", {"mount": "type=secret,id=x"}, "x && y")]
    assert last.instructions[0].words == ["b", "c d"]


def test_an_instruction_that_is_not_carried_out_is_an_error() -> None:
    """The parser never skips a line silently."""
    with pytest.raises(DockerfileError, match="ADD"):
        parse_dockerfile("FROM debian:13.7-slim\nADD a b\n")


@for_each(
    ("name", "ignored"),
    [
        (".env", True),
        ("docs/README.md", True),
        ("README.md", False),
        ("src/a/b.py", False),
        ("src/a/__pycache__/b.pyc", True),
        ("deploy/image/build.lock", False),
        ("deploy/searxng/settings.yml", True),
    ],
)
def test_the_context_holds_what_the_image_needs(name: str, ignored: bool) -> None:
    """No secret, no test and no bytecode reaches the builder."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert is_ignored(name, rules) is ignored


def test_what_is_copied_is_in_the_context(tmp_path: Path) -> None:
    """If .dockerignore excluded a copied file, only the build would show the error."""
    copy_context(ROOT, tmp_path)
    copies = [
        instruction
        for stage in STAGES
        for instruction in stage.instructions
        if instruction.name == "COPY" and "from" not in instruction.flags
    ]
    assert [name for instruction in copies for name in instruction.words[:-1] if not (tmp_path / name).exists()] == []
    assert len(copies) > 2


def test_the_image_has_no_rights_and_one_process_1() -> None:
    """The image has a non-root user and tini as process 1, and both commands use the exec form."""
    (user,), (entrypoint,), (command,) = of("USER"), of("ENTRYPOINT"), of("CMD")
    assert user.text == "10001:10001"
    assert entrypoint.words == ["tini", "--"]
    assert command.words == ["llm-platform", "serve"]


def test_the_settings_of_the_image_exist() -> None:
    """The Dockerfile names only existing settings, and so does the health check."""
    known = {name for setting in Settings.model_fields for name in variable_names(setting)}
    named = {word.partition("=")[0] for instruction in of("ENV") for word in instruction.words}
    assert named - OF_THE_SYSTEM <= known
    (check,) = of("HEALTHCHECK")
    assert Instruction("CMD", {}, check.text.removeprefix("CMD ")).words == ["healthcheck", "LLM_PLATFORM_PORT"]


def test_nothing_names_an_index_and_everything_has_a_hash() -> None:
    """The builder may choose the package index, but the hashes fix the packages."""
    texts = [
        (ROOT / path).read_text() for path in ("Dockerfile", "deploy/image/build.lock", "deploy/image/runtime.lock")
    ]
    assert [text for text in texts if re.search(r"https?://|index-url", text)] == []
    installs = [
        instruction.text
        for stage in STAGES
        for instruction in stage.instructions
        if "--requirement" in instruction.text
    ]
    assert [text.count("--require-hashes") == text.count("--requirement ") for text in installs] == [True]


def test_the_locks_of_the_image_are_parts_of_the_lock() -> None:
    """`make lock` writes all three locks. The image has the same versions as the tests, without the test-only packages."""
    everything, runtime = pins("requirements.lock"), pins("deploy/image/runtime.lock")
    for name, version in (runtime | pins("deploy/image/build.lock")).items():
        assert everything.get(name) == version, f"{name} differs: run `make lock`"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = (line for extra in project["project"]["optional-dependencies"].values() for line in extra)
    names = {re.split(r"[\[><=;]", line)[0].strip() for line in (*project["project"]["dependencies"], *extras)}
    assert names - {"llm-platform"} <= set(runtime), "run `make lock`"
    assert "pytest" not in runtime
