"""A reader with simulated servers, shared by the tests of reading."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts, Guard
from modules.llm_platform.infrastructure.pages.direct import DirectPageReader, DirectSiteReader
from modules.llm_platform.infrastructure.pages.fetch import SafeFetcher
from modules.llm_platform.infrastructure.pages.robots import Robots
from modules.llm_platform.infrastructure.parsing import html_page
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed, read_answer
from modules.llm_platform.testing.reader_probe import FakeNetwork, Respond

PUBLIC = "93.184.215.14"
HTML = {"Content-Type": "text/html; charset=utf-8"}


class Names:
    """DNS of a test, with one answer or one error for every name."""

    def __init__(self, answer: Sequence[str] | Exception = (PUBLIC,)) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class InProcess:
    """The parser without its process: fast, and trusted to end."""

    async def html(self, html: str) -> Parsed:
        return read_answer(html_page.read_html(html))

    async def linked_html(self, html: str, *, is_whole: bool = False) -> Parsed:
        return read_answer(html_page.read_whole_page(html) if is_whole else html_page.read_linked_page(html))

    async def pdf(self, data: bytes) -> Parsed:
        return Parsed(f"{len(data)} bytes of PDF")


def html(body: str, title: str = "A page", head: str = "") -> bytes:
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>".encode()


def page(body: Any, headers: Any = None, status: int = 200) -> Respond:
    """Return a server that always answers the same."""
    return lambda ip, port, host, target: (status, HTML if headers is None else headers, body)


def fetcher(respond: Respond, names: Names | None = None, allowed: Iterable[str] = ()) -> SafeFetcher:
    return SafeFetcher(Guard(names or Names(), AllowedHosts(allowed)), PinnedConnections(FakeNetwork(respond)))


def reader(respond: Respond, *, robots: bool = False, secrets: Iterable[str] = (), **options: Any) -> DirectPageReader:
    fetching = fetcher(respond)
    return DirectPageReader(
        fetching,
        InProcess(),
        robots=Robots(fetching) if robots else None,
        redactor=Redactor(secrets),
        **options,
    )


def site_reader(respond: Respond, names: Names | None = None, **options: Any) -> DirectSiteReader:
    fetching = fetcher(respond, names, options.pop("allowed", ()))
    return DirectSiteReader(fetching, InProcess(), Robots(fetching), **options)


async def never(ip: str, port: int, host: str, target: str) -> tuple[int, dict[str, str], bytes]:
    """Return a server that takes the request and never answers."""
    await asyncio.Event().wait()
    raise AssertionError
