"""How we talk to upstreams: one pooled client for each, one deadline and one size limit for every exchange.

Failures become our errors by the table of `upstream_errors`; what a vendor does differently is data (`rules`).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache, lru_cache, partial
from importlib import metadata
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

import httpx2

from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.domain.egress_log import log_not_sent, log_sent
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.http.errors import (
    NO_ADDRESS,
    NO_JSON,
    NOT_OK,
    REDIRECT,
    STATUS_RULES,
    TRANSPORT_ERRORS,
    WEB_PAGE,
    WEB_SEARCH_ERRORS,
    ErrorFamily,
    Rule,
    retry_after_s,
    rule_of,
)
from modules.llm_platform.infrastructure.http.untrusted_json import decode_json
from shared.exceptions import AppException

# A client that knows which proxy it sends through: the ledger names it beside the host.


class UpstreamClient(httpx2.AsyncClient):
    """The pooled client of one upstream. `via` is the host of its proxy, None where it has none."""

    def __init__(self, *, via: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.via = via


def via_of(client: httpx2.AsyncClient) -> str | None:
    """The host of the proxy that a client of ours sends through; None where it has none, or is somebody else's."""
    return client.via if isinstance(client, UpstreamClient) else None


def proxy_host(proxy: str | None) -> str | None:
    """The host in the address of a proxy, which may hold a password."""
    try:
        return httpx2.URL(proxy).raw_host.decode("ascii") if proxy else None
    except httpx2.InvalidURL:  # told where the proxy is used
        return None


MAX_BODY_BYTES: Final = 8 * 1024 * 1024  # after decompression; a search answer has 10 to 100 KB
MAX_CONNECTIONS: Final = 100
KEEPALIVE_S: Final = 15.0  # servers drop idle connections after 5 to 75 s; a dead one is noticed and replaced
MAX_PORT: Final = 65535
MAX_PATHS: Final = 100  # of one upstream, kept in parsed form
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)  # no connection: nothing left us

_CHARSET = re.compile(r"charset=[\"']?([\w.:+-]{1,40})", re.ASCII)


_quoted = lru_cache(maxsize=256)(
    partial(quote_plus, errors="replace")
)  # all of a form but the query is the same each time


@cache
def user_agent() -> str:
    """What we call ourselves."""
    try:
        return f"llm-platform/{metadata.version('llm-platform')}"
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "llm-platform"


def make_client(
    base_url: str = "",
    timeout: float | None = None,
    *,
    proxy: str | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
    limits: httpx2.Limits | None = None,
) -> httpx2.AsyncClient:
    """The pooled client of one upstream; the caller closes it.

    It reads no proxy or credentials from the environment and follows no redirect. `timeout` (seconds) is for each step
    (connect, read, write); None leaves the time to the deadline of the exchange, as `Upstream` does.
    """
    limits = limits or httpx2.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEPALIVE_S)
    verify = _no_tls() if base_url.startswith("http://") and not proxy else httpx2.create_ssl_context(trust_env=False)
    return UpstreamClient(
        via=proxy_host(proxy),
        base_url=_parsed(base_url) or "",
        timeout=timeout,
        proxy=proxy,
        headers={"User-Agent": user_agent(), **(headers or {})},
        auth=auth,
        limits=limits,
        verify=verify,
        trust_env=False,
        follow_redirects=False,
    )


def _no_tls() -> ssl.SSLContext:
    """For an upstream without TLS: trusts nobody, and spares the 16 ms that loading the authorities takes."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Reply(NamedTuple):
    """A complete answer of any status."""

    status: int
    headers: httpx2.Headers
    body: bytes

    def charset(self) -> str | None:
        """The charset that the sender declared."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return found[1] if found else None

    @property
    def is_html(self) -> bool:
        """Whether this is a web page, by its type or its first characters."""
        return "html" in self.headers.get("content-type", "") or self.body[:64].lstrip().startswith(b"<")


class Upstream:
    """One upstream behind one client: complete replies within a deadline and a size, failures as our errors.

    `label` and `setting` (the variable with its address) are for messages. Credentials inside `base_url` are sent as
    Basic auth and appear nowhere else. Redirects are not followed, cookies are not kept.
    """

    def __init__(
        self,
        label: str,
        base_url: str,
        *,
        setting: str,
        timeout: float,
        client: httpx2.AsyncClient | None = None,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        rules: Mapping[int, Rule] | None = None,
        errors: ErrorFamily = WEB_SEARCH_ERRORS,
        redactor: Redactor | None = None,
        max_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.label = label
        self.timeout = timeout
        self._setting = setting
        self._rules = {**STATUS_RULES, **(rules or {})}
        self._errors = errors
        self._redactor = redactor or Redactor()
        self._max_bytes = max_bytes
        self.base_url, inner_auth = _without_credentials(base_url)
        # A client of our own is nobody's to close: it keeps no connection when an exchange is over.
        self._client = client or make_client(self.base_url, limits=httpx2.Limits(max_keepalive_connections=0))
        self._via = via_of(self._client)
        url = _parsed(self.base_url)
        self._usable = url is not None
        self._host = "" if url is None else url.raw_host.decode("ascii")
        every = _headers(url, headers or {}, auth or inner_auth)
        self._headers = {kind: _with_type(every, kind) for kind in (None, FORM, JSON)}
        self._urls: dict[str, httpx2.URL] = {}

    async def post_form(
        self, path: str, form: Mapping[str, str], deadline: float | None = None, holds: SentKind | None = "query"
    ) -> Reply:
        """POST the fields of a query as an HTML form would; `holds` says for the ledger what of ours stands in it."""
        content = "&".join([f"{name}={_quoted(value)}" for name, value in form.items()]).encode()
        return await self._exchange("POST", path, content, FORM, deadline, holds)

    async def post_json(
        self, path: str, body: Mapping[str, Any], deadline: float | None = None, holds: SentKind = "query"
    ) -> Reply:
        """POST the object as JSON; `holds` says for the ledger what of ours stands in it."""
        return await self._exchange("POST", path, json.dumps(body).encode(), JSON, deadline, holds)

    async def get(self, path: str, deadline: float | None = None, holds: SentKind | None = None) -> Reply:
        """GET the path; `holds` says for the ledger what of ours stands in it, None that nothing does."""
        return await self._exchange("GET", path, b"", None, deadline, holds)

    def object_in(self, reply: Reply, *, finite: bool = False) -> dict[str, Any]:
        """The JSON object that a good reply holds; raises by the table for any other reply."""
        if reply.status != httpx2.codes.OK:
            self.check(reply)
        try:
            value = decode_json(reply.body, reply.charset, finite=finite)
        except ValueError as error:
            raise self.failure_of(WEB_PAGE if reply.is_html else NO_JSON) from error
        if not isinstance(value, dict):
            raise self.failure_of(NO_JSON)
        return value

    def check(self, reply: Reply) -> None:
        """Raise by the table unless the status says that all is well."""
        if not reply.status // 100 == 2 or reply.status in self._rules:
            raise self.failure(reply.status, retry_after_s(reply.headers))

    def failure(self, status: int, retry_after: float | None = None) -> AppException:
        """The error that a status stands for."""
        rule = self._rules.get(status) or (REDIRECT if status // 100 == 3 else None)
        return self.failure_of(rule or Rule(NOT_OK.kind, f"{NOT_OK.words} ({status})"), retry_after)

    def failure_of(self, rule: Rule, retry_after: float | None = None) -> AppException:
        """The error that a rule stands for; `retry_after` in seconds."""
        words = rule.words.replace("{setting}", self._setting)
        return self._errors.of(rule.kind)(f"{self.label} {words}", retry_after_s=retry_after)

    async def _exchange(
        self,
        method: str,
        path: str,
        content: bytes,
        kind: str | None,
        deadline: float | None,
        holds: SentKind | None,
    ) -> Reply:
        if not self._usable:
            raise self.failure_of(NO_ADDRESS)
        until = asyncio.get_running_loop().time() + self.timeout if deadline is None else deadline
        try:
            async with asyncio.timeout_at(until):
                request = self._request(method, path, content, kind)
                return await self._send(request, holds, len(content) or len(path))
        except httpx2.LocalProtocolError as error:
            raise self.failure_of(rule_of(error)) from None  # its words quote the header that it could not send
        except TRANSPORT_ERRORS as error:
            raise self.failure_of(rule_of(error)) from error

    def _request(self, method: str, path: str, content: bytes, kind: str | None) -> httpx2.Request:
        # Put together from parts that are ready: doing it anew each time, as `client.build_request` does, merging address,
        # headers and cookies, takes a tenth of a local exchange.
        url = self._urls.get(path)
        if url is None:
            if len(self._urls) >= MAX_PATHS:  # an upstream whose paths never repeat
                self._urls.clear()
            url = self._urls[path] = httpx2.URL(self.base_url + path)
        headers = self._headers[kind].copy()
        if kind:
            headers["Content-Length"] = str(len(content))
        return httpx2.Request(method, url, headers=headers, stream=httpx2.ByteStream(content))

    async def _send(self, request: httpx2.Request, holds: SentKind | None, size: int) -> Reply:
        if holds:
            log_sent(self._host, holds, size, self._via)
        try:  # not to be redirected, whatever a given client does
            response = await self._client.send(request, stream=True, follow_redirects=False)
        except NEVER_SENT:
            if holds:
                log_not_sent(self._host, holds, size, self._via)
            raise
        try:
            body = await self._read(response)
        finally:
            await response.aclose()
        return Reply(response.status_code, response.headers, self._redactor.data(body))

    async def _read(self, response: httpx2.Response) -> bytes:
        # A body that is not compressed is read from the stream itself: the decoding layers cost more than our own work.
        pieces: AsyncIterator[bytes] = response.aiter_bytes()
        if "content-encoding" not in response.headers and isinstance(response.stream, httpx2.AsyncByteStream):
            pieces = response.stream.__aiter__()
        chunks, size = [], 0
        async for chunk in pieces:
            size += len(chunk)
            if size > self._max_bytes:
                raise self.failure_of(Rule("error", f"answered with more than {self._max_bytes >> 20} MB"))
            chunks.append(chunk)
        return b"".join(chunks)


def _parsed(base_url: str) -> httpx2.URL | None:
    """The address, or None when it cannot be one: that is reported where it is used, not at start."""
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL:
        return None
    usable = url.scheme in ("http", "https") and url.host and (url.port or 0) <= MAX_PORT
    return url if usable else None


def has_credentials(base_url: str) -> bool:
    """Whether the address holds a user name or password, which is sent as Basic auth."""
    return _without_credentials(base_url)[1] is not None


def _without_credentials(base_url: str) -> tuple[str, tuple[str, str] | None]:
    url = _parsed(base_url)
    if url is None or not url.userinfo:
        return base_url.rstrip("/"), None
    return str(url.copy_with(username=None, password=None)).rstrip("/"), (url.username, url.password)


def _headers(url: httpx2.URL | None, headers: Mapping[str, str], auth: tuple[str, str] | None) -> dict[str, str]:
    host = {} if url is None else {"Host": url.netloc.decode()}
    every = {**host, "Accept": JSON, "Accept-Encoding": "gzip, deflate", "User-Agent": user_agent(), **headers}
    if auth:
        every["Authorization"] = "Basic " + base64.b64encode(":".join(auth).encode()).decode()
    return every


def _with_type(headers: Mapping[str, str], kind: str | None) -> httpx2.Headers:
    return httpx2.Headers({**headers, "Content-Type": kind} if kind else headers)
