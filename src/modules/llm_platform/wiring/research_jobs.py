"""Background runs: their store, their webhooks, and the service."""

from functools import partial

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_job_worker import JobOptions
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.tracing import ITracer
from modules.llm_platform.domain.ports.webhook_sender import IWebhookSender
from modules.llm_platform.infrastructure.stores.database.postgres import Database
from modules.llm_platform.wiring.resources import Resources, data_folder
from shared.config import Settings
from shared.setting_types import decode_webhook_secret

FILE = "researches.sqlite3"


def build_research_job_store(
    settings: Settings, resources: Resources, database: Database | None
) -> IResearchJobStore | None:
    """Return the store in the database or in the data folder; None if STORE_TTL_DAYS is 0."""
    if settings.STORE_TTL_DAYS == 0:
        return None
    if database is not None:
        from modules.llm_platform.infrastructure.stores.research_jobs.postgres import PostgresResearchJobStore

        return PostgresResearchJobStore(database, settings.STORE_TTL_DAYS)
    from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import SqliteResearchJobStore

    store = SqliteResearchJobStore(data_folder(settings) / FILE, settings.STORE_TTL_DAYS)
    resources.on_close(store.aclose)
    return store


def build_webhooks(
    settings: Settings, resources: Resources, store: IResearchJobStore | None, metrics: IMetrics
) -> WebhookService | None:
    if store is None:
        return None
    secrets = [decode_webhook_secret(secret.get_secret_value()) for secret in settings.WEBHOOK_SECRET]
    open_sender = partial(_open_sender, settings, resources)
    return WebhookService(store, open_sender, secrets, metrics, redact=resources.redactor.data)


def _open_sender(settings: Settings, resources: Resources) -> IWebhookSender:
    from modules.llm_platform.infrastructure.guarded_webhook_sender import GuardedWebhookSender
    from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
    from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts, Guard, SystemResolver

    resolver = SystemResolver()
    resources.on_close(resolver.aclose)
    guard = Guard(resolver, AllowedHosts(settings.WEBHOOK_ALLOWED_HOSTS))
    return GuardedWebhookSender(guard, PinnedConnections(), offline=settings.LLM_PLATFORM_OFFLINE)


def build_research_jobs(
    settings: Settings,
    resources: Resources,
    research: ResearchService,
    store: IResearchJobStore | None,
    webhooks: WebhookService | None,
    metrics: IMetrics,
    tracer: ITracer,
) -> ResearchJobService:
    options = JobOptions(max_running=settings.MAX_BACKGROUND_RESEARCHES)
    service = ResearchJobService(research, store, webhooks, options, metrics, tracer)
    resources.on_close(service.aclose)
    return service
