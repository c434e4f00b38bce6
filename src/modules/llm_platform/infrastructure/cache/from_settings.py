"""The client of REDIS_URL, and the caches and locks that processes share through it."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.package import package_version
from modules.llm_platform.domain.ports.cache import ICache, Value
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.metrics import NO_METRICS
from modules.llm_platform.infrastructure.cache.measured import MeasuredCache
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.resources import Resources, is_installed, is_out_of_reach
from shared.config import SECTIONS, Settings, SettingsError
from shared.setting_names import format_value

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.redis_client import RedisClient

log = logging.getLogger(__name__)

NOT_INSTALLED: Final = 'REDIS_URL needs another package: pip install "llm-platform[redis]", or remove REDIS_URL'

SHAPING_SECTIONS: Final = ("Search", "Language models", "Index")  # their settings change searches and answers
DIGEST_CHARS: Final = 12


def build_redis(settings: Settings, resources: Resources) -> RedisClient | None:
    """Return the client of REDIS_URL, or None: not set, or not on this machine in offline mode."""
    if settings.REDIS_URL is None:
        return None
    if not uses_redis(settings):
        log.warning("REDIS_URL is not used in offline mode, because it is not on this machine")
        return None
    from modules.llm_platform.infrastructure.redis_client import RedisClient

    return resources.closing(RedisClient(settings.REDIS_URL, metrics=resources.metrics))


def uses_redis(settings: Settings) -> bool:
    """Return whether Redis is used. Raises SettingsError if it should be and its package is missing."""
    url = settings.REDIS_URL
    if url is None or (not url.startswith("unix:") and is_out_of_reach(settings, url)):
        return False
    if not is_installed(["redis"]):
        raise SettingsError(NOT_INSTALLED)
    return True


class SharedState:
    """Makes caches and locks: in Redis if there is a client, else in this process.

    The name of a cache in Redis has a digest of the version and of the settings that shape its values, so that replicas
    share entries only if they would produce the same ones.
    """

    def __init__(self, settings: Settings, resources: Resources, redis: RedisClient | None) -> None:
        self._max_entries = settings.CACHE_MAX_ENTRIES
        self._redis = redis
        self._metrics = resources.metrics
        self._digest = digest_settings(settings) if redis else ""

    def cache(self, name: str, value_type: type[Value]) -> ICache[Value]:
        """Return the cache of `name`, with values of `value_type`."""
        local: ICache[Value] = MemoryCache(self._max_entries)
        if self._redis is None:
            return local if self._metrics is NO_METRICS else MeasuredCache(local, name, self._metrics)
        from modules.llm_platform.infrastructure.cache.redis import LocalCopies, RedisCache

        shared = RedisCache(self._redis, value_type, f"{name}:{self._digest}")
        return MeasuredCache(LocalCopies(shared, local), name, self._metrics)

    def lock(self, name: str, max_wait_s: float) -> IKeyLock:
        """Return the locks of the cache of `name`. Callers wait at most `max_wait_s` seconds for another process."""
        if self._redis is None:
            return NO_KEY_LOCK
        from modules.llm_platform.infrastructure.cache.redis_key_lock import RedisKeyLock

        return RedisKeyLock(self._redis, f"{name}:{self._digest}", max_wait_s=max_wait_s)


def digest_settings(settings: Settings) -> str:
    """Return a digest of the version and of all settings that shape searches and answers, without secrets."""
    heading, parts = "", [package_version()]
    for name in type(settings).model_fields:
        heading = SECTIONS.get(name, heading)
        if heading in SHAPING_SECTIONS:
            parts.append(f"{name}={format_value(getattr(settings, name))}")
    return sha256("\n".join(parts).encode()).hexdigest()[:DIGEST_CHARS]
