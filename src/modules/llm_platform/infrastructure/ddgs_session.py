"""One search with the ddgs library, watched: which engines answered what, and a way to stop it.

The library tries engines until it has enough results. It keeps to itself that an engine refused (any status but 200 is
"nothing found" to it), and cannot be interrupted. Its HTTP client is therefore wrapped as the engines get it. Where a
later version has no such place, the watch sees nothing and the library's own word counts.

The watch also keeps the ledger: the library asks each engine in a thread of its own, which inherits no context, so the
session takes the ledger from where it is made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.ledger import current
from modules.llm_platform.infrastructure.upstream_client import proxy_host

PROVIDER: Final = "ddgs"
NEEDS_EXTRA: Final = 'keyless web search needs an extra: pip install "llm-platform[web]"'
UNREACHABLE: Final = 0  # in place of a status
OK: Final = 200


class DdgsSession:
    """A DDGS for one search. `statuses` holds the last HTTP status of each engine that was asked, 0 for none; `watched`
    says whether requests are seen at all."""

    def __init__(self, timeout: int, proxy: str | None = None) -> None:
        try:
            from ddgs import DDGS
        except ImportError as error:
            raise WebSearchConfigError(NEEDS_EXTRA) from error
        logging.getLogger("ddgs").setLevel(logging.CRITICAL)  # it logs what is searched for
        logging.getLogger("primp").setLevel(logging.CRITICAL)
        self.statuses: dict[str, int] = {}
        self.stopped = False
        self.ledger = current()
        self.via = proxy_host(proxy)
        self._ddgs: Any = DDGS(timeout=timeout, proxy=proxy)
        self._find_engines = getattr(self._ddgs, "_get_engines", None)
        self.watched = self._find_engines is not None
        if self.watched:
            vars(self._ddgs)["_get_engines"] = self._watched_engines

    def text(self, query: str, **options: Any) -> Any:
        return self._ddgs.text(query, **options)

    def news(self, query: str, **options: Any) -> Any:
        return self._ddgs.news(query, **options)

    def stop(self) -> None:
        """Ask no engine any more; what is on its way ends by its own timeout. To be called from any thread."""
        self.stopped = True

    def _watched_engines(self, *args: Any, **options: Any) -> Any:
        engines = self._find_engines(*args, **options) if self._find_engines else []
        for engine in engines:
            if not isinstance(engine.http_client, _WatchedClient):
                engine.http_client = _WatchedClient(engine.http_client, engine.name, self)
        return engines


class _WatchedClient:
    """The library's HTTP client, which notes statuses and what is sent, and refuses once its session was stopped."""

    def __init__(self, client: Any, engine: str, session: DdgsSession) -> None:
        self._client = client
        self._engine = engine
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def request(self, *args: Any, **options: Any) -> Any:
        if self._session.stopped:
            raise TimeoutError("timed out: this search was stopped")
        self._session.statuses[self._engine] = UNREACHABLE
        _note(self._session, args[1] if len(args) > 1 else options.get("url"), options)
        answer = self._client.request(*args, **options)
        self._session.statuses[self._engine] = answer.status_code
        return answer


def _note(session: DdgsSession, url: object, options: Mapping[str, Any]) -> None:
    """Every request to an engine counts as one that holds the query: some put it into the path."""
    address = urlsplit(url if isinstance(url, str) else "")
    written = f"{address.path}?{address.query}" if address.query else address.path
    fields = (options.get("params"), options.get("data"))
    values = [str(value) for field in fields if isinstance(field, Mapping) for value in field.values()]
    if session.ledger is not None:
        size = len("".join([written, *values]).encode())
        session.ledger.note(address.hostname or PROVIDER, "query", size, session.via)
