"""Access upstreams over HTTP, with a pooled client for each upstream, and a deadline and a size limit for each request.

The table in `http.errors` says which failure becomes which error. An adapter overrides rows of it with `rules`.
"""

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from functools import cache, lru_cache, partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

import httpx2

from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.domain.package import PACKAGE, package_version
from modules.llm_platform.domain.ports.tracing import CURRENT_SPAN
from modules.llm_platform.domain.privacy.egress_log import log_not_sent, log_sent
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.http import errors as http_errors
from modules.llm_platform.infrastructure.http.aiohttp_transport import ON_BODY_END, AiohttpTransport
from modules.llm_platform.infrastructure.http.untrusted_json import decode_json
from shared.exceptions import AppException


class UpstreamClient(httpx2.AsyncClient):
    """The pooled client of one upstream. `via` is the host of its proxy, for the egress log, or None."""

    def __init__(self, *, via: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.via = via


def get_proxy_host(client: httpx2.AsyncClient) -> str | None:
    """Return the host of the client's proxy.

    Return None for a client without a proxy, and for one that `make_client` did not create.
    """
    return client.via if isinstance(client, UpstreamClient) else None


def parse_proxy_host(proxy: str | None) -> str | None:
    """Return the host of a proxy's address, without the credentials in it."""
    try:
        return httpx2.URL(proxy).raw_host.decode("ascii") if proxy else None
    except httpx2.InvalidURL:
        # The first request through the proxy reports the error.
        return None


MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024  # The decompressed size. A search answer has 10 to 100 KB.
MAX_CONNECTIONS: Final = 250  # Search and model together stay below the 1024 files that a process may usually open.
KEEPALIVE_S: Final = 15.0  # Servers drop idle connections after 5 to 75 s. A dropped connection is replaced.
MAX_PORT: Final = 65535
MAX_PATHS: Final = 100  # Parsed URLs that are cached for one upstream.
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
# These errors mean that no connection was made, so nothing was sent.
NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.ASCII | re.IGNORECASE)

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_quoted = lru_cache(maxsize=256)(partial(quote_plus, errors="replace"))  # Most values of a form repeat.


@cache
def get_user_agent() -> str:
    version = package_version()
    return f"{PACKAGE}/{version}" if version else PACKAGE


def make_client(
    base_url: str = "",
    timeout: float | None = None,
    *,
    proxy: str | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
    limits: httpx2.Limits | None = None,
) -> httpx2.AsyncClient:
    """Create the pooled client of one upstream. The caller closes it.

    The client reads neither a proxy nor credentials from the environment, and follows no redirect. `timeout` is the limit in
    seconds for each step (connect, read, write). With None, only the deadline of the request applies, as `Upstream` sets it.
    """
    limits = limits or httpx2.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEPALIVE_S)
    needs_tls = bool(proxy) or not base_url.startswith("http://")
    # An upstream without TLS needs no certificate authorities, which take time to load.
    verify = get_default_tls() if needs_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return UpstreamClient(
        via=parse_proxy_host(proxy),
        base_url=_parse_url(base_url) or "",
        timeout=timeout,
        proxy=proxy,
        headers={"User-Agent": get_user_agent(), **(headers or {})},
        auth=auth,
        limits=limits,
        verify=verify,
        transport=None if proxy or limits.max_keepalive_connections == 0 else AiohttpTransport(verify, limits),
        trust_env=False,
        follow_redirects=False,
    )


@cache
def get_default_tls() -> ssl.SSLContext:
    """Return the TLS context of all connections. It is cached, because its certificate authorities take 16 ms to load."""
    return httpx2.create_ssl_context(trust_env=False)


class Reply(NamedTuple):
    """A complete response of any status."""

    status: int
    headers: httpx2.Headers
    body: bytes

    def charset(self) -> str | None:
        """Return the charset that the sender declared, or None."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return found[1] if found else None

    @property
    def is_html(self) -> bool:
        """True if the body is a web page, according to its type or its first characters."""
        return "html" in self.headers.get("content-type", "").lower() or self.body[:64].lstrip().startswith(b"<")


class Upstream:
    """One upstream. It returns complete replies within a deadline and a size limit, and raises errors of one family.

    Redirects are not followed, and cookies are not stored. Credentials inside `base_url` are sent as Basic auth and appear
    nowhere else.

    - `label` is the name of the upstream in messages.
    - `setting` is the variable of its address, for messages.
    - `timeout` is the deadline of a request in seconds.
    - `read_timeout` is the wait for the next bytes in `send`, if it is another one.
    - `client` is a pooled client. Without it, each request opens a connection.
    - `rules` override rows of the table of errors, by status.
    - `errors` is the family of the errors.
    - `redactor` removes secrets from the bodies of replies.
    - `max_bytes` limits the size of a reply.
    """

    def __init__(
        self,
        label: str,
        base_url: str,
        *,
        setting: str,
        timeout: float,
        read_timeout: float | None = None,
        client: httpx2.AsyncClient | None = None,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        rules: Mapping[int, http_errors.Rule] | None = None,
        errors: http_errors.ErrorFamily = http_errors.WEB_SEARCH_ERRORS,
        redactor: Redactor | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self.label = label
        self.timeout = timeout
        self._setting = setting
        self._rules = {**http_errors.STATUS_RULES, **(rules or {})}
        self._errors = errors
        self._redactor = redactor if redactor and redactor.is_active else None
        self._max_bytes = max_bytes
        self.base_url, inner_auth = _split_credentials(base_url)
        # A client that is created here is never closed, so it keeps no connection open.
        self._client = client or make_client(self.base_url, limits=httpx2.Limits(max_keepalive_connections=0))
        self._via = get_proxy_host(self._client)
        url = _parse_url(self.base_url)
        self._usable = url is not None
        self._host = "" if url is None else url.raw_host.decode("ascii")
        common = _make_headers(url, headers or {}, auth or inner_auth)
        self._headers = {
            kind: httpx2.Headers({**common, "Content-Type": kind} if kind else common) for kind in (None, FORM, JSON)
        }
        self._urls: dict[str, httpx2.URL] = {}
        self._step_timeouts = httpx2.Timeout(timeout, read=read_timeout or timeout).as_dict()

    async def post_form(
        self, path: str, form: Mapping[str, str], deadline: float | None = None, *, sent_kind: SentKind | None
    ) -> Reply:
        """POST a form. Raises the errors of this upstream if no complete reply arrives.

        - `deadline` is a time of the event loop's clock. The default is `timeout` seconds from now.
        - `sent_kind` is the kind of data for the egress log, or None for a request without data of the user. It has no default,
          because a request that forgets it would leave no trace.
        """
        content = "&".join(map("{}={}".format, form, map(_quoted, form.values()))).encode()
        return await self._exchange("POST", path, content, FORM, deadline, sent_kind)

    async def post_json(
        self, path: str, body: Mapping[str, Any], deadline: float | None = None, *, sent_kind: SentKind | None
    ) -> Reply:
        """POST a JSON object. The other parameters are the same as in `post_form`."""
        return await self._exchange("POST", path, encode_json(body), JSON, deadline, sent_kind)

    async def get(self, path: str, deadline: float | None = None, *, sent_kind: SentKind | None) -> Reply:
        """GET a path. The other parameters are the same as in `post_form`."""
        return await self._exchange("GET", path, b"", None, deadline, sent_kind)

    def build_request(
        self, method: str, url: str, content: bytes, headers: Iterable[tuple[str, str]]
    ) -> httpx2.Request:
        """Return a request to a URL below `base_url`, with JSON or without content, for `send`.

        `headers` are added to the headers of this upstream, and replace none of them. `timeout` applies to each step, whatever
        timeout the client has. Raises InvalidURL for an unusable address.
        """
        request = self._request(method, url, content, JSON if content else None)
        for name, value in headers:
            request.headers.setdefault(name, value)
        request.extensions["timeout"] = self._step_timeouts
        return request

    async def send(self, request: httpx2.Request, *, sent_kind: SentKind | None) -> httpx2.Response:
        """Send a request of `build_request`, and return the response of any status with its body unread.

        The caller closes the response, and sets the deadline and the size limit. Raises TRANSPORT_ERRORS, as reading the body
        does.
        """
        return await self._send(
            request, sent_kind, int(request.headers.get("Content-Length", len(request.url.raw_path)))
        )

    async def read_reply(self, opening: Awaitable[httpx2.Response], deadline: float | None = None) -> Reply:
        """Read the complete response that `opening` returns. Raises the errors of this upstream if none arrives.

        `deadline` is a time of the event loop's clock. The default is `timeout` seconds from now.
        """
        until = asyncio.get_running_loop().time() + self.timeout if deadline is None else deadline
        try:
            async with asyncio.timeout_at(until):
                response = await opening
                body = await read_body(response, self._max_bytes)
        except httpx2.LocalProtocolError as error:
            # The message of this error quotes the invalid header, which may be a key.
            raise self.rule_error(http_errors.find_rule(error)) from None
        except http_errors.TRANSPORT_ERRORS as error:
            raise self.rule_error(http_errors.find_rule(error)) from error
        if body is None:
            raise self.rule_error(http_errors.Rule("error", f"answered with more than {self._max_bytes >> 20} MB"))
        data = body if self._redactor is None else self._redactor.data(body)
        return Reply(response.status_code, response.headers, data)

    def json_object(self, reply: Reply, *, finite: bool = False) -> dict[str, Any]:
        """Return the JSON object of a reply with status 200. Raises the error of the table for any other reply.

        With `finite`, numbers that a float cannot hold become None, as NaN always does.
        """
        if reply.status != httpx2.codes.OK:
            self.raise_for_status(reply)
        try:
            value = decode_json(reply.body, reply.charset, finite=finite)
        except ValueError as error:
            raise self.rule_error(http_errors.WEB_PAGE if reply.is_html else http_errors.NO_JSON) from error
        if not isinstance(value, dict):
            raise self.rule_error(http_errors.NO_JSON)
        return value

    def raise_for_status(self, reply: Reply) -> None:
        """Raise the error of the table for a status other than 2xx, and for a 2xx status that the table has."""
        if reply.status // 100 != 2 or reply.status in self._rules:
            raise self.make_status_error(reply.status, http_errors.retry_after_s(reply.headers))

    def make_status_error(self, status: int, retry_after: float | None = None) -> AppException:
        """Return the error for a status. `retry_after` is in seconds."""
        rule = self._rules.get(status) or (http_errors.REDIRECT if status // 100 == 3 else None)
        default = http_errors.UNAVAILABLE if status // 100 == 5 else http_errors.NOT_OK
        return self.rule_error(rule or http_errors.Rule(default.kind, f"{default.message} ({status})"), retry_after)

    def rule_error(self, rule: http_errors.Rule, retry_after: float | None = None) -> AppException:
        """Return the error for a rule. `retry_after` is in seconds."""
        message = rule.message.replace("{setting}", self._setting)
        return self._errors.of(rule.kind)(f"{self.label} {message}", retry_after_s=retry_after)

    async def _exchange(
        self,
        method: str,
        path: str,
        content: bytes,
        kind: str | None,
        deadline: float | None,
        sent_kind: SentKind | None,
    ) -> Reply:
        async def respond() -> httpx2.Response:
            request = self._request(method, self.base_url + path, content, kind)
            return await self._send(request, sent_kind, len(content) or len(path))

        return await self.read_reply(respond(), deadline)

    def _request(self, method: str, address: str, content: bytes, kind: str | None) -> httpx2.Request:
        if not self._usable:
            raise httpx2.InvalidURL("no usable address")
        # The parts of the request are prepared. `client.build_request` would merge address, headers and cookies each time,
        # which takes a tenth of the time of a local request.
        url = self._urls.get(address)
        if url is None:
            if len(self._urls) >= MAX_PATHS:
                self._urls.clear()
            url = self._urls[address] = httpx2.URL(address)
        headers = self._headers[kind].copy()
        if (span := CURRENT_SPAN.get()) is not None:
            headers.update(span.headers())
        if kind:
            headers["Content-Length"] = str(len(content))
        return httpx2.Request(method, url, headers=headers, stream=httpx2.ByteStream(content))

    async def _send(self, request: httpx2.Request, sent_kind: SentKind | None, size: int) -> httpx2.Response:
        """Send a request, record it in the egress log, and return the response with its body unread."""
        if sent_kind:
            log_sent(self._host, sent_kind, size, self._via)
        try:
            # A given client may be configured to follow redirects.
            return await self._client.send(request, stream=True, follow_redirects=False)
        except NEVER_SENT as error:
            if sent_kind:
                log_not_sent(self._host, sent_kind, size, self._via)
            if self._via and http_errors.is_unreachable(error):
                raise httpx2.ProxyError("no connection to the proxy") from error
            raise


def read_chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Return the chunks of the body as they arrive. The caller closes the response."""
    # An uncompressed body is read from the stream itself, because the layers of decoding cost more than the platform's work.
    if "content-encoding" not in response.headers and isinstance(response.stream, httpx2.AsyncByteStream):
        return response.stream.__aiter__()
    return response.aiter_bytes()


def get_body_end(response: httpx2.Response) -> asyncio.Event | None:
    """Return an event that is set when the whole body has arrived, or None if the transport cannot tell."""
    on_body_end = response.extensions.get(ON_BODY_END)
    if on_body_end is None:
        return None
    ended = asyncio.Event()
    on_body_end(ended.set)
    return ended


async def read_body(response: httpx2.Response, max_bytes: int) -> bytes | None:
    """Read the body and close the response. Return None if the body is longer than `max_bytes`."""
    chunks, size = [], 0
    try:
        async for chunk in read_chunks(response):
            size += len(chunk)
            if size > max_bytes:
                return None
            chunks.append(chunk)
    finally:
        await response.aclose()
    return b"".join(chunks)


def encode_json(body: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(body).encode(errors="replace")  # A text may contain half of a surrogate pair.


def _parse_url(base_url: str) -> httpx2.URL | None:
    """Return the parsed address, or None for an invalid one, which the first request reports."""
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL:
        return None
    usable = url.scheme in ("http", "https") and url.host and (url.port or 0) <= MAX_PORT
    return url if usable else None


def check_api_key(label: str, key: str, setting: str) -> str | None:
    """Return the message for a key that is missing or cannot be part of a header, or None for a usable key."""
    if not key:
        return f"{label} needs a key: set {setting}"
    if not key.isascii() or not key.isprintable():
        return f"{label} cannot use its key, which contains invalid characters: check {setting}"
    return None


def has_credentials(base_url: str) -> bool:
    """Return whether the address contains a user name or password, which are sent as Basic auth."""
    return _split_credentials(base_url)[1] is not None


def _split_credentials(base_url: str) -> tuple[str, tuple[str, str] | None]:
    """Return the address without its credentials, and the user name and password, or None."""
    url = _parse_url(base_url)
    if url is None or not url.userinfo:
        return base_url.rstrip("/"), None
    return str(url.copy_with(username=None, password=None)).rstrip("/"), (url.username, url.password)


def _make_headers(url: httpx2.URL | None, headers: Mapping[str, str], auth: tuple[str, str] | None) -> dict[str, str]:
    host = {} if url is None else {"Host": url.netloc.decode()}
    common = {**host, "Accept": JSON, "Accept-Encoding": "gzip, deflate", "User-Agent": get_user_agent(), **headers}
    if auth:
        common["Authorization"] = "Basic " + base64.b64encode(":".join(auth).encode()).decode()
    return common
