"""What the safe reader does with an address: on a resolver and a server of one's own, without a socket."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from shared.exceptions import AppException

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.documents.parser_process import Parsed
    from modules.llm_platform.testing.served_connections import Respond
    from shared.config import Settings

READ: Final = "read"

Resolve: TypeAlias = Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class ReaderProbe:
    """`outcome` is "read" or the code of the error; `connections` the (ip, port) pairs that were dialled, in order."""

    outcome: str
    connections: list[tuple[str, int]]


async def probe_reader(url: str, resolve: Resolve, respond: Respond, settings: Settings | None = None) -> ReaderProbe:
    """Read the address with the reader that opens pages itself.

    `resolve(host)` is asked whenever DNS would be and gives IP addresses; any exception means that there is no such name.
    `respond(ip, port, host, target)` plays the server: status, headers (a mapping, or pairs) and body (bytes, or an
    iterable of bytes that may never end); an OSError means that it cannot be reached. Either may be a coroutine function.
    Of `settings` (None: the defaults, whatever the environment says) those of the reader count.
    """
    from modules.llm_platform.infrastructure.adapters.direct_page_reader import TIMEOUT_S, DirectPageReader
    from modules.llm_platform.infrastructure.safe_reader.connection import PinnedConnections
    from modules.llm_platform.infrastructure.safe_reader.fetch import SafeFetcher
    from modules.llm_platform.infrastructure.safe_reader.guard import AllowedHosts, Guard
    from modules.llm_platform.infrastructure.safe_reader.robots import Robots
    from modules.llm_platform.testing.served_connections import ServedConnections

    served = ServedConnections(respond)
    guard = Guard(_Scripted(resolve), AllowedHosts(settings.READER_ALLOWED_HOSTS if settings else ()))
    fetcher = SafeFetcher(guard, PinnedConnections(served))
    reader = DirectPageReader(
        fetcher,
        _Here(),
        timeout=settings.READER_TIMEOUT_S if settings else TIMEOUT_S,
        robots=Robots(fetcher) if settings and settings.READER_ROBOTS else None,
    )
    try:
        await reader.read(url)
    except AppException as error:
        return ReaderProbe(error.code, served.dialled)
    return ReaderProbe(READ, served.dialled)


class _Scripted:
    """The resolver that the caller plays."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        [answer] = await asyncio.gather(self._asked(host), return_exceptions=True)
        if isinstance(answer, BaseException):  # whatever the caller raises means: no such name
            raise OSError("no such name") from answer
        return answer

    async def _asked(self, host: str) -> Sequence[str]:
        answer: Any = self._resolve(host)
        return list(await answer if inspect.isawaitable(answer) else answer)


class _Here:
    """Parses without a child process: a probe meets its own pages, and hundreds of them."""

    async def html(self, html: str) -> Parsed:
        from modules.llm_platform.infrastructure.documents import parse_child
        from modules.llm_platform.infrastructure.documents.parser_process import parsed

        return parsed(await asyncio.to_thread(parse_child.html_text, html))

    async def pdf(self, data: bytes) -> Parsed:
        from modules.llm_platform.infrastructure.safe_reader.content import PageParsers

        parsers = PageParsers()
        try:
            return await parsers.pdf(data)
        finally:
            await parsers.aclose()
