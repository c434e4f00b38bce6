"""The table of routes in docs/reference/compatible-apis.md, made from the compatible APIs.

The routes of an API are those of its examples: the OpenAPI document is refused while a route has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from modules.llm_platform.presentation.rest.compat.dialect import Dialect
from modules.llm_platform.presentation.rest.compat.table import DIALECTS

PAGE = "docs/reference/compatible-apis.md"
BEGIN, END = "<!-- Routes: written by `make docs`; do not edit. -->\n\n", "\n<!-- end of routes -->\n"
HEAD = "| route | for |\n|---|---|\n"


def page(root: Path) -> str:
    """Return the text of the page with the table as it is now."""
    before, _, rest = (root / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    rows = (f"| {', '.join(_routes(dialect))} | {dialect.clients} |\n" for dialect in DIALECTS)
    return before + BEGIN + HEAD + "".join(rows) + END + rest.partition(END)[2]


def _routes(dialect: Dialect) -> Iterator[str]:
    for route in dialect.examples:
        method, path = route.split(" ")
        yield f"`{method.upper()} {path}`"
