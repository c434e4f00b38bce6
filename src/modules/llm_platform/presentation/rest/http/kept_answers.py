"""The latest answers to requests with an `Idempotency-Key`."""

import time
from collections import OrderedDict
from collections.abc import Callable
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


class KeptAnswers:
    """The latest answers of this process to requests with an idempotency key. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._answers: OrderedDict[tuple[str, str, str], _Answer] = OrderedDict()
        self._clock = clock

    def find(self, request_key: tuple[str, str, str], digest: bytes) -> Response | None:
        """Return the answer to the same request. Raises InvalidRequestError if the key belongs to another one."""
        kept = self._answers.get(request_key)
        if kept is None or kept.expires < self._clock():
            return None
        if kept.digest != digest:
            raise InvalidRequestError.at(
                ("header", IDEMPOTENCY_KEY),
                "was sent with another request before: send a new key with each new request",
            )
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
