"""What is made from the code is up to date."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from dotenv import dotenv_values
from scripts import cli_reference, generated_files, settings_reference

from shared.config import Settings, variable_names


@pytest.fixture(scope="module")
def texts() -> Mapping[str, str]:
    """They take seconds to write, and nobody changes them."""
    return generated_files.texts()


@pytest.fixture
def _written_once(texts: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_files, "texts", lambda: texts)


@pytest.mark.usefixtures("_written_once")
def test_generated_files_are_up_to_date() -> None:
    """--check is what CI runs."""
    assert generated_files.main(["--check"]) == 0


@pytest.mark.usefixtures("_written_once")
def test_stale_files_are_named_and_rewritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check fails while files are missing or old, and passes after they were written."""
    assert generated_files.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err.count(" is stale: run make docs\n") == len(generated_files.texts())
    assert generated_files.main([], tmp_path) == 0
    assert generated_files.main(["--check"], tmp_path) == 0
    (tmp_path / ".env.example").write_text("")
    assert generated_files.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == ".env.example is stale: run make docs\n"


def test_reference_does_not_depend_on_the_terminal_width(
    texts: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same help on every machine."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    assert cli_reference.reference() == texts["docs/reference/cli.md"]


def test_example_env_file_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every # removed all settings but the keys are set, and read without a complaint."""
    lines = settings_reference.env_example().splitlines()
    text = "\n".join(line[1:] if line[:2] != "# " else line for line in lines)
    (tmp_path / ".env").write_text(text)
    monkeypatch.chdir(tmp_path)
    settings = Settings.load()
    unset = set(Settings.model_fields) - settings.model_fields_set
    assert unset == {name for name in Settings.model_fields if settings_reference.is_secret(name)}
    assert set(dotenv_values(tmp_path / ".env")) == set(Settings.model_fields)
    assert settings.SEARXNG_ENGINES_NEWS == ("google news", "bing news")


def test_every_variable_is_documented() -> None:
    """Second names too."""
    text = settings_reference.reference()
    for field in Settings.model_fields:
        for name in variable_names(field):
            assert f"`{name}`" in text
