"""REDIS_URL: what it builds, and what shares entries."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.container import Container, build_platform
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK
from modules.llm_platform.infrastructure.cache import from_settings as redis_wiring
from modules.llm_platform.infrastructure.cache.redis_key_lock import RedisKeyLock
from shared.config import Settings, SettingsError

LOCAL = "redis://:a-long-password@127.0.0.1:6379/0"
REMOTE = "rediss://cache.example:6380"


def settings_with(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)


async def built(**values: Any) -> tuple[bool, type]:
    """Return whether there is a client of Redis, and the type of the locks."""
    container = Container(settings=settings_with(**values))
    shared = container.shared_state()
    types = container.redis() is not None, type(shared.lock("search", 1.0))
    await container.resources().aclose()
    return types


async def test_caches_are_in_this_process_without_redis() -> None:
    """Memory stays the default; nobody waits for another process."""
    assert await built() == (False, type(NO_KEY_LOCK))


async def test_caches_are_in_redis_with_its_url() -> None:
    """The setting is enough; nothing is connected yet."""
    assert await built(REDIS_URL=LOCAL) == (True, RedisKeyLock)


@for_each(("url", "is_used"), [(LOCAL, True), ("unix:///run/r.sock", True), (REMOTE, False)])
async def test_offline_uses_redis_on_this_machine_only(url: str, is_used: bool) -> None:
    """Offline mode sends nothing to another machine."""
    assert (await built(REDIS_URL=url, LLM_PLATFORM_OFFLINE=True))[0] is is_used


def test_missing_package_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """REDIS_URL without redis-py is an error that has the command of its remedy."""
    monkeypatch.setattr(redis_wiring, "is_installed", lambda packages: False)
    with pytest.raises(SettingsError, match=r'pip install "llm-platform\[redis\]"'):
        build_platform(settings_with(REDIS_URL=LOCAL))


@for_each(
    ("changed", "is_shared"),
    [
        ({"SEARXNG_SAFESEARCH": 2}, False),
        ({"SEARXNG_URL": "http://other.example"}, False),
        ({"LLM_MODEL": "another"}, False),
        ({"LLM_PLATFORM_PORT": 8001}, True),
        ({"CACHE_TTL_S": 60}, True),
        ({"BRAVE_API_KEY": "another-long-key"}, True),
    ],
)
def test_replicas_share_entries_if_their_settings_give_the_same_ones(changed: dict[str, Any], is_shared: bool) -> None:
    """Settings of searches and models are part of the names of caches; secrets and everything else are not."""
    base = {"SEARXNG_URL": "http://one.example", "BRAVE_API_KEY": "a-long-key"}
    digests = [redis_wiring.digest_settings(settings_with(**{**base, **change})) for change in ({}, changed)]
    assert (digests[0] == digests[1]) is is_shared
