"""Webhooks: a signed message when a background run ends, delivered at least once (Standard Webhooks 1.0)."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.research_job_dtos import WebhookDelivery, WebhookStatus, kind_of_job
from modules.llm_platform.domain.exceptions import StoreError, WebhookError
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply, IWebhookSender
from modules.llm_platform.domain.telemetry.metrics import WEBHOOK_DELIVERIES

log = logging.getLogger(__name__)

HOUR_S: Final = 3600.0
# Seconds after each failed attempt, as the specification advises: ten attempts within about three days.
RETRY_DELAYS_S: Final = (
    5.0,
    300.0,
    1800.0,
    2 * HOUR_S,
    5 * HOUR_S,
    10 * HOUR_S,
    14 * HOUR_S,
    20 * HOUR_S,
    24 * HOUR_S,
)
JITTER: Final = 0.2  # a delay may be longer by up to this share, so that retries are spread
MAX_RETRY_AFTER_S: Final = 24 * HOUR_S
LEASE_S: Final = 60.0  # an attempt takes at most 20 s; after a crash, it is repeated when the lease ends
POLL_S: Final = 2.0
MAX_SENDING: Final = (
    32  # concurrent attempts; a client with 30 a minute, whose receivers hang for 20 s, takes 10 of them
)
NO_SECRET: Final = (
    "webhooks need a secret that signs them: set WEBHOOK_SECRET, for example to the output of "
    "`echo whsec_$(openssl rand -base64 32)`"
)


def sign(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header webhook-signature: one signature for each secret."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


class WebhookService:
    """Delivers the due webhooks of the store while it runs.

    - `open_sender` is called before the first message, because most processes send none.
    - `clock` returns the time in seconds since 1970.
    """

    def __init__(
        self,
        store: IResearchJobStore,
        open_sender: Callable[[], IWebhookSender],
        secrets: Sequence[bytes],
        metrics: IMetrics = NO_METRICS,
        delays_s: Sequence[float] = RETRY_DELAYS_S,
        redact: Callable[[bytes], bytes] = lambda body: body,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._open_sender = open_sender
        self._secrets = secrets
        self._metrics = metrics
        self._delays_s = delays_s
        self._redact = redact
        self._clock = clock
        self._due = asyncio.Event()

    @cached_property
    def _sender(self) -> IWebhookSender:
        return self._open_sender()

    async def check(self, url: str) -> None:
        """Raise WebhookError if no webhook can be sent there."""
        if not self._secrets:
            raise WebhookError(NO_SECRET)
        await self._sender.check(url)

    def wake(self) -> None:
        """Look for webhooks that are due."""
        self._due.set()

    async def run(self) -> None:
        sending: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._due.clear()
                try:
                    while len(sending) < MAX_SENDING and (delivery := await self._store.claim_webhook(LEASE_S)):
                        task = asyncio.create_task(self._deliver(delivery))
                        sending.add(task)
                        task.add_done_callback(sending.discard)
                except StoreError:
                    pass  # the worker of research runs logs it
                except Exception as error:  # a defect must not stop the webhooks for ever
                    log.error("unexpected error", exc_info=error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(POLL_S, *self._delays_s)):
                        await self._due.wait()
        finally:
            await cancel_and_wait(*sending)

    async def _deliver(self, delivery: WebhookDelivery) -> None:
        try:
            reply = await self.send(delivery.url, f"msg_{delivery.job.id}", encode_payload(delivery))
        except Exception as error:  # the outermost handler of this task: the attempt counts, and ten end the delivery
            log.error("unexpected error", exc_info=error, extra={"research": delivery.job.id})
            reply = DeliveryReply(is_delivered=False, reason="unexpected error")
        status, retry_in_s = self.plan_retry(delivery.attempt, reply)
        self._metrics.count(WEBHOOK_DELIVERIES, "retried" if status == "pending" else status)
        if not reply.is_delivered:
            details = {"attempt": delivery.attempt, "reason": reply.reason, "retry_in_s": round(retry_in_s)}
            log.warning("webhook not delivered", extra={**details, "research": delivery.job.id})
        with suppress(StoreError):  # the lease runs out, and it is delivered once more
            await self._store.settle_webhook(delivery, status, retry_in_s)

    async def send(self, url: str, message_id: str, body: bytes) -> DeliveryReply:
        """Send a signed message once. Every attempt to send the same message must use the same `message_id`."""
        if not self._secrets:
            return DeliveryReply(is_delivered=False, reason="WEBHOOK_SECRET is not set")
        body, timestamp = self._redact(body), int(self._clock())
        headers = {
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._secrets, message_id, timestamp, body),
        }
        return await self._sender.send(url, headers, body)

    def plan_retry(self, attempt: int, reply: DeliveryReply) -> tuple[WebhookStatus, float]:
        """Return the state after attempt number `attempt` (from 1), and the seconds until the next attempt (0.0 if none)."""
        if reply.is_delivered:
            return "delivered", 0.0
        if reply.is_final or attempt > len(self._delays_s):
            return "failed", 0.0
        delay_s = self._delays_s[attempt - 1] * random.uniform(1.0, 1.0 + JITTER)  # noqa: S311  no secret
        return "pending", max(delay_s, min(reply.retry_after_s, MAX_RETRY_AFTER_S))


def encode_payload(delivery: WebhookDelivery) -> bytes:
    """Return the JSON that is sent. The answer is not part of it: only the caller's API key can read it."""
    job = delivery.job
    data = job.model_dump(mode="json", include={"id", "status", "query", "depth", "created_at", "finished_at"})
    data["location"] = f"/research/{job.id}"
    if job.status == "failed":
        data["problem"] = delivery.result.get("problem")
    kind = f"research.{job.status}"
    output = (delivery.result.get("response") or {}).get("output") or {}
    if kind_of_job(job.api, {}) == "verification" and "changed" in output:
        kind = "verification.changed"
        data |= {"query": output["query"], "research_id": output["research_id"], "location": f"/verify/{job.id}"}
        data |= {"changed": len(output["changed"]), "no_longer_hold": output["no_longer_hold"]}
    message = {"type": kind, "timestamp": data["finished_at"], "data": data}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
