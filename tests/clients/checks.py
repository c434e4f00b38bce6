"""What the programs in this folder share. They run in environments of their own, where the project is not installed.

A program names what it tries with `@check`, and the columns of the table of clients that it shows; `"COLUMN: reason"` shows
that the client cannot. `main` tries all and prints one JSON object: name to what went wrong, or "".
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import traceback
from collections.abc import Callable
from typing import Any

URL = os.environ.get("CHECKED_URL", "")  # a server with an API key
KEY = os.environ.get("CHECKED_KEY", "")
OPEN_URL = os.environ.get("CHECKED_OPEN_URL", "")  # a server without an API key
LIMITED_URL = os.environ.get("CHECKED_LIMITED_URL", "")  # a server that takes one request in a while
USUAL_URL = os.environ.get("CHECKED_USUAL_URL", "")  # a server with an API key and the limits of an installation
PAGE_URL = os.environ.get("CHECKED_PAGE_URL", "")  # a page that both may read
LLM = "openai/fake-1"
EMBEDDER = "wordllama/l2_supercat_256"
QUESTION = "What is Python asyncio?"
LATE_ERROR = "The service fails late."  # a question that the language model refuses after some seconds
BUSY_ONCE = "The service is busy once."  # a question that it answers at the second try
PAGE_WORD = "tutorial"  # a search for it finds the page that clients may read
ANSWER = "asyncio is a library to write concurrent code"  # part of every answer, result and page

CHECKS: dict[str, Callable[[], Any]] = {}


def check(name: str, *shows: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        CHECKS[name] = function
        return function

    return register


def raised(error: type[BaseException], call: Callable[[], Any], tries: int = 1) -> Any:
    """Return the error that the call raises, at the latest the last time."""
    for _ in range(tries):
        try:
            call()
        except error as caught:
            return caught
    raise AssertionError(f"{error.__name__} was not raised")


def main() -> None:
    results = {}
    for name, function in CHECKS.items():
        try:
            result = function()
            if inspect.iscoroutine(result):
                asyncio.run(result)
            results[name] = ""
        except Exception:  # noqa: BLE001  # whatever a client raises is the result
            results[name] = traceback.format_exc()
    print("\n" + json.dumps(results))  # noqa: T201
