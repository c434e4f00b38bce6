"""Code that the programs in this folder share. They run in separate environments, where the project is not installed.

`@check` names a check and the columns of the client table that the check proves. `"COLUMN: reason"` proves that the client does
not support the column. `main` runs all checks and prints one JSON object that maps each name to its error, or to "".
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
LIMITED_URL = os.environ.get("CHECKED_LIMITED_URL", "")  # a server with a low rate limit
USUAL_URL = os.environ.get("CHECKED_USUAL_URL", "")  # a server with an API key and the default limits
PAGE_URL = os.environ.get("CHECKED_PAGE_URL", "")  # a page that client and server may read
LLM = "openai/fake-1"
EMBEDDER = "wordllama/l2_supercat_256"
QUESTION = "What is Python asyncio?"
LATE_ERROR = "The service fails late."  # the language model fails this question after some seconds
BUSY_ONCE = "The service is busy once."  # the language model answers this question on the second try
PAGE_WORD = "tutorial"  # a search for it finds a page that clients may read
ANSWER = "asyncio is a library to write concurrent code"  # part of every answer, result and page

CHECKS: dict[str, Callable[[], Any]] = {}


def check(name: str, *shows: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        CHECKS[name] = function
        return function

    return register


def raised(error: type[BaseException], call: Callable[[], Any], tries: int = 1) -> Any:
    """Return the first error that up to `tries` calls raise. Raises AssertionError if no call fails."""
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
        except Exception:  # noqa: BLE001  # any error of a client is a result
            results[name] = traceback.format_exc()
    print("\n" + json.dumps(results))  # noqa: T201
