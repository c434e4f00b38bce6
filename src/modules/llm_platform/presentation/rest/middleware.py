"""The one layer in front of all routes: request id, who may come in, the last word on errors, a last look at answers.

Pure ASGI and one pass over the headers, because every request pays for it.
"""

from __future__ import annotations

import hmac
import re
import uuid
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Protocol

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from modules.llm_platform.presentation.rest.problems import (
    REQUEST_ID,
    BadRequestError,
    ClientGoneError,
    ForeignSiteError,
    NotServingError,
    UnauthorizedError,
    UnknownHostError,
    known,
    problem_response,
)
from modules.llm_platform.presentation.rest.responses import ServerState
from shared.config import LOOPBACK_HOSTS, Settings
from shared.logging import bind_request_id

# Who may speak to this server: whose pages, under which name, with which key.
# A page that a loopback user visits can send requests to loopback, and a name of the page's owner can be made to point
# there (DNS rebinding). So the Host must be ours, and `Origin` and `Sec-Fetch-Site`, which a page cannot forge, must
# not name another site. Browsers send them; other clients do not, and pass.


OPEN_PATHS = frozenset({"/health", "/ready"})  # probes carry neither a key nor a name
PAGES = frozenset({"/", "/docs"})  # what a person opens in a browser: no key, and a link of any site may lead there
PAGE_FILES = "/docs/"  # what these pages load: no key
OWN_SITE = frozenset({b"same-origin", b"none"})  # none: typed into the address bar

Headers = Mapping[bytes, bytes]


class CrossSiteGuard:
    """The rules that the settings make, as bytes that headers are compared with."""

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(origin.rstrip("/").lower().encode() for origin in settings.CORS_ORIGINS)
        self._hosts = frozenset(host.lower() for host in settings.ALLOWED_HOSTS)
        self._any_host = "*" in self._hosts or (not self._hosts and settings.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS)
        self._keys = tuple(key.get_secret_value().encode() for key in settings.LLM_PLATFORM_API_KEYS)
        self._own: dict[bytes, bool] = {}

    def invited(self, origin: bytes | None) -> bool:
        """Whether CORS_ORIGINS names this origin (`*` names all but the opaque `null`)."""
        if not self._origins or origin is None or origin == b"null":
            return False
        return b"*" in self._origins or origin.lower() in self._origins

    def check(self, path: str, headers: Headers) -> None:
        """Raise what is wrong with the sender; a preflight of an invited page is the guard's to answer."""
        self.check_page(path, headers)
        if self._keys and not _is_open(path) and not self._has_key(headers):
            raise UnauthorizedError

    def check_page(self, path: str, headers: Headers) -> None:
        """The Host is ours, and no foreign page sent this."""
        host = headers.get(b"host", b"")
        if path not in OPEN_PATHS and not self._answers_to(host):
            raise UnknownHostError
        origin = headers.get(b"origin")
        if origin is not None and self.invited(origin):
            return
        if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
            raise ForeignSiteError
        if headers.get(b"sec-fetch-site", b"none").lower() not in OWN_SITE and not _follows_a_link(path, headers):
            raise ForeignSiteError

    def _answers_to(self, host: bytes) -> bool:
        if self._any_host or not host:  # a browser always sends one
            return True
        if host not in self._own:
            if len(self._own) > 100:  # whoever sends many different ones gets no memory for it
                self._own.clear()
            self._own[host] = self._is_ours(_name(host.decode("latin-1").lower()))
        return self._own[host]

    def _is_ours(self, name: str) -> bool:
        if self._hosts:
            return name in self._hosts or any(h.startswith("*.") and name.endswith(h[1:]) for h in self._hosts)
        return _cannot_be_rebound(name)

    def _has_key(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        offered = [headers.get(b"x-api-key", b"")]
        if scheme.lower() == b"bearer":
            offered.append(bearer.strip())
        # Every key is compared, each in constant time, so the time taken tells nothing.
        return sum(hmac.compare_digest(key, offer) for key in self._keys for offer in offered) > 0


def _is_open(path: str) -> bool:
    """Whether no key is wanted: for the probes, and for the page with its files, which say nothing of what is served."""
    return path in OPEN_PATHS or path in PAGES or path.startswith(PAGE_FILES)


def _follows_a_link(path: str, headers: Headers) -> bool:
    """Whether a person came to one of our pages from another site's. No page can send this mode by a script."""
    return path in PAGES and headers.get(b"sec-fetch-mode") == b"navigate"


def _name(host: str) -> str:
    """`[::1]:8000` gives `::1`, `localhost:8000` gives `localhost`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _cannot_be_rebound(name: str) -> bool:
    """Addresses, localhost, and names without a dot: no stranger owns a public DNS entry for them."""
    if "." not in name.rstrip(".") and ":" not in name:
        return True
    if name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


HEADERS = "llm_platform.headers"  # in the ASGI scope: those of the headers below that came
LAST_WORD = "llm_platform.last_word"  # there too: how an answer that has begun says that it cannot go on
READ = frozenset(
    b"accept access-control-request-method authorization content-encoding content-length content-type expect host "
    b"origin sec-fetch-mode sec-fetch-site x-api-key x-request-id".split()
)
LISTS = frozenset((b"accept", b"x-request-id"))  # the others say one thing: said twice, nobody knows which one counts
GOOD_REQUEST_ID = re.compile(rb"[\x20-\x7e]{1,128}")
PREFLIGHT_AGE_S = b"600"


class Redacts(Protocol):
    """Blanks out configured secrets."""

    def data(self, data: bytes, /) -> bytes: ...


class GuardMiddleware:
    """ASGI middleware; raises into the server only when an answer breaks off half-way."""

    def __init__(self, app: ASGIApp, sites: CrossSiteGuard, door: ServerState, redactor: Redacts | None) -> None:
        self._app = app
        self._sites = sites
        self._door = door
        self._redactor = redactor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        came = [header for header in scope["headers"] if header[0] in READ]
        scope[HEADERS] = headers = dict(came)
        scope[REQUEST_ID] = request_id = _request_id(headers.get(b"x-request-id"))
        origin = headers.get(b"origin")
        reply = _Reply(send, request_id, origin if self._sites.invited(origin) else None, self._redactor)
        with bind_request_id(request_id):
            try:
                if len(came) != len(headers):
                    _refuse_contradictions(came, headers)
                await self._admit(scope, headers, receive, reply)
            except ClientGoneError:
                return
            except Exception as error:  # the outermost loop of a request
                if not reply.started:
                    await problem_response(known(error), scope)(scope, receive, reply)
                elif LAST_WORD in scope:
                    await scope[LAST_WORD](known(error))
                else:
                    raise

    async def _admit(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, reply: _Reply) -> None:
        path = scope["path"]
        if reply.origin is not None and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            self._sites.check_page(path, headers)
            await Response(status_code=204)(scope, receive, reply)
            return
        self._sites.check(path, headers)
        if not self._door.open and path not in OPEN_PATHS:
            raise NotServingError
        await self._app(scope, receive, reply)


def _refuse_contradictions(came: Sequence[tuple[bytes, bytes]], headers: dict[bytes, bytes]) -> None:
    """One of two Hosts or Origins could pass the checks while the other one is believed elsewhere."""
    names = [name for name, _ in came]
    if any(names.count(name) > 1 for name in headers.keys() - LISTS):
        raise BadRequestError("A header that has one value was sent twice.")
    headers[b"accept"] = b", ".join(value for name, value in came if name == b"accept")


def _request_id(sent: bytes | None) -> str:
    """The sender's, when it is printable and at most 128 characters; else one that nobody can guess."""
    if sent is not None and GOOD_REQUEST_ID.fullmatch(sent):
        return sent.decode("ascii")
    return uuid.uuid4().hex


class _Reply:
    """`send` with our headers added. With secrets to look for, the head waits for the first piece of the body, whose
    length may change."""

    def __init__(self, send: Send, request_id: str, origin: bytes | None, redactor: Redacts | None) -> None:
        self._send = send
        self._redactor = redactor
        self._request_id = request_id.encode("ascii")
        self._held: Message | None = None
        self.origin = origin
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._add_headers(message)
            if self._redactor is not None:
                self._held = message
                return
            self.started = True
        elif self._redactor is not None:
            await self._clean(self._redactor, message)
        await self._send(message)

    async def _clean(self, redactor: Redacts, message: Message) -> None:
        body = message.get("body", b"")
        clean = redactor.data(body)
        head, self._held = self._held, None
        if head is not None:
            if len(clean) != len(body):
                head["headers"] = [_resized(header, len(clean)) for header in head["headers"]]
            self.started = True
            await self._send(head)
        message["body"] = clean

    def _add_headers(self, message: Message) -> None:
        request_id = self._redactor.data(self._request_id) if self._redactor else self._request_id
        added = [(b"x-request-id", request_id), (b"x-content-type-options", b"nosniff")]
        if self.origin is not None:
            added += [
                (b"access-control-allow-origin", self.origin),
                (b"access-control-expose-headers", b"X-Request-ID, Retry-After"),
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", b"Authorization, Content-Type, X-API-Key, X-Request-ID"),
                (b"access-control-max-age", PREFLIGHT_AGE_S),
                (b"vary", b"Origin"),
            ]
        message["headers"] = [*message.get("headers", ()), *added]


def _resized(header: tuple[bytes, bytes], length: int) -> tuple[bytes, bytes]:
    return (header[0], str(length).encode()) if header[0].lower() == b"content-length" else header
