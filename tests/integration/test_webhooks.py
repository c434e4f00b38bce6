"""Webhooks to a misbehaving receiver on loopback: signatures, retries and at-least-once delivery."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from standardwebhooks.webhooks import Webhook
from tests.fakes.metrics import MemoryMetrics
from tests.fakes.research_job_store import MANY, PROBLEM, TTL_DAYS, event, new_job
from tests.kafka.child_process import free_port
from tests.support.cases import for_each
from tests.support.loopback_upstream import Exchange, Loopback, head, serving

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.webhook_service import LEASE_S, MAX_SENDING, WebhookService
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.research_job_dtos import NewResearchJob, ResearchProgress
from modules.llm_platform.domain.dtos.verification_dtos import (
    VerificationChange,
    VerificationCounts,
    VerificationMetadata,
    VerifiedAgain,
)
from modules.llm_platform.domain.exceptions import WebhookError
from modules.llm_platform.infrastructure.guarded_webhook_sender import GuardedWebhookSender
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts, Guard, SystemResolver
from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import SqliteResearchJobStore
from shared.config import Settings, SettingsError
from shared.setting_types import decode_webhook_secret

log = logging.getLogger(__name__)

OLD, NEW = (f"whsec_{base64.b64encode(bytes([number]) * 32).decode()}" for number in (1, 2))
DELAYS_S = (0.01,) * 6
FAULTY_DELIVERIES = 200
PATIENCE_S = 60.0


class Receiver:
    """Handles each request with the next of `steps`: a status, "hang", "reset", "endless", or "redirect"."""

    def __init__(self, *steps: int | str) -> None:
        self.steps = list(steps)
        self.requests: list[Exchange] = []

    async def handle(self, exchange: Exchange) -> None:
        self.requests.append(exchange)
        step = self.steps.pop(0) if self.steps else 200
        if step == "hang":
            await exchange.reader.read()
        elif step == "reset":
            exchange.writer.transport.abort()
        elif step == "endless":
            await exchange.send(head(200, "Content-Type: text/plain"))
            while not exchange.writer.is_closing():
                await exchange.send(b"x" * 65_536)
        elif step == "redirect":
            await exchange.send(head(302, "Location: /elsewhere", length=0))
        else:
            await exchange.send(head(int(step), length=0))


class FaultyReceiver:
    """Acknowledges some messages, takes some without an answer, and refuses some. `taken` counts messages by id."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.unanswered = 0  # taken, but the sender cannot know
        self._chance = random.Random(0)

    async def handle(self, exchange: Exchange) -> None:
        chance = self._chance.random()
        if chance < 0.2:
            await exchange.send(head(500, length=0))
            return
        self.taken[exchange.headers["webhook-id"]] += 1
        if chance < 0.4:
            self.unanswered += 1
            if chance < 0.3:
                await exchange.reader.read()
            exchange.writer.transport.abort()
            return
        await exchange.send(head(200, length=0))


@asynccontextmanager
async def delivering(
    store: SqliteResearchJobStore,
    loopback: Loopback,
    metrics: MemoryMetrics,
    *,
    timeout_s: float = 5.0,
    delays_s: Sequence[float] = DELAYS_S,
) -> AsyncIterator[None]:
    resolver = SystemResolver()
    guard = Guard(resolver, AllowedHosts(["127.0.0.1"]))
    sender = GuardedWebhookSender(guard, PinnedConnections(), timeout_s=timeout_s)
    secrets = [decode_webhook_secret(secret) for secret in (NEW, OLD)]
    task = asyncio.create_task(WebhookService(store, lambda: sender, secrets, metrics, delays_s).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await resolver.aclose()


async def ended_research(store: SqliteResearchJobStore, name: str, url: str) -> None:
    job: NewResearchJob = new_job(name, "me", url)
    await store.add(job, MANY)
    claimed = await store.claim("worker", 60.0)
    assert claimed is not None
    await store.finish(claimed, "failed", [event(1, "failed", PROBLEM)], ResearchProgress())


async def settled(store: SqliteResearchJobStore, name: str) -> tuple[str, int]:
    async with asyncio.timeout(PATIENCE_S):
        while (job := await store.get("me", name)) and job.webhook and job.webhook.status == "pending":
            await asyncio.sleep(0.02)
    assert job is not None
    assert job.webhook is not None
    return job.webhook.status, job.webhook.attempts


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteResearchJobStore]:
    store = SqliteResearchJobStore(tmp_path / "researches.sqlite3", TTL_DAYS)
    yield store
    await store.aclose()


async def test_delivered_at_least_once(store: SqliteResearchJobStore) -> None:
    """After a 500, a hang, a reset, a redirect or an endless body the message is sent again with the same id and body.

    The reference library verifies its signature with both secrets.
    """
    receiver, metrics = Receiver(500, "hang", "reset", "redirect", 200), MemoryMetrics()
    async with serving(receiver.handle) as loopback, delivering(store, loopback, metrics, timeout_s=0.5):
        await ended_research(store, "a", f"{loopback.url}/hook?x=1")
        assert await settled(store, "a") == ("delivered", 5)
        receiver.steps = ["endless"]
        await ended_research(store, "b", f"{loopback.url}/hook?x=1")
        status, _ = await settled(store, "b")
        assert status == "delivered"
    assert {request.path for request in receiver.requests} == {"/hook?x=1"}  # the redirect was not followed
    first = [request for request in receiver.requests if request.headers["webhook-id"] == "msg_a"]
    assert len(first) == 5
    assert len({request.body for request in first}) == 1
    for request in receiver.requests:
        for secret in (OLD, NEW):
            message: Any = Webhook(secret).verify(request.body, request.headers)
        assert request.headers["content-type"] == "application/json"
    assert message["type"] == "research.failed"
    assert json.loads(first[0].body)["data"] == {
        **json.loads(first[0].body)["data"],
        "id": "a",
        "status": "failed",
        "location": "/research/a",
        "problem": {"code": "timeout"},
    }
    delivered = ("llm_platform_webhook_deliveries_total", "delivered")
    retried = ("llm_platform_webhook_deliveries_total", "retried")
    assert (metrics.values[delivered], metrics.values[retried]) == (2, 4)


async def test_a_change_of_a_stored_answer_is_delivered(
    store: SqliteResearchJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the stored answer and the number of sentences that no longer hold.

    The comparison is at its location.
    """
    was = Citation(start=0, end=5, source_index=1, verdict="supported", score=1.0)
    verified = VerifiedAgain(
        sentences=(),
        sources=(),
        counts=VerificationCounts(),
        metadata=VerificationMetadata(latency_ms=5, request_id="c1"),
        research_id="a1",
        query="How tall is it?",
        changed=(VerificationChange(sentence=TextSpan(start=0, end=5), was=was),),
        no_longer_hold=1,
        verified_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    receiver, metrics = Receiver(500, 200), MemoryMetrics()
    async with serving(receiver.handle) as loopback, delivering(store, loopback, metrics, timeout_s=5.0):
        jobs = ResearchJobService(cast(Any, None), store, WebhookService(store, cast(Any, None), ()))
        monkeypatch.setattr(ResearchJobService, "start", lambda self: None)  # the service above delivers it
        await jobs.report_changes(verified, f"{loopback.url}/hook", owner="me")
        assert await settled(store, "c1") == ("delivered", 2)
        job = await jobs.get_verification("c1", owner="me")
    message = json.loads(receiver.requests[1].body)
    assert (message["type"], message["data"]["location"]) == ("verification.changed", "/verify/c1")
    assert {name: message["data"][name] for name in ("research_id", "query", "changed", "no_longer_hold")} == {
        "research_id": "a1",
        "query": "How tall is it?",
        "changed": 1,
        "no_longer_hold": 1,
    }
    assert job.response == verified


async def test_nothing_is_lost_while_the_receiver_and_the_server_fail(tmp_path: Path) -> None:
    """Every message is delivered, although the receiver refuses, hangs, resets and is down for a while, and the server
    is killed twice. A message arrives twice only if the sender could not know that it had arrived.
    """
    late_s, receiver, kills = [0.0], FaultyReceiver(), 2
    store = SqliteResearchJobStore(tmp_path / "researches.sqlite3", TTL_DAYS, lambda: time.time() + late_s[0])

    async def until_taken(count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(receiver.taken) < count:
                await asyncio.sleep(0.01)

    names = [f"r{number}" for number in range(FAULTY_DELIVERIES)]
    port = free_port()
    for name in names:
        await ended_research(store, name, f"http://127.0.0.1:{port}/hook")
    sending = partial(delivering, store, metrics=MemoryMetrics(), timeout_s=2.0, delays_s=(0.05,) * 1000)
    for kill in range(kills):
        async with serving(receiver.handle, port) as loopback, sending(loopback=loopback):
            await until_taken(FAULTY_DELIVERIES * (kill + 1) // 4)
        late_s[0] += LEASE_S  # the leases of the killed server have expired
    async with sending(loopback=loopback):
        await asyncio.sleep(0.3)  # the receiver is down
        async with serving(receiver.handle, port):
            assert {(await settled(store, name))[0] for name in names} == {"delivered"}
    await store.aclose()
    assert receiver.taken.keys() == {f"msg_{name}" for name in names}
    repeated = receiver.taken.total() - FAULTY_DELIVERIES
    assert repeated <= receiver.unanswered + kills * MAX_SENDING
    twice = sum(count > 1 for count in receiver.taken.values())
    log.info("%d messages, %d arrived more than once, %d without an answer", len(names), twice, receiver.unanswered)


async def test_receivers_that_hang_do_not_delay_the_others(store: SqliteResearchJobStore) -> None:
    """Hanging receivers of one client do not delay webhooks of other clients, up to the limit for one client."""
    hanging, other = Receiver(*["hang"] * 10), Receiver()
    async with serving(hanging.handle) as slow, serving(other.handle) as loopback:
        for number in range(10):
            await ended_research(store, f"slow{number}", slow.url)
        async with delivering(store, loopback, MemoryMetrics(), timeout_s=PATIENCE_S):
            async with asyncio.timeout(PATIENCE_S / 2):
                while len(hanging.requests) < 10:
                    await asyncio.sleep(0.02)
            await ended_research(store, "quick", loopback.url)
            assert await settled(store, "quick") == ("delivered", 1)


async def test_delivery_is_given_up(store: SqliteResearchJobStore) -> None:
    """410 ends the attempts at once. Other failures end them after the last delay."""
    receiver, metrics = Receiver(410, *[503] * 20), MemoryMetrics()
    async with serving(receiver.handle) as loopback, delivering(store, loopback, metrics):
        await ended_research(store, "gone", loopback.url)
        assert await settled(store, "gone") == ("failed", 1)
        await ended_research(store, "down", loopback.url)
        assert await settled(store, "down") == ("failed", len(DELAYS_S) + 1)
    assert metrics.values["llm_platform_webhook_deliveries_total", "failed"] == 2


@for_each(
    ("url", "reason"),
    [
        ("http://example.org/hook", "https"),
        ("https://127.0.0.2/hook", "WEBHOOK_ALLOWED_HOSTS"),
        ("https://10.0.0.1/hook", "WEBHOOK_ALLOWED_HOSTS"),
        ("https://169.254.169.254/latest", "WEBHOOK_ALLOWED_HOSTS"),
        ("https://[::1]/hook", "WEBHOOK_ALLOWED_HOSTS"),
        ("https://intranet/hook", "WEBHOOK_ALLOWED_HOSTS"),
        ("https://rebinds.example.org/hook", "WEBHOOK_ALLOWED_HOSTS"),
        ("https://93.184.216.34:22/hook", "WEBHOOK_ALLOWED_HOSTS"),
        ("https://93.184.216.34/hook", "offline"),
        ("https://nowhere.example.org/hook", "cannot be found"),
    ],
)
async def test_refused_addresses(url: str, reason: str) -> None:
    """Private addresses, plain http and names that resolve to private addresses are refused, when a webhook is
    submitted and when it is sent.
    """

    class Resolver:
        async def resolve(self, host: str, port: int) -> list[str]:
            if host == "nowhere.example.org":
                raise OSError("no such name")
            return ["93.184.216.34", "10.0.0.1"]

    sender = GuardedWebhookSender(
        Guard(Resolver(), AllowedHosts(["127.0.0.1"])), PinnedConnections(), offline=reason == "offline"
    )
    with pytest.raises(WebhookError, match=reason):
        await sender.check(url)
    reply = await sender.send(url, {}, b"{}")
    assert not reply.is_delivered


async def test_offline_the_name_of_a_receiver_is_not_looked_up() -> None:
    """Offline, a receiver's name is resolved only if it may be in an allowed network."""
    asked = list[str]()

    class Resolver:
        async def resolve(self, host: str, port: int) -> list[str]:
            asked.append(host)
            return ["10.0.0.1"]

    named = AllowedHosts(["hooks.internal"])
    sender = GuardedWebhookSender(Guard(Resolver(), named), PinnedConnections(), offline=True)
    with pytest.raises(WebhookError, match="offline"):
        await sender.check("https://hooks.example.org/done")
    assert asked == []
    await sender.check("https://hooks.internal/done")
    networks = AllowedHosts(["10.0.0.0/8"])
    await GuardedWebhookSender(Guard(Resolver(), networks), PinnedConnections(), offline=True).check(
        "https://a.example/"
    )
    assert asked == ["hooks.internal", "a.example"]


@for_each("secret", ["whsec_c2hvcnQ=", "no prefix at all", "whsec_***", NEW.removeprefix("whsec_")])
def test_an_invalid_secret(secret: str) -> None:
    """An invalid secret stops the start. The error names the variable and how to generate a secret, without the value."""
    with pytest.raises(SettingsError, match=r"WEBHOOK_SECRET .*whsec_.*Example") as error:
        Settings.load(_env_file=None, WEBHOOK_SECRET=f"{NEW},{secret}")
    assert secret not in str(error.value)
    assert len(Settings.load(_env_file=None, WEBHOOK_SECRET=f"{NEW},{OLD}").WEBHOOK_SECRET) == 2
