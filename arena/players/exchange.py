"""How a player is asked: one JSON object on standard input, one on standard output.

Given: `question`, `searxng_url`, `model_url`, `model`, `data_dir`, and `transcript`, a path without suffix for what is kept.
Answered: `answer`, `sources` (a list of `index` and `url`, where the answer cites by number) and `seconds`, without imports.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def play(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read a question, answer it, and print the answer. What libraries print goes to standard error."""
    given = json.load(sys.stdin)
    output = os.dup(1)
    os.dup2(2, 1)
    began = time.monotonic()
    result = {"sources": [], **answer(given)}
    result.setdefault("seconds", round(time.monotonic() - began, 2))
    with os.fdopen(output, "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    sys.stderr.flush()
    os._exit(0)  # threads of a library do not keep the process
