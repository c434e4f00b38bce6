"""`config` shows every setting without secrets. `doctor` reports problems with their remedies."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.unit.presentation.cli.fakes import FakePlatform, piped_console, terminal_console, wiring

from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.presentation.cli.commands import doctor as doctor_module
from modules.llm_platform.presentation.cli.commands.config import list_setting_values, list_setting_warnings
from modules.llm_platform.presentation.cli.commands.doctor import check_extras, check_settings
from modules.llm_platform.presentation.cli.main import run
from shared.config import Settings

KEY = "sk-very-secret-0123456789"


class TestConfig:
    def test_every_setting_is_shown_with_its_origin(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each value is followed by its origin (argument, environment, .env or default), and by its alias if the value
        was set under it.
        """
        (tmp_path / ".env").write_text("LLM_MODEL=m\n")
        monkeypatch.setenv("RESEARCH_BRIDGE_SEARXNG_URL", "http://a.example")
        arguments = {"LLM_PLATFORM_OFFLINE": True}
        printed = {setting.name: setting for setting in list_setting_values(Settings.load(**arguments), arguments)}
        assert set(printed) == set(Settings.model_fields)
        assert printed["LLM_PLATFORM_OFFLINE"][1:3] == ("true", "argument")
        assert printed["SEARXNG_URL"][1:] == ("http://a.example", "environment", "RESEARCH_BRIDGE_SEARXNG_URL")
        assert printed["LLM_MODEL"][1:3] == ("m", ".env")
        assert printed["SEARCH_PROVIDERS"][1:3] == ("auto", "default")

    @pytest.mark.parametrize("as_json", [False, True])
    def test_no_secret_is_shown(self, as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """A secret is shown only as set or not set."""
        for name in ("BOCHA_API_KEY", "LLM_PLATFORM_API_KEYS", "SEARXNG_PASSWORD"):
            monkeypatch.setenv(name, KEY)
        monkeypatch.setenv("UPSTREAM_PROXY", f"http://me:{KEY}@proxy.example:3128")
        monkeypatch.setenv("SEARXNG_URL", f"http://me:{KEY}@a.example,https://b.example")
        monkeypatch.setenv("LLM_PROVIDERS", json.dumps([{"name": "a", "model": "m", "api_key": KEY}]))
        console, out, err = piped_console()
        run(["config", *["--json"] * as_json], wiring(FakePlatform()), console)
        assert KEY not in out.getvalue() + err.getvalue()
        assert out.getvalue().count("(set)") == 3
        assert "http://***@proxy.example:3128" in out.getvalue()
        assert "http://***@a.example,https://b.example" in out.getvalue()

    def test_settings_are_grouped(self) -> None:
        """Groups and headings follow the reference."""
        console, out, _ = piped_console()
        run(["config"], wiring(FakePlatform()), console)
        assert re.search(r"\nSearch\n  SEARCH_PROVIDERS +auto  \(default\)\n", out.getvalue())

    def test_json_is_a_list_of_settings(self) -> None:
        """For programs the same facts."""
        console, out, _ = piped_console()
        run(["config", "--json"], wiring(FakePlatform()), console)
        settings = json.loads(out.getvalue())["settings"]
        assert {"name": "LLM_KIND", "value": "openai", "origin": "default", "variable": "LLM_KIND"} in settings

    def test_short_secret_is_a_warning(self) -> None:
        """A key that is too short to be redacted causes a warning."""
        (warning,) = list_setting_warnings(Settings(BOCHA_API_KEY="short"))
        assert warning.startswith("BOCHA_API_KEY is shorter than 8 characters")

    def test_api_key_that_can_be_guessed_is_a_warning(self) -> None:
        """With its place, and without the key."""
        keys = f"a-long-random-word,alice:{'k' * 20},bob:short-key-of-bob"
        first, third = list_setting_warnings(Settings(LLM_PLATFORM_API_KEYS=keys))
        assert first.startswith("Key 1 of LLM_PLATFORM_API_KEYS has fewer than 20 characters")
        assert third.startswith("Key 3 of")
        assert "short-key-of-bob" not in third


class TestDoctor:
    def test_passed_checks_end_with_0(self) -> None:
        """One line for each thing, exit code 0."""
        console, out, err = piped_console()
        platform = FakePlatform(findings=[CheckResult("searxng", "ok", "a search took 9 ms")])
        assert run(["doctor", "--yes"], wiring(platform, model=True), console) == 0
        assert "✔ ok       searxng              a search took 9 ms\n" in out.getvalue()
        assert err.getvalue() == ""
        assert platform.spend is True
        assert platform.closed

    def test_missing_model_is_explained(self) -> None:
        """No model is no fault."""
        console, out, _ = piped_console()
        run(["doctor"], wiring(FakePlatform()), console)
        assert "answers are quotes from the sources" in out.getvalue()

    def test_offline_model_is_not_called_missing(self) -> None:
        """A model that is configured and not asked offline is not "not configured"."""
        console, out, _ = piped_console()
        custom_wiring = replace(wiring(FakePlatform()), has_model=lambda settings: not settings.LLM_PLATFORM_OFFLINE)
        run(["doctor", "--offline"], custom_wiring, console)
        assert "the configured models cannot be used offline" in out.getvalue()

    @pytest.mark.parametrize("as_json", [False, True])
    def test_failed_check_ends_with_its_name(self, as_json: bool) -> None:
        """All lines are printed first; then the command fails."""
        console, out, err = piped_console()
        results = [
            CheckResult("searxng", "failed", "no JSON:\n set search.formats"),
            CheckResult("bocha", "ok", "fine"),
        ]
        assert run(["doctor", *["--json"] * as_json], wiring(FakePlatform(findings=results)), console) == 1
        assert err.getvalue() == "llm-platform: failed: searxng\n"
        assert "bocha" in out.getvalue()
        if as_json:
            first = json.loads(out.getvalue())["checks"][0]
            assert (first["subject"], first["verdict"]) == ("searxng", "failed")

    def test_progress_on_a_terminal(self) -> None:
        """A terminal shows that checks are running, because they take seconds."""
        console, out, err = terminal_console()
        run(["doctor"], wiring(FakePlatform()), console)
        assert "checking what is configured" in err.getvalue()
        assert "language model" in out.getvalue()

    def test_brokers_are_checked_where_they_are_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kafka checks are listed only if brokers are configured."""
        found = [CheckResult("kafka brokers", "failed", "cannot be reached")]
        monkeypatch.setattr(doctor_module, "check_brokers", lambda settings: found)
        console, out, _ = piped_console()
        assert run(["doctor"], wiring(FakePlatform()), console) == 0
        assert "kafka brokers" not in out.getvalue()
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
        assert run(["doctor"], wiring(FakePlatform()), console) == 1
        assert "kafka brokers        cannot be reached" in out.getvalue()

    @for_each(
        ("settings", "verdict", "expected"),
        [
            ({"SEARXNG_ENGINES_NEWS": "google_news"}, "warning", "write 'google news'"),
            ({"SEARXNG_USERNAME": "me"}, "failed", "set SEARXNG_PASSWORD"),
            ({"LLM_PLATFORM_HOST": "0.0.0.0"}, "failed", "set LLM_PLATFORM_API_KEYS"),
            ({"BOCHA_API_KEY": "short"}, "warning", "shorter than 8"),
        ],
    )
    def test_inconsistent_settings_have_a_remedy(self, settings: dict[str, str], verdict: str, expected: str) -> None:
        """Inconsistent settings are reported with the remedy and without the key, and without a network request."""
        (finding,) = check_settings(Settings(**settings))
        assert finding.verdict == verdict
        assert expected in finding.text
        assert KEY not in finding.text

    def test_half_configured_model_is_not_reported_twice(self) -> None:
        """A key without a model makes a model that fails when it is called. The doctor reports it only once."""
        assert list(check_settings(Settings(LLM_API_KEY=KEY))) == []

    def test_missing_wheel_has_no_install_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If wordllama has no wheel for the platform, the doctor says so and shows no install command."""
        monkeypatch.setattr(doctor_module, "find_spec", lambda name: None if name == "wordllama" else object())
        monkeypatch.setattr("modules.llm_platform.domain.package.platform.machine", lambda: "riscv64")
        (finding,) = check_extras()
        assert (finding.subject, finding.verdict) == ("extra retrieval", "warning")
        assert "riscv64" in finding.text
        assert "pip install" not in finding.text

    def test_missing_extra_names_the_install_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is not installed is a warning with the line that installs it."""
        monkeypatch.setattr(doctor_module, "find_spec", lambda name: None if name == "pypdf" else object())
        assert list(check_extras()) == [
            CheckResult("extra documents", "warning", 'pypdf not installed: pip install "llm-platform[documents]"')
        ]
