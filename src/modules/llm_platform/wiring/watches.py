"""Watched questions: their service and worker, and mail to the operator."""

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.watch_notices import WatchNotices
from modules.llm_platform.application.services.watch_service import WatchService
from modules.llm_platform.application.services.watch_worker import WatchTools, WatchWorker
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain.ports.mail_sender import IMailSender
from modules.llm_platform.domain.ports.tracing import ITracer
from modules.llm_platform.domain.ports.watch_store import IWatchStore
from modules.llm_platform.infrastructure.resources import Resources, is_out_of_reach
from shared.config import Settings, SettingsError


def check_mail(settings: Settings) -> None:
    """Raise SettingsError if mail has a server without recipients, or recipients without a server."""
    if settings.WATCH_SMTP_URL is not None and not settings.WATCH_MAIL_TO:
        raise SettingsError("WATCH_SMTP_URL needs a recipient: set WATCH_MAIL_TO, such as team@example.org")
    if settings.WATCH_MAIL_TO and settings.WATCH_SMTP_URL is None:
        raise SettingsError("WATCH_MAIL_TO needs a mail server: set WATCH_SMTP_URL, such as smtps://user:password@host")


def build_mail_sender(settings: Settings) -> IMailSender | None:
    """Return the sender of WATCH_SMTP_URL, or None if mail is not set up, or if offline mode forbids the server."""
    if settings.WATCH_SMTP_URL is None:
        return None
    from modules.llm_platform.infrastructure.smtp_mail_sender import SmtpMailSender

    url = settings.WATCH_SMTP_URL.get_secret_value()
    if is_out_of_reach(settings, url):
        return None
    return SmtpMailSender(url, settings.WATCH_MAIL_FROM or settings.WATCH_MAIL_TO[0], settings.WATCH_MAIL_TO)


def build_watches(
    settings: Settings,
    resources: Resources,
    research: ResearchService,
    jobs: ResearchJobService,
    store: IWatchStore | None,
    webhooks: WebhookService | None,
    tracer: ITracer,
) -> WatchService:
    if store is None or webhooks is None:
        return WatchService(research, jobs, None, None, None)
    notices = WatchNotices(store, webhooks, build_mail_sender(settings), resources.metrics)
    tools = WatchTools(
        store, jobs, notices, resources.metrics, tracer, lambda request: research.estimate(request).cost_usd
    )
    worker = WatchWorker(tools)
    return resources.closing(WatchService(research, jobs, store, notices, worker))
