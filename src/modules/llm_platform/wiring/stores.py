"""The stores of outcomes and of research runs: PostgreSQL with DATABASE_URL, else files in the data folder."""

from pathlib import Path

from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.infrastructure.stores.database.migrations import check_schema, migrate
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.research_runs import disk as disk_research_store
from modules.llm_platform.wiring.resources import Resources, data_folder, is_installed
from shared.config import Settings, SettingsError

FAILED_REQUESTS_MAX_BYTES = 256_000_000  # the oldest are dropped
FAILED_REQUESTS_TTL_DAYS = 1.0
POSTGRES_PACKAGES = ("psycopg", "psycopg_pool")  # of the extra
NOT_INSTALLED = 'DATABASE_URL needs a package that is not installed: pip install "llm-platform[postgres]"'
NO_DATABASE = "DATABASE_URL is not set: name the PostgreSQL database, such as postgresql://user:password@host/database"
INVALID_URL = (
    "DATABASE_URL cannot be read. Example: DATABASE_URL=postgresql://user:password@localhost:5432/llm_platform"
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


def build_database(settings: Settings, resources: Resources, metrics: IMetrics = NO_METRICS) -> Database | None:
    """Return the database of DATABASE_URL, which is connected at the first call; None if it is not set."""
    if settings.DATABASE_URL is None:
        return None
    database = Database(settings.DATABASE_URL.get_secret_value(), check_schema, metrics=metrics)
    resources.on_close(database.aclose)
    return database


def build_outcome_store(settings: Settings, resources: Resources, database: Database | None) -> IOutcomeStore:
    if database is not None:
        from modules.llm_platform.infrastructure.stores.outcomes.postgres import PostgresOutcomeStore

        shared = PostgresOutcomeStore(database, settings.OUTCOME_TTL_DAYS)
        resources.on_close(shared.aclose)
        return shared
    from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore

    store = SqliteOutcomeStore(data_folder(settings) / "outcomes.sqlite3", settings.OUTCOME_TTL_DAYS)
    resources.on_close(store.aclose)
    return store


def build_failed_request_store(
    settings: Settings, resources: Resources, database: Database | None
) -> IFailedRequestStore:
    limits = FAILED_REQUESTS_MAX_BYTES, FAILED_REQUESTS_TTL_DAYS
    if database is not None:
        from modules.llm_platform.infrastructure.stores.failed_requests.postgres import PostgresFailedRequestStore

        return PostgresFailedRequestStore(database, *limits)
    from modules.llm_platform.infrastructure.stores.failed_requests.sqlite import SqliteFailedRequestStore

    return SqliteFailedRequestStore(data_folder(settings) / "failed_requests.sqlite3", *limits)


def build_research_store(settings: Settings, resources: Resources, database: Database | None) -> IResearchStore:
    """Return the store in the database or in the data folder, or one that stores nothing if STORE_TTL_DAYS is 0."""
    if settings.STORE_TTL_DAYS == 0:
        return disk_research_store.NoResearchStore()
    if database is not None:
        from modules.llm_platform.infrastructure.stores.research_runs.postgres import PostgresResearchStore

        shared = PostgresResearchStore(database, settings.STORE_TTL_DAYS)
        resources.on_close(shared.aclose)
        return shared
    return disk_research_store.DiskResearchStore(_store_folder(settings), settings.STORE_TTL_DAYS)


def _store_folder(settings: Settings) -> Path:
    return data_folder(settings) / "store"


def store_probes(
    redis: IHealthProbe | None,
    store: IResearchStore,
    rate_limits: IHealthProbe | None,
    jobs: IResearchJobStore | None,
) -> tuple[IHealthProbe, ...]:
    """Return the checks of Redis, the research store, shared rate limits and the file of background runs, if there are such.
    The check of a research store in PostgreSQL is that of background runs, too.
    """
    return tuple(probe for probe in (redis, store, rate_limits, jobs) if isinstance(probe, IHealthProbe))


def doctor_probes(settings: Settings, probes: tuple[IHealthProbe, ...]) -> tuple[IHealthProbe, ...]:
    """Return these checks. A folder of the research store is tried with a write, which /health must not do."""
    folder = disk_research_store.StoreFolderProbe(_store_folder(settings))
    return tuple(folder if isinstance(each, disk_research_store.DiskResearchStore) else each for each in probes)


async def migrate_database(settings: Settings) -> tuple[int, int]:
    """Bring the tables of DATABASE_URL to the latest version; return the version before and after.

    Raises SettingsError without a usable DATABASE_URL, and StoreError.
    """
    if settings.DATABASE_URL is None:
        raise SettingsError(NO_DATABASE)
    check_database(settings)
    try:
        return await migrate(settings.DATABASE_URL.get_secret_value())
    except DatabaseError as error:
        raise StoreError(str(error)) from error
