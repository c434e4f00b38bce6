"""The latest answers to requests with an `Idempotency-Key`."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from fastapi import Response

from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
MAX_ANSWERS: Final = 100
MAX_ANSWER_BYTES: Final = 262_144
KEPT_S: Final = 600.0


class _Answer(NamedTuple):
    digest: bytes  # digest of the request
    content: bytes
    headers: dict[str, str]
    expires: float


class _Running(NamedTuple):
    digest: bytes  # digest of the request
    ended: asyncio.Event


class KeptAnswers:
    """The latest answers of this process to requests with an idempotency key, and the requests that are being answered.

    An answer is stored for KEPT_S seconds if it has status 200, is not a stream, and has at most MAX_ANSWER_BYTES. At most
    MAX_ANSWERS are stored. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._answers: OrderedDict[tuple[str, str, str], _Answer] = OrderedDict()
        self._running: dict[tuple[str, str, str], _Running] = {}
        self._clock = clock

    @contextmanager
    def run(self, request_key: tuple[str, str, str], digest: bytes) -> Iterator[None]:
        """Let `find_running` find the request until the block ends."""
        running = self._running[request_key] = _Running(digest, asyncio.Event())
        try:
            yield
        finally:
            del self._running[request_key]
            running.ended.set()

    def find_running(self, request_key: tuple[str, str, str], digest: bytes) -> asyncio.Event | None:
        """Return the event that is set when the same request, which is being answered, has ended.

        Raises InvalidRequestError if the key belongs to another one.
        """
        running = self._running.get(request_key)
        if running is None:
            return None
        _require_same(running.digest, digest)
        return running.ended

    def find(self, request_key: tuple[str, str, str], digest: bytes) -> Response | None:
        """Return the answer to the same request. Raises InvalidRequestError if the key belongs to another one."""
        kept = self._answers.get(request_key)
        if kept is None or kept.expires < self._clock():
            return None
        _require_same(kept.digest, digest)
        return Response(kept.content, headers={**kept.headers, "Idempotent-Replayed": "true"})

    def keep(self, request_key: tuple[str, str, str], digest: bytes, response: Response) -> None:
        content = bytes(getattr(response, "body", b""))
        if response.status_code != 200 or not 0 < len(content) <= MAX_ANSWER_BYTES:  # a stream has no body
            return
        headers = {name: value for name, value in response.headers.items() if name != "content-length"}
        self._answers[request_key] = _Answer(digest, content, headers, self._clock() + KEPT_S)
        self._answers.move_to_end(request_key)
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)


def _require_same(known: bytes, digest: bytes) -> None:
    if known != digest:
        raise InvalidRequestError.at(
            ("header", IDEMPOTENCY_KEY),
            "was sent with another request before: send a new key with each new request",
        )
