"""The column `limit` of the tables of fields in docs/reference/http.md and mcp.md, made from the models of the requests.

A table with this column is below one of the headings that are listed here. Its rows are written by hand, and each cell of
the column is the limit of the field that its row names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from modules.llm_platform.presentation.mcp.tools import TOOLS, Choices
from modules.llm_platform.presentation.rest.research_routes import ResearchApiRequest
from modules.llm_platform.presentation.rest.search_routes import WebSearchApiRequest
from modules.llm_platform.presentation.rest.verify_routes import VerificationApiRequest

MCP_PAGE: Final = "docs/reference/mcp.md"
HEAD: Final = " | default | limit | what |\n"
REQUESTS: Final[Mapping[str, type[BaseModel]]] = {
    "## POST /research\n": ResearchApiRequest,
    "## POST /verify\n": VerificationApiRequest,
    "## POST /llm-platform/web-search\n": WebSearchApiRequest,
}


def filled(page: str) -> str:
    """Return the text of the page with the limits as they are now."""
    return "".join(_lines(page))


def _lines(page: str) -> Iterator[str]:
    schemas = {heading: model.model_json_schema() for heading, model in REQUESTS.items()}
    schemas |= {f"### {tool.name}\n": tool.input_schema(Choices()) for tool in TOOLS}
    fields: Mapping[str, Any] = {}
    is_table = False
    for line in page.splitlines(keepends=True):
        if line.startswith("##"):
            fields = schemas.get(line, {}).get("properties", {})
        is_table = line.endswith(HEAD) or (is_table and line.startswith("|"))
        yield _with_limit(line, fields) if is_table and line.startswith("| `") else line


def _with_limit(row: str, fields: Mapping[str, Any]) -> str:
    _, field, default, _, what = row.split("|", 4)
    limit = limit_of(fields.get(field.strip(" `"), {}))
    return "|".join(["", field, default, f" {limit} " if limit else " ", what])


def limit_of(schema: Mapping[str, Any]) -> str:
    """Return the bounds of a field in words, such as `at most 20 entries of at most 2,000 characters`; empty without any."""
    [accepted, *_] = schema.get("anyOf", [schema])  # null follows it
    if accepted.get("type") == "array":
        entries, each = _range(accepted.get("minItems"), accepted.get("maxItems")), limit_of(accepted["items"])
        return f"{entries} entries" + (f" of {each}" if each else "")
    if accepted.get("type") == "string":
        characters = _range(accepted.get("minLength"), accepted.get("maxLength"))
        return f"{characters} characters" if characters else ""
    if "exclusiveMinimum" in accepted:
        return ", ".join(
            filter(None, [f"more than {accepted['exclusiveMinimum']:,}", _range(None, accepted.get("maximum"))])
        )
    return _range(accepted.get("minimum"), accepted.get("maximum"))


def _range(least: int | None, most: int | None) -> str:
    if most is None:
        return "" if least is None else f"at least {least:,}"
    return f"at most {most:,}" if least is None else f"{least:,} to {most:,}"
