"""The table of events in docs/reference/http.md, made from the registry of events."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

from modules.llm_platform.application.research.events import EVENT_TYPES

PAGE = "docs/reference/http.md"
BEGIN, END = "<!-- Events: written by `make docs`; do not edit. -->\n\n", "\n<!-- end of events -->\n"
HEAD = "| type | fields | when |\n|---|---|---|\n"
OF_EVERY_EVENT = {"type", "request_id"}


def page(root: Path) -> str:
    """Return the text of the page with the table as it is now."""
    before, _, rest = (root / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + HEAD + "".join(_rows()) + END + rest.partition(END)[2]


def _rows() -> Iterator[str]:
    for name, event in EVENT_TYPES.items():
        fields = {name: field.description for name, field in event.model_fields.items() if name not in OF_EVERY_EVENT}
        cells = (f"`{field}`" + (f" ({note})" if note else "") for field, note in fields.items())
        when = " ".join(cleandoc(event.__doc__ or "").partition("\n\n")[0].split())
        yield f"| `{name}` | {', '.join(cells)} | {when} |\n"
