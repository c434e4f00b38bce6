"""The one layer in front of all routes: request id, who may come in, the last word on errors, a last look at answers.

Pure ASGI and one pass over the headers, because every request pays for it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from modules.llm_platform.presentation.rest.door import Door
from modules.llm_platform.presentation.rest.errors import BadRequestError, ClientGoneError, NotServingError
from modules.llm_platform.presentation.rest.problems import REQUEST_ID, known, problem_response
from modules.llm_platform.presentation.rest.sites import OPEN_PATHS, Sites
from shared.logging import bind_request_id

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


class Guard:
    """ASGI middleware; raises into the server only when an answer breaks off half-way."""

    def __init__(self, app: ASGIApp, sites: Sites, door: Door, redactor: Redacts | None) -> None:
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
