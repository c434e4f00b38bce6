"""The table of search providers: all uses of a provider derive from its row."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from scripts import settings_reference
from tests.support.cases import for_each
from tests.support.loopback_upstream import reply, serving
from tests.unit.presentation.cli.fakes import FakePlatform
from tests.unit.presentation.cli.fakes import wiring as fake_wiring

from modules.llm_platform import __main__ as entry
from modules.llm_platform.application.services.doctor_service import NOT_TRIED
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest
from modules.llm_platform.infrastructure.resources import Resources
from modules.llm_platform.infrastructure.search.from_settings import chain
from modules.llm_platform.infrastructure.search.from_settings import providers as search
from modules.llm_platform.infrastructure.search.from_settings.providers import (
    SEARCH_PROVIDERS,
    SearchParts,
    SearchProviderSpec,
    find_spec,
)
from modules.llm_platform.presentation.cli.commands import worker as worker_command
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.testing import FakeWebSearch
from shared.config import Settings, SettingsError
from shared.exceptions import AppException

ROOT = Path(__file__).parents[3]
KEY = "sk-bocha-0123456789"
NAMES = [spec.name for spec in SEARCH_PROVIDERS]
LOCAL = ("documents",)  # a folder, not a service


@pytest.fixture
def extra_provider(monkeypatch: pytest.MonkeyPatch) -> FakeWebSearch:
    """Add a paid provider that exists only as a row."""
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


class TestNewRow:
    def test_setting_and_auto_accept_it(self, extra_provider: FakeWebSearch) -> None:
        """It can be named, and `auto` uses it if its settings exist."""
        assert search.search_order(Settings(SEARCH_PROVIDERS="madeup,ddgs")) == ("madeup", "ddgs")
        assert search.search_order(Settings(BOCHA_TIMEOUT_S=7)) == ("madeup",)

    def test_command_line_accepts_it(self, extra_provider: FakeWebSearch) -> None:
        """`--provider` accepts its name, and the help lists it."""
        platform = FakePlatform()
        doors = fake_wiring(platform, order=("madeup",), providers=search.list_provider_names)
        assert run(["search", "x", "--provider", "madeup", "--json"], doors) == 0
        assert platform.settings.SEARCH_PROVIDERS == ("madeup",)
        with redirect_stdout(io.StringIO()) as out:
            run(["search", "--help"], doors)
        assert f"<{'|'.join((*NAMES, 'madeup'))}>" in out.getvalue()

    async def test_doctor_searches_only_with_yes(self, extra_provider: FakeWebSearch) -> None:
        """A paid provider is searched only with --yes, once per source of the row."""
        settings = Settings(SEARCH_PROVIDERS="madeup", BOCHA_TIMEOUT_S=7)
        async with build_platform(settings) as platform:
            first, *_ = await platform.doctor.examine()
            assert (first.subject, first.verdict, first.text) == ("madeup", "ok", NOT_TRIED)
            assert extra_provider.requests == []
            await platform.doctor.examine(spend=True)
        assert [request.sources for request in extra_provider.requests] == [("web",), ("news",)]

    async def test_doctor_names_the_missing_setting(self, extra_provider: FakeWebSearch) -> None:
        """A provider without its setting fails with the name of the setting, and is not called."""
        async with build_platform(Settings(SEARCH_PROVIDERS="madeup")) as platform:
            first, *_ = await platform.doctor.examine(spend=True)
        assert (first.subject, first.verdict) == ("madeup", "failed")
        assert "set BOCHA_TIMEOUT_S" in first.text
        assert extra_provider.requests == []

    def test_generated_pages_name_it(self, extra_provider: FakeWebSearch) -> None:
        """The settings reference has its row, .env.example its name."""
        row = "| `madeup` | a provider for this test | web, news | `BOCHA_TIMEOUT_S` is set | yes |\n"
        assert row in settings_reference.reference()
        assert "documents, ddgs, madeup" in settings_reference.env_example()


class TestRows:
    @pytest.mark.parametrize("name", [name for name in NAMES if name not in LOCAL])
    def test_each_service_has_a_contract_class(self, name: str) -> None:
        """Each row of a service has a subclass of the contract class that compares the adapter with the row."""
        path = ROOT / f"tests/contracts/test_{name}_web_search.py"
        text = path.read_text("utf-8") if path.is_file() else ""
        assert re.search(r"\b(?:SearchRow|AnsweredSearch|KeyedSearch)Contract\)", text), (
            f"{name} needs tests/contracts/{path.name}: a subclass of AnsweredSearchContract or SearchRowContract"
        )

    def test_settings_of_rows_exist(self) -> None:
        """Every setting of a row is a field of Settings."""
        assert {name for spec in SEARCH_PROVIDERS for name in spec.settings} <= set(Settings.model_fields)

    def test_every_source_is_supported(self) -> None:
        """Every source is supported by a provider."""
        assert {kind for spec in SEARCH_PROVIDERS for kind in spec.source_kinds} == set(get_args(SourceKind))

    def test_instances_have_the_row_of_their_provider(self) -> None:
        """The second instance of a provider has its row; an adapter of the caller has none."""
        assert find_spec("searxng-2") is find_spec("searxng") is SEARCH_PROVIDERS[0]
        assert find_spec("glossary") is None

    @pytest.mark.parametrize(
        "spec", [spec for spec in SEARCH_PROVIDERS if spec.name not in LOCAL], ids=lambda spec: spec.name
    )
    async def test_adapter_uses_the_settings_of_its_row(self, spec: SearchProviderSpec) -> None:
        """The adapter of a row calls the address, and sends the key, of the settings of the row."""
        fields = [name for name in spec.settings if name.endswith(("_API_KEY", "_URL", "_URLS"))]
        async with serving(reply(500)) as upstream:
            values = {"KEY": KEY, "URL": upstream.url, "URLS": {spec.name: upstream.url}}
            settings = Settings(**{name: values[name.rpartition("_")[2]] for name in fields})
            resources = Resources(settings)
            (adapter,) = spec.build(SearchParts(settings, resources, None))  # type: ignore[arg-type]
            assert adapter.name == spec.name
            if fields:  # ddgs has no setting
                with pytest.raises(AppException):
                    await adapter.search(WebSearchRequest(query="python"))
                assert upstream.requests, f"{spec.name} does not call the address of its settings"
            sent = " ".join(text for request in upstream.requests for text in (request.path, *request.headers.values()))
            assert (KEY in sent) == any(name.endswith("_KEY") for name in fields)
            await resources.aclose()


class TestUnknownProviders:
    @pytest.mark.parametrize("wrong", ["google", "searxng,google,yahoo"])
    def test_unknown_provider_is_a_settings_error(self, wrong: str) -> None:
        """The message names the variable, the valid names and an example."""
        with pytest.raises(
            SettingsError, match=r"^SEARCH_PROVIDERS must be 'searxng', .* Example: SEARCH_PROVIDERS=\S+$"
        ):
            build_platform(Settings(SEARCH_PROVIDERS=wrong))

    @pytest.mark.parametrize(
        "command", [("config",), ("doctor",), ("search", "x"), ("serve",), ("worker",), ("index", ".")]
    )
    def test_every_command_reports_it(
        self,
        command: tuple[str, ...],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Each command prints one line without a traceback; a worker logs it."""
        monkeypatch.setenv("SEARCH_PROVIDERS", "google")
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
        monkeypatch.setattr(worker_command, "configure_logging", lambda *_: None)
        assert run(list(command), entry.wiring()) == 1
        output = capsys.readouterr().err + " ".join(str(vars(record)) for record in caplog.records)
        assert f"SEARCH_PROVIDERS must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}" in output.replace(
            "\\'", "'"
        )

    def test_option_refuses_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        """An unknown `--provider` is a usage error that names the choices."""
        assert run(["search", "x", "--provider", "google"], entry.wiring()) == 2
        assert f"'google' is not one of {', '.join(map(repr, NAMES))}" in capsys.readouterr().err


class TestFallback:
    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({}, True),
            ({"SEARCH_PROVIDERS": "ddgs"}, False),
            ({"BOCHA_API_KEY": KEY}, False),
            ({"LLM_PLATFORM_OFFLINE": True}, False),
        ],
    )
    def test_fallback_is_used_without_configured_providers(self, settings: dict[str, Any], expected: bool) -> None:
        """An explicit choice of the fallback does not count."""
        assert search.uses_fallback(Settings(**settings)) is expected


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PLATFORM_DATA_DIR", str(tmp_path_factory.mktemp("data")))


def test_addresses_of_services_are_part_of_their_row() -> None:
    """SEARCH_BASE_URLS takes the services without a setting of their own for it; their address tells stored reports apart."""
    with pytest.raises(
        SettingsError, match=r"^SEARCH_BASE_URLS must name .*'exa'.* Example: SEARCH_BASE_URLS=exa=https://\S+$"
    ):
        build_platform(Settings(SEARCH_BASE_URLS="brave=https://gateway.example"))
    assert "https://gateway.example" in search.list_search_addresses(
        Settings(SEARCH_BASE_URLS="EXA=https://gateway.example/")
    )


def test_auto_skips_a_provider_that_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` does not use a row that is `named_only`, though its setting is there; SEARCH_PROVIDERS may name it."""
    row = replace(find_spec("bocha") or SEARCH_PROVIDERS[0], named_only=True)
    monkeypatch.setattr(search, "SEARCH_PROVIDERS", (row, *(spec for spec in SEARCH_PROVIDERS if spec.name != "bocha")))
    assert search.search_order(Settings(BOCHA_API_KEY=KEY)) == ("ddgs",)
    assert search.search_order(Settings(BOCHA_API_KEY=KEY, SEARCH_PROVIDERS="bocha")) == ("bocha",)
    assert "never: name it, and set `BOCHA_API_KEY`" in settings_reference._provider_row(row)


def test_rate_limit_is_a_setting_of_its_provider() -> None:
    """The error of a rate limit names the setting of its own provider, and none for a provider without one."""
    for spec in SEARCH_PROVIDERS:
        _, named = chain._find_rpm(spec.name, Settings(_env_file=None))
        assert named in (*spec.settings, chain.THE_LIMIT)
        assert (named == "SEARXNG_RPM") == (spec.name == "searxng")


@for_each(
    ("settings", "kinds"),
    [
        ({}, ("web", "news")),
        ({"SEARXNG_URL": "http://localhost:1"}, ("web", "news", "academic")),
        ({"SEARCH_PROVIDERS": "searxng", "SEARXNG_URL": ""}, ()),
        ({"SEARCH_PROVIDERS": "bocha,documents", "BOCHA_API_KEY": KEY}, ("web",)),
        ({"DOCUMENTS_DIR": "."}, ("documents",)),
        ({"DOCUMENTS_DIR": ".", "SEARXNG_URL": "http://localhost:1"}, ("web", "news", "academic", "documents")),
        ({"LLM_PLATFORM_OFFLINE": True}, ()),
        ({"LLM_PLATFORM_OFFLINE": True, "DOCUMENTS_DIR": ".", "SEARXNG_URL": "http://localhost:1"}, ("documents",)),
    ],
)
async def test_what_can_be_searched_follows_from_the_settings(
    settings: dict[str, Any], kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """Without a folder and an index there are no documents, though their provider is named."""
    given = Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path, **settings)
    async with build_platform(given) as platform:
        assert platform.source_kinds == kinds


async def test_an_index_can_be_searched(tmp_path: Path) -> None:
    folder = tmp_path / "index" / "documents"
    folder.mkdir(parents=True)
    (folder / "current").touch()
    (folder / "passages.sqlite3").touch()
    async with build_platform(Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path)) as platform:
        assert platform.source_kinds == ("web", "news", "documents")
