"""What a webhook says and when it is sent again, in process (tests/integration/test_webhooks.py sends over HTTP)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping

import pytest
from tests.fakes.research_job_store import HOOK, MANY, MemoryResearchJobStore, event, new_job
from tests.support.clock import Clock

from modules.llm_platform.application.services.webhook_service import (
    JITTER,
    MAX_RETRY_AFTER_S,
    RETRY_DELAYS_S,
    WebhookService,
)
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchProgress
from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply, IWebhookSender
from modules.llm_platform.domain.privacy.redaction import Redactor

SIGNING_SECRET = b"0123456789abcdef"
SECRET = "sk-0123456789abcdef"
PATIENCE_S = 30.0


class FakeSender(IWebhookSender):
    """Keeps each message, and answers with the next of `replies`; then with success."""

    def __init__(self, *replies: DeliveryReply) -> None:
        self._replies = list(replies)
        self.sent: list[tuple[Mapping[str, str], bytes]] = []

    async def check(self, url: str) -> None:
        """All addresses are good."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        self.sent.append((headers, body))
        return self._replies.pop(0) if self._replies else DeliveryReply(is_delivered=True, reason="")


@pytest.fixture
async def store(clock: Clock) -> AsyncIterator[MemoryResearchJobStore]:
    store = MemoryResearchJobStore(clock=clock)
    yield store
    await store.aclose()


async def end_research(store: MemoryResearchJobStore, problem: str) -> None:
    await store.add(new_job("a", webhook=HOOK), MANY)
    job = await store.claim("worker", 60.0)
    assert job is not None
    data = f'{{"type": "failed", "problem": {{"code": "llm", "detail": "{problem}"}}}}'
    await store.finish(job, "failed", [event(1, "failed", data)], ResearchProgress())


async def deliver(store: MemoryResearchJobStore, sender: FakeSender, attempts: int) -> None:
    """Run the service until it has made this many attempts and stored their outcome."""
    redact = Redactor([SECRET]).data
    task = asyncio.create_task(
        WebhookService(store, lambda: sender, [SIGNING_SECRET], redact=redact, clock=store._clock).run()
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(sender.sent) < attempts or (await webhook(store))[1] < attempts:
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def webhook(store: MemoryResearchJobStore) -> tuple[str, int]:
    job = await store.get("", "a")
    assert job is not None
    assert job.webhook is not None
    return job.webhook.status, job.webhook.attempts


async def test_a_message_has_no_secret_and_its_signature_is_that_of_what_is_sent(store: MemoryResearchJobStore) -> None:
    """A problem that repeats a configured key does not give it to the receiver."""
    await end_research(store, f"401 for the key {SECRET}")
    sender = FakeSender()
    await deliver(store, sender, 1)
    [(headers, body)] = sender.sent
    assert b"401 for the key [redacted]" in body
    assert SECRET.encode() not in body
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(SIGNING_SECRET, signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("asked_s", "least_s", "most_s"),
    [
        (0.0, RETRY_DELAYS_S[0], RETRY_DELAYS_S[0] * (1 + JITTER)),
        (600.0, 600.0, 600.0),
        (365 * 86_400.0, MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S),
    ],
    ids=["none", "later", "a-year"],
)
async def test_a_receiver_puts_an_attempt_off_for_a_day_at_most(
    store: MemoryResearchJobStore, clock: Clock, asked_s: float, least_s: float, most_s: float
) -> None:
    """Its Retry-After counts where it is longer than our delay; a year of it does not outlive the research."""
    await end_research(store, "down")
    reply = DeliveryReply(is_delivered=False, reason="503", retry_after_s=asked_s)
    await deliver(store, FakeSender(reply), 1)
    clock.now += least_s - 0.5
    assert await store.claim_webhook(60.0) is None
    clock.now += most_s - least_s + 1.0
    assert await store.claim_webhook(60.0) is not None


class DefectiveSender(FakeSender):
    """Raises an unexpected error at its first message."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        reply = await super().send(url, headers, body)
        if len(self.sent) == 1:
            raise ValueError("a defect")
        return reply


async def test_a_defect_in_a_delivery_is_an_attempt(
    store: MemoryResearchJobStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the message is sent again when a failed one would be: it was sent each minute for ever."""
    await end_research(store, "down")
    sender = DefectiveSender()
    await deliver(store, sender, 1)
    assert "a defect" in caplog.text
    clock.now += RETRY_DELAYS_S[0] * (1 + JITTER) + 1.0
    await deliver(store, sender, 2)
    assert await webhook(store) == ("delivered", 2)
