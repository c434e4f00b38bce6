"""The file of `--context`: what an answer shall be made from, as the contract writes it (rag-core.md §§4.2, 4.3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem
from modules.llm_platform.presentation.cli.given_file import read_given
from modules.llm_platform.presentation.cli.options import wrong
from modules.llm_platform.presentation.kafka import fields
from modules.llm_platform.presentation.kafka.request_error import RequestError

OPTION: Final = "--context"
MAX_FILE_KB: Final = 8000
LISTS: Final = ("context", "hits")  # of a request for an answer, of what a search found
WANTED: Final = "a list of {doc_id, snippet, url}, or an object with such a list as “context” or “hits”"


def read_context(path: Path) -> tuple[ContextItem, ...]:
    """The pieces; wrong use when the file holds none that can be read."""
    value = _value(path)
    if isinstance(value, dict):
        value = next((value[name] for name in LISTS if name in value), value)
    if not isinstance(value, list):
        wrong(OPTION, f"{path} must hold {WANTED}")
    try:
        items = fields.context(value)
    except RequestError as error:
        wrong(OPTION, str(error))
    if not items:
        wrong(OPTION, f"{path} holds nothing to answer from")
    return items


def _value(path: Path) -> Any:
    content = read_given(OPTION, path, most_kb=MAX_FILE_KB, what="pieces of context")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):  # UnicodeDecodeError is one
        wrong(OPTION, f"{path} must be JSON in UTF-8: {WANTED}")
