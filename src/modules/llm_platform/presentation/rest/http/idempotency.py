"""Answers that are sent again to a client that repeats a request with the same `Idempotency-Key`.

Clients repeat a request whose answer was lost on the way: the research is not run, and not paid, a second time.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final

from fastapi import Request, Response
from pydantic import BaseModel

from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.kept_answers import IDEMPOTENCY_KEY
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_server_state

IDEMPOTENCY_KEY_CHARS: Final = 255
VERIFY_HEADER: Final = "X-Verify"  # another value asks for another answer


async def answer_once(request: Request, body: BaseModel, answer: Callable[[], Awaitable[Response]]) -> Response:
    """Return the answer, or the stored answer to the same request with the same `Idempotency-Key` from the same caller.

    Waits while the same request is being answered, and runs it again if it failed. Raises InvalidRequestError for an invalid
    key, and for a key that was sent with another request.
    """
    sent = request.scope[HEADERS].get(IDEMPOTENCY_KEY.lower().encode())
    if sent is None:
        return await answer()
    key = sent.decode("latin-1")
    if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARS or not key.isascii() or not key.isprintable():
        raise InvalidRequestError.at(
            ("header", IDEMPOTENCY_KEY), f"must have 1 to {IDEMPOTENCY_KEY_CHARS} visible ASCII characters"
        )
    kept, request_key = get_server_state(request).kept_answers, (get_caller_id(request), request.scope["path"], key)
    verified = request.scope[HEADERS].get(VERIFY_HEADER.lower().encode(), b"")
    digest = sha256(body.model_dump_json().encode() + b"\n" + verified).digest()
    while (ended := kept.find_running(request_key, digest)) is not None:
        async with CancelOnDisconnect(request.receive):
            await ended.wait()
    if (again := kept.find(request_key, digest)) is not None:
        return again
    with kept.run(request_key, digest):
        response = await answer()
        kept.keep(request_key, digest, response)
    return response
