"""The parts of background runs as they are wired."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest
from tests.fakes.research_job_store import HOOK, MANY, MemoryResearchJobStore, event, new_job
from tests.support.clock import Clock

from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchProgress
from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply
from modules.llm_platform.infrastructure.guarded_webhook_sender import GuardedWebhookSender
from modules.llm_platform.infrastructure.resources import Resources
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true
from modules.llm_platform.wiring.research_jobs import build_webhooks
from shared.config import Settings

KEY = "sk-0123456789abcdef"


async def test_a_webhook_has_no_configured_secret(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The problem of a failed research may repeat what an upstream said of its key."""
    sent: list[bytes] = []

    async def send(_: object, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        sent.append(body)
        return DeliveryReply(is_delivered=True, reason="")

    monkeypatch.setattr(GuardedWebhookSender, "send", send)
    settings = Settings(
        _env_file=None, LLM_API_KEY=KEY, WEBHOOK_SECRET="whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    )
    store, resources = MemoryResearchJobStore(clock=clock), Resources(settings)
    await store.add(new_job("a", webhook=HOOK), MANY)
    job = await store.claim("worker", 60.0)
    assert job is not None
    problem = json.dumps({"type": "failed", "problem": {"detail": f"no access with {KEY}"}})
    await store.finish(job, "failed", [event(1, "failed", problem)], ResearchProgress())
    webhooks = build_webhooks(settings, resources, store)
    assert webhooks is not None
    running = asyncio.create_task(webhooks.run())
    try:
        assert await becomes_true(lambda: bool(sent), START_TIMEOUT_S)
    finally:
        await cancel_and_wait(running)
        await resources.aclose()
        await store.aclose()
    assert b"no access with [redacted]" in sent[0]
