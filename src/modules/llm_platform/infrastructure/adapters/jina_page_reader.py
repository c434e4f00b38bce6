"""Reads a page through r.jina.ai, or a server that speaks like it: GET {base_url}/{address}, Markdown out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import httpx2

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageError, PageRequestError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.http.client import Reply, Upstream
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.http.untrusted_json import decode_text
from modules.llm_platform.infrastructure.safe_reader import bot_walls
from modules.llm_platform.infrastructure.safe_reader.content import MAX_TITLE_CHARS, seen_text, text_hash
from modules.llm_platform.infrastructure.safe_reader.errors import PAGE_ERRORS, of_status
from modules.llm_platform.infrastructure.safe_reader.url import PageAddress, is_public, parse_address

BASE_URL: Final = "https://r.jina.ai"
TIMEOUT_S: Final = 20.0
LONGEST_WAIT_S: Final = 180  # what X-Timeout may say
MAX_BYTES: Final = 5 * 1024 * 1024
MAX_WORDS: Final = 300  # characters of a date or warning that are kept

RULES: Final[Mapping[int, Rule]] = {
    401: Rule("config", "does not accept our key (401): check JINA_API_KEY"),
    402: Rule("blocked", "wants to be paid first (402): the key's balance is used up"),
    403: Rule("config", "refuses us access (403): check JINA_API_KEY and {setting}"),
    404: Rule("error", "does not find this page (404)"),
    409: Rule("blocked", "has spent what one request may spend (409)"),
    413: Rule("error", "finds the page too large (413)"),
    422: Rule("error", "cannot read this page (422)"),
    451: Rule("blocked", "withholds this page for legal reasons (451)"),
    503: Rule("connection", "does not serve us now (503)"),
}
NOT_ITS_FORM = "Jina answered in a form that is not its own: check JINA_BASE_URL"

_BODY = re.compile(r"^Markdown Content:[ \t]*\r?\n?", re.MULTILINE)
_FIELD = re.compile(r"^(Title|URL Source|Published Time|Warning):[ \t]*([^\r\n]*)", re.MULTILINE)
_STATUS = re.compile(r"returned error ([45]\d\d)")
_CAPTCHA = re.compile(r"requiring captcha|blocked by|anti.bot", re.IGNORECASE)


class _Answer(NamedTuple):
    fields: Mapping[str, str]
    warnings: tuple[str, ...]
    text: str


class JinaPageReader(IPageReader):
    """The server of `base_url` sees every address that is read. Put a guard before it: it asks for what it is given."""

    name = "jina"

    def __init__(
        self,
        api_key: str = "",
        base_url: str = BASE_URL,
        timeout: float = TIMEOUT_S,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        headers = {
            "Accept": "text/plain",
            "X-Retain-Images": "none",  # an image is an address that somebody's program might open
            "X-Timeout": str(int(min(max(timeout, 1), LONGEST_WAIT_S))),
            **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
        }
        self._upstream = Upstream(
            "Jina", base_url, setting="JINA_BASE_URL", timeout=timeout, client=client, headers=headers, rules=RULES,
            errors=PAGE_ERRORS, redactor=redactor, max_bytes=MAX_BYTES,
        )  # fmt: skip
        self._now = now

    async def read(self, url: str) -> Page:
        asked = parse_address(url)
        reply = await self._upstream.get(f"/{asked.url}", holds="url")
        self._upstream.check(reply)
        answer = _parsed(reply)
        address = _source(answer.fields.get("URL Source", ""), asked)
        title, text = seen_text(answer.fields.get("Title", "")), seen_text(answer.text)
        _check(answer.warnings, bot_walls.PageSample(address.host, address.target.partition("?")[0], title, text))
        return Page(
            url=address.url,
            title=(title or address.host)[:MAX_TITLE_CHARS],
            text=text,
            read_at=self._now(),
            reader=self.name,
            sha256=text_hash(text),
            media_type="text/markdown",
            published=answer.fields.get("Published Time", "")[:MAX_WORDS] or None,
            warning=" ".join(answer.warnings)[:MAX_WORDS] or None,
        )


def _parsed(reply: Reply) -> _Answer:
    """The head up to the first `Markdown Content:`; what the page itself says below counts as text."""
    answer = decode_text(reply.body, reply.charset())
    begin = _BODY.search(answer)
    if begin is None:
        raise PageError(NOT_ITS_FORM)
    found = [(field[1], field[2].strip()) for field in _FIELD.finditer(answer, 0, begin.start())]
    warnings = tuple(value for name, value in found if name == "Warning")
    return _Answer(dict(reversed(found)), warnings, answer[begin.end() :])


def _source(told: str, asked: PageAddress) -> PageAddress:
    """Where Jina says that the text comes from, if that is an address that could be true."""
    try:
        address = parse_address(told)
    except PageRequestError:
        return asked
    return asked if address.is_local_name or (address.ip and not is_public(address.ip)) else address


def _check(warnings: tuple[str, ...], seen: bot_walls.PageSample) -> None:
    """Jina answers 200 for a page that answered with an error, and says so in a warning."""
    for warning in warnings:
        if (status := _STATUS.search(warning)) and (error := of_status(int(status[1]))):
            raise error
    bot_walls.check_bot_wall(seen)
    if len(seen.text) <= bot_walls.SHORT_CHARS and any(map(_CAPTCHA.search, warnings)):
        raise bot_walls.is_captcha()
