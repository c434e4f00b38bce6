"""The stores of outcomes, background runs, spending and research runs: in DATABASE_URL, else in files of the data folder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.domain.ports.watch_store import IWatchStore
from modules.llm_platform.infrastructure.files.private_files import is_absent
from modules.llm_platform.infrastructure.resources import Resources, get_data_folder, is_installed
from modules.llm_platform.infrastructure.stores.database.file_check import SqliteFileCheck
from modules.llm_platform.infrastructure.stores.database.migrations import check_schema, migrate
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.research_runs import disk as disk_research_store
from shared.config import Settings, SettingsError

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.redis_client import RedisClient

FAILED_REQUESTS_MAX_BYTES = 256_000_000  # the oldest are dropped
FAILED_REQUESTS_TTL_DAYS = 1.0
POSTGRES_PACKAGES = ("psycopg", "psycopg_pool")  # packages of the extra
NOT_INSTALLED = 'DATABASE_URL needs a package that is not installed: pip install "llm-platform[postgres]"'
NO_DATABASE = "DATABASE_URL is not set: name the PostgreSQL database, such as postgresql://user:password@host/database"
INVALID_URL = (
    "DATABASE_URL cannot be read. Example: DATABASE_URL=postgresql://user:password@localhost:5432/llm_platform"
)


Store = TypeVar("Store")


@dataclass(frozen=True, slots=True)
class StoreDrivers(Generic[Store]):
    """The two drivers of a store: a class in `postgres.py` and one in `sqlite.py` of its `folder`, and the file of SQLite."""

    folder: str
    postgres: str
    sqlite: str
    file: str

    def open(self, settings: Settings, resources: Resources, database: Database | None, *limits: float) -> Store:
        """Return the store in the database, or without a database, in its file."""
        driver, name = ("postgres", self.postgres) if database else ("sqlite", self.sqlite)
        store_type = getattr(import_module(f"{__package__}.{self.folder}.{driver}"), name)
        store: Store = store_type(database or get_data_folder(settings) / self.file, *limits)
        return resources.closing(store) if hasattr(store, "aclose") else store


OUTCOMES: Final[StoreDrivers[IOutcomeStore]] = StoreDrivers(
    "outcomes", "PostgresOutcomeStore", "SqliteOutcomeStore", "outcomes.sqlite3"
)
FAILED_REQUESTS: Final[StoreDrivers[IFailedRequestStore]] = StoreDrivers(
    "failed_requests", "PostgresFailedRequestStore", "SqliteFailedRequestStore", "failed_requests.sqlite3"
)
RESEARCH_JOBS: Final[StoreDrivers[IResearchJobStore]] = StoreDrivers(
    "research_jobs", "PostgresResearchJobStore", "SqliteResearchJobStore", "researches.sqlite3"
)
WATCHES: Final[StoreDrivers[IWatchStore]] = StoreDrivers(
    "watches", "PostgresWatchStore", "SqliteWatchStore", "watches.sqlite3"
)
SPENDING: Final[StoreDrivers[ISpendingStore]] = StoreDrivers(
    "spending", "PostgresSpendingStore", "SqliteSpendingStore", "spending.sqlite3"
)
_FILES_WITHOUT_CHECK: Final = (  # with what is lost with each
    (SPENDING, "the budget of this day then begins anew"),
    (OUTCOMES, "a request that is sent again then gets another outcome"),
    (FAILED_REQUESTS, "the stored failed requests are then lost"),
)


def check_database(settings: Settings) -> None:
    """Raise SettingsError if DATABASE_URL is set and cannot be used without a change on this machine."""
    if settings.DATABASE_URL is None:
        return
    if not is_installed(POSTGRES_PACKAGES):
        raise SettingsError(NOT_INSTALLED)
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(settings.DATABASE_URL.get_secret_value())
    except ProgrammingError:  # its message may contain the password
        raise SettingsError(INVALID_URL) from None


def build_database(settings: Settings, resources: Resources) -> Database | None:
    """Return the database of DATABASE_URL, which is connected at the first call, or None if it is not set."""
    if settings.DATABASE_URL is None:
        return None
    url = settings.DATABASE_URL.get_secret_value()
    return resources.closing(Database(url, check_schema, metrics=resources.metrics))


def build_outcome_store(settings: Settings, resources: Resources, database: Database | None) -> IOutcomeStore:
    return OUTCOMES.open(settings, resources, database, settings.OUTCOME_TTL_DAYS)


def build_failed_request_store(
    settings: Settings, resources: Resources, database: Database | None
) -> IFailedRequestStore:
    return FAILED_REQUESTS.open(settings, resources, database, FAILED_REQUESTS_MAX_BYTES, FAILED_REQUESTS_TTL_DAYS)


def build_research_job_store(
    settings: Settings, resources: Resources, database: Database | None
) -> IResearchJobStore | None:
    """Return the store of background runs, or None if STORE_TTL_DAYS is 0."""
    if settings.STORE_TTL_DAYS == 0:
        return None
    return RESEARCH_JOBS.open(settings, resources, database, settings.STORE_TTL_DAYS)


def build_watch_store(settings: Settings, resources: Resources, database: Database | None) -> IWatchStore | None:
    """Return the store of watched questions, or None if STORE_TTL_DAYS is 0: their runs are background runs."""
    return None if settings.STORE_TTL_DAYS == 0 else WATCHES.open(settings, resources, database)


def build_spending_store(
    settings: Settings, resources: Resources, redis: RedisClient | None, database: Database | None
) -> ISpendingStore:
    """Return the store of spending. PostgreSQL is preferred to Redis: it neither evicts a sum nor loses it with its memory."""
    if redis is not None and database is None:
        from modules.llm_platform.infrastructure.stores.spending.redis import RedisSpendingStore

        return RedisSpendingStore(redis)
    return SPENDING.open(settings, resources, database)


def build_research_store(settings: Settings, resources: Resources, database: Database | None) -> IResearchStore:
    """Return the store in the database or in the data folder, or one that stores nothing if STORE_TTL_DAYS is 0."""
    if settings.STORE_TTL_DAYS == 0:
        return disk_research_store.NoResearchStore()
    if database is not None:
        from modules.llm_platform.infrastructure.stores.research_runs.postgres import PostgresResearchStore

        return resources.closing(PostgresResearchStore(database, settings.STORE_TTL_DAYS))
    return disk_research_store.DiskResearchStore(_get_store_folder(settings), settings.STORE_TTL_DAYS)


def _get_store_folder(settings: Settings) -> Path:
    return get_data_folder(settings) / "store"


def list_store_probes(
    redis: IHealthProbe | None,
    store: IResearchStore,
    rate_limits: IHealthProbe | None,
    jobs: IResearchJobStore | None,
    watches: IWatchStore | None,
) -> tuple[IHealthProbe, ...]:
    """Return the checks of Redis, the research store, shared rate limits, and the files of background runs and watched
    questions, if there are such. The check of a research store in PostgreSQL also checks background runs and watches.
    """
    return tuple(probe for probe in (redis, store, rate_limits, jobs, watches) if isinstance(probe, IHealthProbe))


def list_doctor_probes(settings: Settings, probes: tuple[IHealthProbe, ...]) -> tuple[IHealthProbe, ...]:
    """Return the checks `probes`, and a check of each other file, which reads the file for damage. /health must not do that.

    A folder of the research store is tried with a write.
    """
    folder = disk_research_store.StoreFolderProbe(_get_store_folder(settings))
    checks = [folder if isinstance(probe, disk_research_store.DiskResearchStore) else probe for probe in probes]
    if settings.DATABASE_URL is None:
        used = [
            (store, loss) for store, loss in _FILES_WITHOUT_CHECK if store is not SPENDING or not settings.REDIS_URL
        ]
        files = [(get_data_folder(settings) / store.file, loss) for store, loss in used]
        checks += [SqliteFileCheck(file, loss) for file, loss in files if not is_absent(file)]
    return tuple(checks)


async def migrate_database(settings: Settings) -> tuple[int, int]:
    """Bring the tables of DATABASE_URL to the latest version, and return the version before and after.

    Raises SettingsError without a usable DATABASE_URL, and StoreError.
    """
    if settings.DATABASE_URL is None:
        raise SettingsError(NO_DATABASE)
    check_database(settings)
    try:
        return await migrate(settings.DATABASE_URL.get_secret_value())
    except DatabaseError as error:
        raise StoreError(str(error), reason=error.reason) from error
