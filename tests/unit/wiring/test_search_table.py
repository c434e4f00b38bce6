"""The table of search providers: what is known about one stands in its row, and everything else follows from it."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any, get_args

import pytest
from scripts import settings_reference
from tests.loopback_upstream import recorded, serving
from tests.unit.presentation.cli.fakes import FakePlatform
from tests.unit.presentation.cli.fakes import wiring as fake_wiring

from modules.llm_platform import __main__ as entry
from modules.llm_platform.application.services.doctor_service import NOT_TRIED
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest
from modules.llm_platform.infrastructure.adapters.ddgs_web_search import DdgsWebSearchAdapter
from modules.llm_platform.presentation.cli import worker_command
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.testing import FakeWebSearch
from modules.llm_platform.wiring import search
from modules.llm_platform.wiring.resources import Resources
from modules.llm_platform.wiring.search import SEARCH_PROVIDERS, SearchParts, SearchProviderSpec, spec_of
from shared.config import Settings, SettingsError

KEY = "sk-bocha-0123456789"
WRAPPED = "bocha/wrapped"
NAMES = [spec.name for spec in SEARCH_PROVIDERS]
ADAPTERS = [
    ("searxng", "searxng/01_general_merged_suggestions"),
    ("brave", "brave/web"),
    ("bocha", WRAPPED),
    ("ddgs", WRAPPED),
]  # ddgs asks nobody


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> FakeWebSearch:
    """A provider of which nothing is known but its row: each search costs money."""
    adapter = FakeWebSearch(name="madeup")
    row = SearchProviderSpec(
        name="madeup",
        build=lambda parts: iter((adapter,)),
        configured=lambda settings: settings.BOCHA_TIMEOUT_S == 7,
        paid=True,
        source_kinds=("web", "news"),
        label="a provider for this test",
        settings=("BOCHA_TIMEOUT_S",),
        addresses=lambda settings: ("https://madeup.example.org",),
    )
    monkeypatch.setattr(search, "SEARCH_PROVIDERS", (*SEARCH_PROVIDERS, row))
    monkeypatch.setattr(settings_reference, "SEARCH_PROVIDERS", (*SEARCH_PROVIDERS, row))
    return adapter


class TestARowIsEnough:
    def test_the_setting_takes_it_and_auto_finds_it(self, made_up: FakeWebSearch) -> None:
        """It can be named, and where its settings are there it need not be."""
        assert search.search_order(Settings(SEARCH_PROVIDERS="madeup,ddgs")) == ("madeup", "ddgs")
        assert search.search_order(Settings(BOCHA_TIMEOUT_S=7)) == ("madeup",)

    def test_the_command_line_takes_it(self, made_up: FakeWebSearch) -> None:
        """`--provider` takes its name, and the help lists it."""
        platform = FakePlatform()
        doors = fake_wiring(platform, order=("madeup",), providers=search.provider_names)
        assert run(["search", "x", "--provider", "madeup", "--json"], doors) == 0
        assert platform.settings.SEARCH_PROVIDERS == ("madeup",)
        with redirect_stdout(io.StringIO()) as out:
            run(["search", "--help"], doors)
        assert f"<{'|'.join((*NAMES, 'madeup'))}>" in out.getvalue()

    async def test_doctor_spends_nothing_on_it_unasked(self, made_up: FakeWebSearch) -> None:
        """`paid` of its row keeps doctor from searching; --yes lets it, for every kind of source that the row names."""
        settings = Settings(SEARCH_PROVIDERS="madeup", BOCHA_TIMEOUT_S=7)
        async with build_platform(settings) as platform:
            first, *_ = await platform.doctor.examine()
            assert (first.subject, first.verdict, first.text) == ("madeup", "ok", NOT_TRIED)
            assert made_up.requests == []
            await platform.doctor.examine(spend=True)
        assert [request.sources for request in made_up.requests] == [("web",), ("news",)]

    async def test_doctor_says_what_it_lacks(self, made_up: FakeWebSearch) -> None:
        """One that is named without the setting that it needs fails, with that setting's name, and is not asked."""
        async with build_platform(Settings(SEARCH_PROVIDERS="madeup")) as platform:
            first, *_ = await platform.doctor.examine(spend=True)
        assert (first.subject, first.verdict) == ("madeup", "failed")
        assert "set BOCHA_TIMEOUT_S" in first.text
        assert made_up.requests == []

    def test_the_documents_name_it(self, made_up: FakeWebSearch) -> None:
        """The generated pages have its row and its name."""
        row = "| `madeup` | a provider for this test | web, news | `BOCHA_TIMEOUT_S` is set | yes |\n"
        assert row in settings_reference.reference()
        assert "documents, ddgs, madeup" in settings_reference.env_example()


class TestTheRows:
    def test_each_names_settings_that_exist(self) -> None:
        """A name in a row that is no setting would send a user looking for it."""
        assert {name for spec in SEARCH_PROVIDERS for name in spec.settings} <= set(Settings.model_fields)

    def test_every_kind_of_source_is_served(self) -> None:
        """Whatever a request may ask for, some provider serves."""
        assert {kind for spec in SEARCH_PROVIDERS for kind in spec.source_kinds} == set(get_args(SourceKind))

    def test_instances_share_a_row(self) -> None:
        """The second instance of a provider is known by its row; what a caller brings has none."""
        assert spec_of("searxng-2") is spec_of("searxng") is SEARCH_PROVIDERS[0]
        assert spec_of("glossary") is None

    @pytest.mark.parametrize("kind", get_args(SourceKind))
    @pytest.mark.parametrize(("name", "sample"), ADAPTERS)
    async def test_the_adapter_serves_what_its_row_says(
        self, name: str, sample: str, kind: SourceKind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An adapter says in `degraded` that it lacks a kind of source exactly where its row does not have it."""
        monkeypatch.setattr(DdgsWebSearchAdapter, "_session", lambda _: Engine())
        async with serving(recorded(sample)) as upstream:
            keys = {"BOCHA_API_KEY": KEY, "BRAVE_API_KEY": KEY}
            settings = Settings(
                SEARXNG_URL=upstream.url, BOCHA_BASE_URL=upstream.url, BRAVE_BASE_URL=upstream.url, **keys
            )
            resources = Resources(settings)
            spec = spec_of(name)
            assert spec is not None
            (adapter,) = spec.build(SearchParts(settings, resources, None, None))  # type: ignore[arg-type]
            answer = await adapter.search(WebSearchRequest(query="python", sources=(kind,)))
            await resources.aclose()
        lacking = any(kind in each.reason for each in answer.degraded)
        assert lacking == (kind not in spec.source_kinds)


class Engine:
    """In the place of the library ddgs."""

    def text(self, query: str, **_: Any) -> list[dict[str, str]]:
        return [{"title": "Python", "href": "https://python.org", "url": "https://python.org", "body": "A language."}]

    news = text


class TestWrongNames:
    @pytest.mark.parametrize("wrong", ["google", "searxng,google,yahoo"])
    def test_a_provider_that_does_not_exist_stops_the_start(self, wrong: str) -> None:
        """The message names the variable, what it may hold and an example, once."""
        with pytest.raises(
            SettingsError, match=r"^SEARCH_PROVIDERS must be 'searxng', .* Example: SEARCH_PROVIDERS=\S+$"
        ):
            build_platform(Settings(SEARCH_PROVIDERS=wrong))

    @pytest.mark.parametrize(
        "command", [("config",), ("doctor",), ("search", "x"), ("serve",), ("worker",), ("index", ".")]
    )
    def test_every_command_says_so(
        self,
        command: tuple[str, ...],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Whichever command is given, one line and no traceback; a worker says it where its log is."""
        monkeypatch.setenv("SEARCH_PROVIDERS", "google")
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
        monkeypatch.setattr(worker_command, "configure_logging", lambda *_: None)
        assert run(list(command), entry.wiring()) == 1
        said = capsys.readouterr().err + " ".join(str(vars(record)) for record in caplog.records)
        assert f"SEARCH_PROVIDERS must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}" in said.replace("\\'", "'")

    def test_the_option_refuses_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A slip in `--provider` is wrong use, and the choices are named."""
        assert run(["search", "x", "--provider", "google"], entry.wiring()) == 2
        assert f"'google' is not one of {', '.join(map(repr, NAMES))}" in capsys.readouterr().err


class TestTheFallback:
    @pytest.mark.parametrize(
        ("settings", "falls"),
        [
            ({}, True),
            ({"SEARCH_PROVIDERS": "ddgs"}, False),
            ({"BOCHA_API_KEY": KEY}, False),
            ({"LLM_PLATFORM_OFFLINE": True}, False),
        ],
    )
    def test_it_serves_where_nothing_is_configured(self, settings: dict[str, Any], falls: bool) -> None:
        """Who chose it is not told that it was chosen for them."""
        assert search.uses_fallback(Settings(**settings)) is falls


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PLATFORM_DATA_DIR", str(tmp_path_factory.mktemp("data")))
