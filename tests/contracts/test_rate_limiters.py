"""The in-process rate limiter fulfils the contract of the port with limited memory."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.fakes.rate_limiter import MakeLimiter, RateLimiterContract

from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MAX_CLIENTS, MemoryRateLimiter

DAY_S = 86_400
CLIENT = RateLimit("client", 5, DAY_S, burst=5)
BYTES_PER_CLIENT = 600


class TestMemoryRateLimiter(RateLimiterContract):
    @pytest.fixture
    def make_limiter(self) -> MakeLimiter:
        return MemoryRateLimiter

    async def test_the_least_recently_seen_client_is_forgotten(self) -> None:
        """A full table forgets the client that was seen longest ago, and no other."""
        limiter = MemoryRateLimiter(RateLimits(CLIENT), max_clients=3)
        for client in ("a", "b", "c", "a", "d"):  # b is forgotten
            await limiter.take(client)
        remaining = {client: (await limiter.take(client)).client for client in ("a", "c", "d", "b")}
        assert {client: state.remaining for client, state in remaining.items() if state} == {
            "a": 2,
            "c": 3,
            "d": 3,
            "b": 4,
        }

    async def test_clients_do_not_evict_the_server_limit(self) -> None:
        """New addresses cannot reset the count of all clients."""
        limiter = MemoryRateLimiter(RateLimits(CLIENT, RateLimit("server", 20, DAY_S, burst=20)), max_clients=2)
        decisions = [await limiter.take(f"client {number}") for number in range(30)]
        assert sum(decision.exceeded is None for decision in decisions) == 20

    async def test_memory_is_bounded(self) -> None:
        """Ten times as many addresses as the bound need no more memory than the bound."""
        limiter = MemoryRateLimiter(RateLimits(CLIENT), max_clients=1000)
        tracemalloc.start()
        try:
            for number in range(10_000):
                await limiter.take(f"{number:x}/64")
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert used < 1000 * BYTES_PER_CLIENT
        assert MAX_CLIENTS * BYTES_PER_CLIENT <= 32_000_000
