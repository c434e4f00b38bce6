"""Which stores serve: PostgreSQL with DATABASE_URL, else files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.support.cases import for_each

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.infrastructure.resources import Resources
from modules.llm_platform.infrastructure.stores import from_settings as stores
from modules.llm_platform.infrastructure.stores.outcomes.postgres import PostgresOutcomeStore
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore
from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import PROBE as RESEARCHES
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore, NoResearchStore
from modules.llm_platform.infrastructure.stores.research_runs.postgres import PostgresResearchStore
from modules.llm_platform.infrastructure.stores.watches.sqlite import PROBE as WATCHES
from shared.config import Settings, SettingsError

PASSWORD = "hush-hush-hush"
URL = f"postgresql://user:{PASSWORD}@127.0.0.1:9/database"


@pytest.mark.parametrize(
    ("url", "ttl_days", "outcomes", "researches"),
    [
        (None, 30.0, SqliteOutcomeStore, DiskResearchStore),
        (URL, 30.0, PostgresOutcomeStore, PostgresResearchStore),
        (URL, 0.0, PostgresOutcomeStore, NoResearchStore),
    ],
)
async def test_database_url_selects_the_stores(
    tmp_path: Path, url: str | None, ttl_days: float, outcomes: type, researches: type
) -> None:
    """Nothing is connected or created before the first call."""
    settings = Settings(DATABASE_URL=url, STORE_TTL_DAYS=ttl_days, LLM_PLATFORM_DATA_DIR=tmp_path / "data")
    resources = Resources(settings)
    database = stores.build_database(settings, resources)
    assert isinstance(stores.build_outcome_store(settings, resources, database), outcomes)
    store = stores.build_research_store(settings, resources, database)
    assert isinstance(store, researches)
    assert len(stores.list_store_probes(None, store, None, None, None)) == int(researches is not NoResearchStore)
    await resources.aclose()
    assert not (tmp_path / "data").exists()


async def test_the_doctor_names_a_damaged_file(tmp_path: Path) -> None:
    """Each file of SQLite without a check of its own: the message has its path and what to do. A sound file is no line."""
    settings = Settings(LLM_PLATFORM_DATA_DIR=tmp_path)
    assert stores.list_doctor_probes(settings, ()) == ()
    names = ("spending.sqlite3", "outcomes.sqlite3", "failed_requests.sqlite3")
    for name in names:
        with closing(sqlite3.connect(tmp_path / name)) as file, file:
            file.execute("CREATE TABLE rows (body TEXT)")
            file.executemany("INSERT INTO rows VALUES (?)", [("words " * 100,)] * 100)
    probes = stores.list_doctor_probes(settings, ())
    assert [probe.name for probe in probes] == list(names)
    assert [await probe.ping() for probe in probes] == [""] * 3
    (tmp_path / names[0]).write_bytes(b"no database" * 1000)
    whole = (tmp_path / names[1]).read_bytes()
    (tmp_path / names[1]).write_bytes(whole[:8192] + b"\xff" * 8192 + whole[16384:])  # the first page is sound
    for probe in probes[:2]:
        with pytest.raises(StoreError, match=f"{tmp_path / probe.name} is damaged .* move it away"):
            await probe.ping()
    assert await probes[2].ping() == ""
    assert stores.list_doctor_probes(settings.model_copy(update={"DATABASE_URL": SecretStr(URL)}), ()) == ()


def test_missing_package_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform is not built; without DATABASE_URL the package is not needed."""
    monkeypatch.setattr(stores, "is_installed", lambda packages: False)
    with pytest.raises(SettingsError, match=r'pip install "llm-platform\[postgres\]"'):
        build_platform(Settings(DATABASE_URL=URL))
    build_platform(Settings())


@pytest.mark.parametrize(
    "url", [f"postgresql://a b:{PASSWORD}@h:1/x", f"postgresql://u:{PASSWORD}@h/x?no_such_option=1"]
)
def test_unreadable_url_is_an_error_without_the_password(url: str) -> None:
    """The message gives an example and not the value."""
    with pytest.raises(SettingsError, match="DATABASE_URL cannot be read") as caught:
        build_platform(Settings(DATABASE_URL=url))
    assert PASSWORD not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_other_databases_are_refused() -> None:
    """The address must be PostgreSQL's."""
    with pytest.raises(SettingsError, match=r"DATABASE_URL must begin with postgresql://"):
        Settings.load(DATABASE_URL=f"mysql://u:{PASSWORD}@h/x")


@for_each("hosts", ["127.0.0.1:5432", "[::1]:5432", "a.test:5432,b.test:5433"])
def test_password_is_a_secret(hosts: str) -> None:
    """It is redacted in logs and answers, alone and in the address, also with several hosts."""
    settings = Settings(DATABASE_URL=f"postgresql://user:{PASSWORD}@{hosts}/x")
    assert PASSWORD in settings.secrets()
    assert PASSWORD not in repr(settings)


async def test_migration_needs_the_setting() -> None:
    """The command says what to set, with an example."""
    with pytest.raises(SettingsError, match=r"DATABASE_URL is not set: .*postgresql://"):
        await stores.migrate_database(Settings())


@pytest.mark.parametrize("damage", ["no database", "a folder"])
@pytest.mark.parametrize(("probe", "name"), [(RESEARCHES, "researches.sqlite3"), (WATCHES, "watches.sqlite3")])
async def test_a_file_that_cannot_be_used_is_reported(tmp_path: Path, damage: str, probe: str, name: str) -> None:
    """By health and by the doctor, before anybody asks for a run or a watch. A file that can be used, or that was not made, is
    no line of the health report.
    """
    file = tmp_path / name
    settings = Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path, LLM_PLATFORM_OFFLINE=True, EMBEDDER="none")
    async with build_platform(settings) as platform:
        assert probe not in (await platform.health.check()).components
        assert not file.exists()
        if damage == "a folder":
            file.mkdir()
        else:
            file.write_bytes(b"this is no database" * 1000)
        [found] = [result for result in await platform.doctor.examine() if result.subject == probe]
        assert found.verdict == "failed"
        assert f"{name} in the data folder cannot be used" in found.text
    async with build_platform(settings) as platform:
        report = await platform.health.check()
    assert report.components[probe].status == "unhealthy"
    assert name in report.components[probe].detail
    assert str(tmp_path) not in str(report)
