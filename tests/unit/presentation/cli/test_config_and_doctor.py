"""`config` tells everything but secrets; `doctor` tells what is wrong and what to do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.presentation.cli.fakes import FakePlatform, piped_console, terminal_console, wiring

from modules.llm_platform.application.services.doctor_service import CheckResult
from modules.llm_platform.presentation.cli import doctor_command
from modules.llm_platform.presentation.cli.config_command import effective, show, warnings
from modules.llm_platform.presentation.cli.doctor_command import of_extras, of_settings
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from shared.config import Settings

KEY = "sk-very-secret-0123456789"


class TestConfig:
    def test_every_setting_is_shown_with_its_origin(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Argument, environment, .env or default stands behind each value, and a second name where it came by that."""
        (tmp_path / ".env").write_text("LLM_MODEL=m\n")
        monkeypatch.setenv("RESEARCH_BRIDGE_SEARXNG_URL", "http://a.example")
        arguments = {"LLM_PLATFORM_OFFLINE": True}
        shown = {each.name: each for each in effective(Settings.load(**arguments), arguments)}
        assert set(shown) == set(Settings.model_fields)
        assert shown["LLM_PLATFORM_OFFLINE"][1:3] == ("true", "argument")
        assert shown["SEARXNG_URL"][1:] == ("http://a.example", "environment", "RESEARCH_BRIDGE_SEARXNG_URL")
        assert shown["LLM_MODEL"][1:3] == ("m", ".env")
        assert shown["SEARCH_PROVIDERS"][1:3] == ("auto", "default")

    @pytest.mark.parametrize("as_json", [False, True])
    def test_no_secret_is_shown(self, as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """A secret is set or it is not; more nobody learns."""
        for name in ("BOCHA_API_KEY", "LLM_PLATFORM_API_KEYS", "SEARXNG_PASSWORD"):
            monkeypatch.setenv(name, KEY)
        monkeypatch.setenv("UPSTREAM_PROXY", f"http://me:{KEY}@proxy.example:3128")
        monkeypatch.setenv("SEARXNG_URL", f"http://me:{KEY}@a.example,https://b.example")
        monkeypatch.setenv("LLM_PROVIDERS", json.dumps([{"name": "a", "model": "m", "api_key": KEY}]))
        console, out, err = piped_console()
        show(console, wiring(FakePlatform()), {}, as_json=as_json)
        assert KEY not in out.getvalue() + err.getvalue()
        assert out.getvalue().count("(set)") == 3
        assert "http://***@proxy.example:3128" in out.getvalue()
        assert "http://***@a.example,https://b.example" in out.getvalue()

    def test_people_see_groups(self) -> None:
        """The order and the headings are those of the reference."""
        console, out, _ = piped_console()
        show(console, wiring(FakePlatform()), {}, as_json=False)
        assert "\nSearch\n  SEARCH_PROVIDERS           auto  (default)\n" in out.getvalue()

    def test_json_is_a_list_of_settings(self) -> None:
        """For programs the same facts."""
        console, out, _ = piped_console()
        show(console, wiring(FakePlatform()), {}, as_json=True)
        settings = json.loads(out.getvalue())["settings"]
        assert {"name": "LLM_KIND", "value": "openai", "origin": "default", "variable": "LLM_KIND"} in settings

    def test_a_short_secret_is_named(self) -> None:
        """Whoever sets a key that cannot be searched for should know."""
        (warning,) = warnings(Settings(BOCHA_API_KEY="short"))
        assert warning.startswith("BOCHA_API_KEY is shorter than 8 characters")


class TestDoctor:
    def test_all_well(self) -> None:
        """One line for each thing, exit code 0."""
        console, out, err = piped_console()
        platform = FakePlatform(findings=[CheckResult("searxng", "ok", "a search took 9 ms")])
        doctor_command.run_doctor(console, wiring(platform, model=True), {}, spend=True, as_json=False)
        assert "✔ ok       searxng              a search took 9 ms\n" in out.getvalue()
        assert err.getvalue() == ""
        assert platform.spend is True
        assert platform.closed

    def test_without_a_model_it_says_what_that_means(self) -> None:
        """No model is no fault."""
        console, out, _ = piped_console()
        doctor_command.run_doctor(console, wiring(FakePlatform()), {}, spend=False, as_json=False)
        assert "answers are quotes from the sources" in out.getvalue()

    def test_offline_a_model_elsewhere_is_called_what_it_is(self) -> None:
        """A model that is configured and not asked offline is not "not configured"."""
        console, out, _ = piped_console()
        doors = replace(wiring(FakePlatform()), has_model=lambda settings: not settings.LLM_PLATFORM_OFFLINE)
        doctor_command.run_doctor(console, doors, {"LLM_PLATFORM_OFFLINE": True}, spend=False, as_json=False)
        assert "offline those that are configured are not asked" in out.getvalue()

    @pytest.mark.parametrize("as_json", [False, True])
    def test_a_failure_ends_with_1_and_its_name(self, as_json: bool) -> None:
        """All lines are printed first; then the command fails."""
        console, out, _ = piped_console()
        findings = [CheckResult("searxng", "failed", "no JSON:\n set search.formats"), CheckResult("bocha", "ok", "fine")]
        with pytest.raises(CommandError, match=r"^failed: searxng$") as caught:
            doctor_command.run_doctor(console, wiring(FakePlatform(findings=findings)), {}, spend=False, as_json=as_json)
        assert caught.value.code == 1
        assert "bocha" in out.getvalue()
        if as_json:
            first = json.loads(out.getvalue())["checks"][0]
            assert (first["subject"], first["verdict"]) == ("searxng", "failed")

    def test_a_person_sees_that_it_works(self) -> None:
        """Asking takes seconds: a terminal is told so."""
        console, out, err = terminal_console()
        doctor_command.run_doctor(console, wiring(FakePlatform()), {}, spend=False, as_json=False)
        assert "asking what is configured" in err.getvalue()
        assert "language model" in out.getvalue()

    @pytest.mark.parametrize(
        ("settings", "verdict", "says"),
        [
            ({"SEARXNG_ENGINES_NEWS": "google_news"}, "warning", "write 'google news'"),
            ({"SEARXNG_USERNAME": "me"}, "failed", "set SEARXNG_PASSWORD"),
            ({"LLM_PLATFORM_HOST": "0.0.0.0"}, "failed", "set LLM_PLATFORM_API_KEYS"),
            ({"BOCHA_API_KEY": "short"}, "warning", "shorter than 8"),
        ],
    )
    def test_settings_that_do_not_fit_together(self, settings: dict[str, str], verdict: str, says: str) -> None:
        """What can be seen without asking anybody is said with its remedy, and without the key."""
        (finding,) = of_settings(Settings(**settings))
        assert finding.verdict == verdict
        assert says in finding.text
        assert KEY not in finding.text

    def test_half_a_model_says_so_itself(self) -> None:
        """A key without a model makes a model that fails when it is asked: it is not reported a second time."""
        assert list(of_settings(Settings(LLM_API_KEY=KEY))) == []

    def test_what_no_line_installs_says_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where wordllama has no package, that is said, and not a line that would fail."""
        monkeypatch.setattr(doctor_command, "find_spec", lambda name: None if name == "wordllama" else object())
        monkeypatch.setattr("modules.llm_platform.domain.wheels.platform.machine", lambda: "riscv64")
        (finding,) = of_extras()
        assert (finding.subject, finding.verdict) == ("extra retrieval", "warning")
        assert "riscv64" in finding.text
        assert "pip install" not in finding.text

    def test_a_missing_extra_names_its_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is not installed is a warning with the line that installs it."""
        monkeypatch.setattr(doctor_command, "find_spec", lambda name: None if name == "pypdf" else object())
        assert list(of_extras()) == [
            CheckResult("extra documents", "warning", 'pypdf not installed: pip install "llm-platform[documents]"')
        ]
