"""Deliver notices about watched questions by webhook and mail, at least once (docs/howto/watch-a-question.md)."""

import asyncio
import json
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from modules.llm_platform.application.services.webhook_service import LEASE_S, MAX_SENDING, WebhookService
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.mail_sender import IMailSender, Mail
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.watch_store import IWatchStore, NoticeUnreadableError, WatchSelection
from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply
from modules.llm_platform.domain.telemetry.metrics import WATCH_NOTICES
from modules.llm_platform.domain.text.counts import format_count

log = logging.getLogger(__name__)

MAX_LISTED_CHANGES: Final = 20  # of one run in one message; GET /watches/{id}/changes has all
CHANGED: Final = "watch.changed"
PAUSED: Final = "watch.paused"
UNREADABLE: Final = "a change cannot be read: the store is damaged, or a newer version wrote it"
MARKS: Final[Mapping[dtos.ChangeKind, str]] = {
    "changed": "Changed",
    "new": "New",
    "gone": "Gone",
    "disputed": "Disputed",
}


class WatchNotices:
    """Delivers the due notices of the store. `mail` is None if no mail is sent.

    A process with mail adds a mail to the notices of its runs, and only such a process sends mail. All processes that share the
    store therefore need the same mail and webhook settings.
    """

    def __init__(
        self,
        store: IWatchStore,
        webhooks: WebhookService,
        mail: IMailSender | None,
        metrics: IMetrics = NO_METRICS,
    ) -> None:
        self._store = store
        self._webhooks = webhooks
        self._mail = mail
        self._metrics = metrics
        self._senders: dict[dtos.NoticeChannel, Callable[[dtos.WatchNotice], Awaitable[DeliveryReply]]] = {
            "webhook": self._send_webhook
        }
        if mail is not None:
            self._senders["mail"] = lambda notice: mail.send(write_mail(notice))

    def list_channels(self, webhook: str | None) -> tuple[dtos.NoticeChannel, ...]:
        """Return the channels that notify the owner of a watch with this webhook."""
        webhooks: tuple[dtos.NoticeChannel, ...] = ("webhook",) if webhook else ()
        return (*webhooks, "mail") if self._mail is not None else webhooks

    async def check(self, webhook: str) -> None:
        """Raise WebhookError if no webhook can be sent there."""
        await self._webhooks.check(webhook)

    async def deliver_due(self, only: WatchSelection | None = None) -> None:
        """Try each due notice once; with `only`, the notices of these watches. Raises StoreError."""
        sending: set[asyncio.Task[None]] = set()
        try:
            while notice := await self._claim_readable(only):
                if len(sending) >= MAX_SENDING:
                    _, sending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(self._deliver(notice))
                task.add_done_callback(_log_defect)
                sending.add(task)
            if sending:
                await asyncio.wait(sending)
        finally:
            await cancel_and_wait(*sending)

    async def _claim_readable(self, only: WatchSelection | None) -> dtos.WatchNotice | None:
        """Return a due notice. One that cannot be read counts as an attempt: a newer program may read it later."""
        while True:
            try:
                return await self._store.claim_notice(LEASE_S, tuple(self._senders), only)
            except NoticeUnreadableError as error:
                await self._settle(error.notice, DeliveryReply(is_delivered=False, reason=UNREADABLE))

    async def _deliver(self, notice: dtos.WatchNotice) -> None:
        try:
            reply = await self._senders[notice.channel](notice)
        except Exception:  # the outermost handler of this task: the notice counts the attempt, and the error is logged
            await self._settle(notice, DeliveryReply(is_delivered=False, reason="unexpected error"))
            raise
        await self._settle(notice, reply)

    async def _settle(self, notice: dtos.WatchNotice, reply: DeliveryReply) -> None:
        status, retry_in_s = self._webhooks.plan_retry(notice.attempt, reply)
        self._metrics.count(WATCH_NOTICES, notice.channel, "retried" if status == "pending" else status)
        if not reply.is_delivered:
            details = {"channel": notice.channel, "attempt": notice.attempt, "reason": reply.reason}
            log.warning("notice not delivered", extra={**details, "watch": notice.watch.id})
        with suppress(StoreError):  # the lease runs out, and it is delivered once more
            await self._store.settle_notice(notice, status, retry_in_s)

    async def _send_webhook(self, notice: dtos.WatchNotice) -> DeliveryReply:
        if notice.url is None:
            return DeliveryReply(is_delivered=False, reason="the watch has no webhook", is_final=True)
        return await self._webhooks.send(notice.url, f"msg_{notice.id}", write_payload(notice))


def _log_defect(task: asyncio.Task[None]) -> None:
    """Log the error that ended a delivery. The other deliveries continue."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("unexpected error", exc_info=error)


def _name_kind(notice: dtos.WatchNotice) -> str:
    return CHANGED if notice.changes else PAUSED


def write_payload(notice: dtos.WatchNotice) -> bytes:
    """Return the JSON of a webhook. Unlike the answers of runs, changes are part of it: they are quotes of pages."""
    watch = notice.watch
    data: dict[str, Any] = {
        "id": watch.id,
        "query": watch.query,
        "run": notice.run,
        "location": f"/watches/{watch.id}/changes",
        "changes": [change.model_dump(mode="json") for change in notice.changes[:MAX_LISTED_CHANGES]],
        "changes_in_all": len(notice.changes),
    }
    if watch.state == "paused":
        data |= {"paused_because": watch.paused_because, "problem": watch.problem, "remedy": watch.remedy}
    at = notice.changes[0].at if notice.changes else watch.last_run_at
    message = {"type": _name_kind(notice), "timestamp": at.isoformat() if at else None, "data": data}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def write_mail(notice: dtos.WatchNotice) -> Mail:
    watch = notice.watch
    title = f"{len(notice.changes)} changed" if notice.changes else "paused"
    lines = [_join_lines(watch.query), "", *_write_mail(notice), f"Watch {watch.id}: /watches/{watch.id}/changes"]
    return Mail(notice.id, f"{title}: {_join_lines(watch.query)}", "\n".join(lines) + "\n")


def _join_lines(text: str) -> str:
    """Return the text of a page or a caller in one line without control characters, so that it cannot add lines to the mail."""
    line = " ".join(text.split())
    return "".join(char for char in line if unicodedata.category(char) not in ("Cc", "Cs"))


def _write_mail(notice: dtos.WatchNotice) -> Iterator[str]:
    for change in notice.changes[:MAX_LISTED_CHANGES]:
        yield f"{MARKS[change.kind]}: {_join_lines(change.fact)}"
        for name, side in (("Before", change.was), ("Now", change.now)):
            if side is not None:
                yield f"  {name} ({side.at:%Y-%m-%d}): {_join_lines(side.quote)}"
                yield f"    {_join_lines(side.source)}"
        yield ""
    if len(notice.changes) > MAX_LISTED_CHANGES:
        hidden = len(notice.changes) - MAX_LISTED_CHANGES
        yield f"{format_count(hidden, 'more is', 'more are')} listed at the address below."
    if notice.watch.state == "paused":
        why = filter(None, (notice.watch.problem, notice.watch.remedy))
        yield from ("This watch is paused.", *map(_join_lines, why))
