"""One call of the ddgs library, as it runs in a thread, and what its exceptions mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.ledger import note_sent
from modules.llm_platform.infrastructure.ddgs_query import Kind, backends_of, query_of, region_of
from modules.llm_platform.infrastructure.ddgs_session import NEEDS_EXTRA, OK, PROVIDER, UNREACHABLE
from shared.exceptions import AppException

SAFE_SEARCH: Final = "moderate"
RETRY_AFTER_SECONDS: Final = 60.0  # engines do not say when they will serve us again

# Encyclopedias are asked first and rarely know a question: that they found nothing does not mean that the web was searched.
_LOOKED_UP: Final = frozenset({"wikipedia", "grokipedia"})
_REFUSALS: Final = frozenset({202, 401, 403, 418, 429, 503})
_NOTHING_FOUND = re.compile(r"no results", re.IGNORECASE)
_TIMED_OUT = re.compile(r"timed? ?out", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"connect|dns|resolv|network|proxy|tls|ssl|certificate|RequestError|unreachable", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Looked:
    """Rows as the library gives them, and which of its engines failed."""

    rows: Sequence[Any]
    degraded: tuple[Degraded, ...] = ()


class DdgsCall:
    """`run` blocks; `stop` may be called from another thread meanwhile, and before. Run it in the context of the search:
    what is sent is noted in its ledger."""

    def __init__(
        self, new_engine: Callable[[], Any], kind: Kind, request: WebSearchRequest, timelimit: str | None
    ) -> None:
        self._new_engine = new_engine
        self._kind = kind
        self._request = request
        self._timelimit = timelimit
        self._engine: Any = None
        self._stopped = False

    def stop(self) -> None:
        """From another thread: ask no further engine, if the library lets itself be told."""
        self._stopped = True
        if stop := getattr(self._engine, "stop", None):
            stop()

    def run(self) -> Looked:
        """Rows as the library gives them. Raises web search errors only."""
        self._engine = self._new_engine()
        if self._stopped:
            self.stop()
        backends, unknown = backends_of(self._kind, self._request.engines)
        query = query_of(self._request)
        if not getattr(self._engine, "watched", False):  # then nobody can say which hosts it asks
            note_sent(PROVIDER, "query", len(query.encode()), getattr(self._engine, "via", None))
        try:
            rows = getattr(self._engine, self._kind)(
                query, region=region_of(self._request), safesearch=SAFE_SEARCH, timelimit=self._timelimit,
                max_results=self._request.count, page=self._request.page, backend=backends,
            )  # fmt: skip
        except AppException:
            raise
        except OSError as error:
            raise WebSearchConnectionError("ddgs could not reach its engines: is there a network?") from error
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise WebSearchError("ddgs failed on an engine's answer: try again, or name other engines") from error
        except _library_error() as error:
            return Looked(self._nothing_or_raise(error), (*unknown, *self._failed_engines()))
        if not isinstance(rows, list | tuple):
            raise WebSearchError("ddgs gave no list of results: is its version supported?")
        return Looked(rows, (*unknown, *self._failed_engines()))

    def _nothing_or_raise(self, error: BaseException) -> Sequence[Any]:
        """No rows when engines looked and found nothing, else the error that the library's exception stands for."""
        statuses = {name: status for name, status in self._statuses().items() if name not in _LOOKED_UP}
        words = str(error)
        if OK in statuses.values() or (not self._statuses() and _NOTHING_FOUND.search(words)):
            return ()
        if type(error).__name__ == "RatelimitException" or not _REFUSALS.isdisjoint(statuses.values()):
            raise WebSearchBlockedError(
                "all engines that ddgs asked refuse us for now: try again later, or set SEARXNG_URL",
                retry_after_s=RETRY_AFTER_SECONDS,
                engines_only=True,
            ) from error
        if type(error).__name__ == "TimeoutException" or _TIMED_OUT.search(words):
            raise WebSearchTimeoutError("the engines that ddgs asked did not answer in time: try again") from error
        if UNREACHABLE in statuses.values() or _UNREACHABLE.search(words):
            raise WebSearchConnectionError("ddgs could not reach its engines: is there a network?") from error
        raise WebSearchError("the engines that ddgs asked answered with errors: try again, or name others") from error

    def _statuses(self) -> Mapping[str, int]:
        statuses = getattr(self._engine, "statuses", None)
        return statuses if isinstance(statuses, dict) else {}

    def _failed_engines(self) -> Iterator[Degraded]:
        for engine, status in sorted(self._statuses().items()):
            if status != OK:
                reason = (
                    "it could not be reached in time" if status == UNREACHABLE else f"it answered with HTTP {status}"
                )
                yield Degraded(component=f"{PROVIDER}/{engine}", reason=reason)


def _library_error() -> type[BaseException]:
    try:
        from ddgs.exceptions import DDGSException
    except ImportError as error:
        raise WebSearchConfigError(NEEDS_EXTRA) from error
    base: type[BaseException] = DDGSException
    return base
