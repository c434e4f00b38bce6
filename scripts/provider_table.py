"""The table of search services in docs/howto/paid-search-services.md, made from SEARCH_PROVIDERS and the adapters."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from modules.llm_platform.infrastructure.search.from_settings.providers import (
    ADAPTERS,
    BASE_URLS,
    SEARCH_PROVIDERS,
    SearchProviderSpec,
)
from modules.llm_platform.infrastructure.search.keyed_service import KeyedWebSearch

PAGE = "docs/howto/paid-search-services.md"
BEGIN, END = "<!-- Written by `make docs`; do not edit. -->\n", "<!-- end -->\n"
HEAD = "| provider | key | service | sources | results of one search | pages |\n|---|---|---|---|---|---|\n"


def page(root: Path) -> str:
    """Return the text of the page with the table as it is now."""
    before, _, rest = (root / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + HEAD + "".join(_rows()) + END + rest.partition(END)[2]


def _rows() -> Iterator[str]:
    """Yield a row for each service whose only setting is its key; the others have pages of their own."""
    for spec in SEARCH_PROVIDERS:
        if BASE_URLS in spec.settings:
            adapter = _adapter_of(spec)
            kinds, pages = ", ".join(spec.source_kinds), "yes" if adapter.has_pages else "first only"
            yield f"| `{spec.name}` | `{spec.settings[0]}` | {spec.label} | {kinds} | {adapter.max_results} | {pages} |\n"


def _adapter_of(spec: SearchProviderSpec) -> type[KeyedWebSearch]:
    module = import_module(f"{ADAPTERS}.{spec.name}")
    found = (member for member in vars(module).values() if isinstance(member, type) and issubclass(member, KeyedWebSearch))
    return next(adapter for adapter in found if getattr(adapter, "name", "") == spec.name)
