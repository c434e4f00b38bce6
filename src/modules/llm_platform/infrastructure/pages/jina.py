"""Reads pages through r.jina.ai or a compatible server: GET {base_url}/{address} returns Markdown."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import httpx2

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageError, PageRequestError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.http.client import Reply, Upstream
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.http.guarded.errors import PAGE_ERRORS, make_status_error
from modules.llm_platform.infrastructure.http.guarded.url import PageAddress, is_public, parse_address
from modules.llm_platform.infrastructure.http.untrusted_json import decode_text
from modules.llm_platform.infrastructure.pages import bot_walls
from modules.llm_platform.infrastructure.pages.content import PAGE_TITLE_CHARS, hash_text, remove_invisible

BASE_URL: Final = "https://r.jina.ai"
JINA_TIMEOUT_S: Final = 20.0
MAX_TIMEOUT_HEADER_S: Final = 180  # largest value of X-Timeout
JINA_ANSWER_BYTES: Final = 5 * 1024 * 1024
MAX_FIELD_CHARS: Final = 300  # longest date or warning

RULES: Final[Mapping[int, Rule]] = {
    401: Rule("config", "does not accept the key (401): check JINA_API_KEY"),
    402: Rule("blocked", "requires payment (402): the balance of the key is used up"),
    403: Rule("config", "denies access (403): check JINA_API_KEY and {setting}"),
    404: Rule("error", "does not find this page (404)"),
    409: Rule("blocked", "reached its budget for one request (409)"),
    413: Rule("error", "finds the page too large (413)"),
    422: Rule("error", "cannot read this page (422)"),
    451: Rule("blocked", "withholds this page for legal reasons (451)"),
    **{status: Rule("connection", f"is unavailable ({status})") for status in (502, 503, 504)},
}

_BODY = re.compile(r"^Markdown Content:[ \t]*\r?\n?", re.MULTILINE)
_FIELD = re.compile(r"^([A-Z][A-Za-z ]{1,40}):[ \t]*([^\r\n]*)", re.MULTILINE)
_STATUS = re.compile(r"returned error ([45]\d\d)")
_CAPTCHA = re.compile(r"requiring captcha|blocked by|anti.bot", re.IGNORECASE)


class _Answer(NamedTuple):
    fields: Mapping[str, str]
    warnings: tuple[str, ...]
    text: str


class JinaPageReader(IPageReader):
    """The server of `base_url` receives every address and does not check it: wrap this reader in a GuardedPageReader."""

    name = "jina"

    def __init__(
        self,
        api_key: str = "",
        base_url: str = BASE_URL,
        timeout: float = JINA_TIMEOUT_S,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        headers = {
            "Accept": "text/plain",
            "X-Retain-Images": "none",  # the address of an image might be opened by another program
            "X-Timeout": str(int(min(max(timeout, 1), MAX_TIMEOUT_HEADER_S))),
            **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
        }
        self._upstream = Upstream(
            "Jina",
            base_url,
            setting="JINA_BASE_URL",
            timeout=timeout,
            client=client,
            headers=headers,
            rules=RULES,
            errors=PAGE_ERRORS,
            redactor=redactor,
            max_bytes=JINA_ANSWER_BYTES,
        )
        self._now = now

    async def read(self, url: str) -> Page:
        requested = parse_address(url)
        reply = await self._upstream.get(f"/{requested.url}", sent_kind="url")
        self._upstream.raise_for_status(reply)
        answer = _parse(reply)
        address = _choose_source(answer.fields.get("URL Source", ""), requested)
        title, text = remove_invisible(answer.fields.get("Title", "")), remove_invisible(answer.text)
        _check(answer.warnings, bot_walls.PageSample(address.host, address.target.partition("?")[0], title, text))
        return Page(
            url=address.url,
            title=(title or address.host)[:PAGE_TITLE_CHARS],
            text=text,
            read_at=self._now(),
            reader=self.name,
            sha256=hash_text(text),
            media_type="text/markdown",
            published=answer.fields.get("Published Time", "")[:MAX_FIELD_CHARS] or None,
            warning=" ".join(answer.warnings)[:MAX_FIELD_CHARS] or None,
        )


def _parse(reply: Reply) -> _Answer:
    """Return the fields above the first `Markdown Content:`, and the text below it, which may hold similar lines."""
    answer = decode_text(reply.body, reply.charset())
    begin = _BODY.search(answer)
    if begin is None:
        raise PageError("Jina answered in an unexpected format: check JINA_BASE_URL")
    fields = [(field[1], field[2].strip()) for field in _FIELD.finditer(answer, 0, begin.start())]
    warnings = tuple(value for name, value in fields if name == "Warning")
    return _Answer(dict(reversed(fields)), warnings, answer[begin.end() :])


def _choose_source(reported: str, requested: PageAddress) -> PageAddress:
    """Return the address that Jina reports as the source of the text if it is valid and public, else the requested one."""
    try:
        address = parse_address(reported)
    except PageRequestError:
        return requested
    return requested if address.is_local_name or (address.ip and not is_public(address.ip)) else address


def _check(warnings: tuple[str, ...], page: bot_walls.PageSample) -> None:
    """Raises for an error of the page itself, which Jina reports in a warning with status 200, and for bot walls."""
    for warning in warnings:
        if (status := _STATUS.search(warning)) and (error := make_status_error(int(status[1]))):
            raise error
    bot_walls.check_bot_wall(page)
    if len(page.text) <= bot_walls.SHORT_CHARS and any(map(_CAPTCHA.search, warnings)):
        raise bot_walls.make_captcha_error()
