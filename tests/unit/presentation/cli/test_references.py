"""What is made from the code is up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dotenv import dotenv_values
from scripts import cli_reference, settings_reference

from shared.config import Settings, variable_names

Main = Callable[[list[str]], int]


@pytest.mark.parametrize("main", [settings_reference.main, cli_reference.main])
def test_generated_files_are_fresh(main: Main) -> None:
    """--check is what CI runs."""
    assert main(["--check"]) == 0


@pytest.mark.parametrize(
    ("module", "files"),
    [
        (settings_reference, {"ENV_EXAMPLE": ".env.example", "REFERENCE": "settings.md"}),
        (cli_reference, {"REFERENCE": "cli.md"}),
    ],
)
def test_stale_file_is_detected_and_rewritten(
    module: object,
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--check fails and names the command; without it the file is made, and is fresh then."""
    main: Main = module.main  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for name, file in files.items():
        monkeypatch.setattr(module, name, tmp_path / "docs" / file)
    assert main(["--check"]) == 1
    assert "is stale: run python scripts/" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_reference_does_not_depend_on_the_terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same help on every machine."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    assert cli_reference.main(["--check"]) == 0


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
