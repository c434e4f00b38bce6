"""A PostgreSQL for each file of tests, and a database of its own for each test. A browser and a server of the page for all.

The order of the files, too: see `FIRST`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.services.browser import OFFLINE, PATIENCE_MS, chromium, serving_page
from tests.services.postgres_server import PostgresServer, opened
from tests.support.patient_command import REPLY_S

from modules.llm_platform.infrastructure import redis_client
from modules.llm_platform.infrastructure.stores.database.migrations import migrate
from modules.llm_platform.infrastructure.stores.database.postgres import Database

HERE = Path(__file__).parent
FIRST = (  # they take minutes, the longest one first
    "test_clients.py",
    "test_broker_cluster.py",
    "test_kafka_real.py",
    "test_kafka_classic.py",
    "test_crashes_kafka.py",
    "test_crashes_postgres.py",
    "test_crashes_mock.py",
    "test_kafka_security.py",
    "test_tutorial_kafka.py",
    "test_rights.py",
    "test_real_broker.py",
    "test_clock_jumps.py",
    "test_postgres_faults.py",
    "test_postgres_researches.py",
    "test_proxy.py",
    "test_postgres_stores.py",
    "test_redis.py",
    "test_doctor.py",
    "test_page_verification.py",
    "test_page_speed.py",
)
LAST = "test_page"  # tests of these files are shared out one by one, see tests/conftest.py: they fill the gaps


@pytest.hookimpl(trylast=True)  # runs after the shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The other workers would wait for one that began a long file at the end, or a file that one worker runs whole."""
    items.sort(key=lambda item: _position(item.path.name) if item.path.parent == HERE else -1)


def _position(file: str) -> int:
    return FIRST.index(file) if file in FIRST else len(FIRST) + file.startswith(LAST)


@pytest.fixture(autouse=True)
def _patient_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Redis may take longer than the half second that a server waits for it. Processes that a test starts
    wait as long with tests/support/patient_command.py.
    """
    monkeypatch.setattr(redis_client, "REDIS_TIMEOUT_S", REPLY_S)
    monkeypatch.setattr(redis_client, "CALL_TIMEOUT_S", 2 * REPLY_S)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """The address of a database with the tables."""
    url = postgres.new_database()
    await migrate(url)
    return url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with opened(url) as database:
        yield database


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests of a worker: each visit has a context, and with it a storage, of its own."""
    expect.set_options(timeout=PATIENCE_MS)
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def base(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """One server for all tests that store nothing on it: they play its answers in the browser."""
    async with serving_page(tmp_path_factory.mktemp("page"), *OFFLINE) as address:
        yield address


@pytest_asyncio.fixture(loop_scope="session")
async def own_base(tmp_path: Path) -> AsyncIterator[str]:
    """A server for one test, which stores threads on it."""
    async with serving_page(tmp_path, *OFFLINE) as address:
        yield address
