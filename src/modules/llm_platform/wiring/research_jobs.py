"""Background runs: their webhooks, and the service."""

from collections.abc import Mapping
from functools import partial

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_job_worker import JobOptions, JobRunner
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.site_crawl_job import SiteCrawlRunner
from modules.llm_platform.application.services.site_crawl_service import SiteCrawlService
from modules.llm_platform.application.services.verification_job import VerificationRunner
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.services.watch_job import WatchRunner
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain.dtos.research_job_dtos import JobKind
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.tracing import ITracer
from modules.llm_platform.domain.ports.webhook_sender import IWebhookSender
from modules.llm_platform.infrastructure.resources import Resources
from shared.config import Settings
from shared.setting_types import decode_webhook_secret


def build_webhooks(settings: Settings, resources: Resources, store: IResearchJobStore | None) -> WebhookService | None:
    if store is None:
        return None
    secrets = [decode_webhook_secret(secret.get_secret_value()) for secret in settings.WEBHOOK_SECRET]
    open_sender = partial(_open_sender, settings, resources)
    return WebhookService(store, open_sender, secrets, resources.metrics, redact=resources.redactor.data)


def _open_sender(settings: Settings, resources: Resources) -> IWebhookSender:
    from modules.llm_platform.infrastructure.guarded_webhook_sender import GuardedWebhookSender
    from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections

    guard = resources.guard(settings.WEBHOOK_ALLOWED_HOSTS)
    return GuardedWebhookSender(guard, PinnedConnections(), offline=settings.LLM_PLATFORM_OFFLINE)


def build_research_jobs(
    settings: Settings,
    resources: Resources,
    research: ResearchService,
    store: IResearchJobStore | None,
    webhooks: WebhookService | None,
    tracer: ITracer,
    site_crawl: SiteCrawlService,
    verification: VerificationService,
    watch_runner: WatchRunner,
) -> ResearchJobService:
    options = JobOptions(max_running=settings.MAX_BACKGROUND_RESEARCHES)
    others: Mapping[JobKind, JobRunner] = {
        "crawl": SiteCrawlRunner(site_crawl),
        "verification": VerificationRunner(verification),
        "watch": watch_runner,
    }
    return resources.closing(ResearchJobService(research, store, webhooks, options, resources.metrics, tracer, others))
