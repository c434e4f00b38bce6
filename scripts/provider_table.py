"""The tables of search services in docs/howto/paid-search-services.md, made from SEARCH_PROVIDERS and the adapters."""

from __future__ import annotations

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
FIELDS = {
    "domains": "`domains`",
    "time_range": "`time_range`, `freshness` with a word",
    "freshness": "`freshness` with dates",
    "language": "`language`",
    "text": "text of a result",
}
FIELDS_HEAD = f"| provider | {' | '.join(FIELDS.values())} |\n|---{'|---' * len(FIELDS)}|\n"


def page(root: Path) -> str:
    """Return the text of the page with its two tables as they are now."""
    services = [(spec, _adapter_of(spec)) for spec in SEARCH_PROVIDERS if BASE_URLS in spec.settings]
    before, _, rest = (root / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    between, _, rest = rest.partition(END)[2].partition(BEGIN)
    first = HEAD + "".join(_row(spec, adapter) for spec, adapter in services)
    second = FIELDS_HEAD + "".join(_fields_row(spec, adapter) for spec, adapter in services)
    return before + BEGIN + first + END + between + BEGIN + second + END + rest.partition(END)[2]


def _row(spec: SearchProviderSpec, adapter: type[KeyedWebSearch]) -> str:
    """Return the row of a service whose only setting is its key; the others have pages of their own."""
    kinds, pages = ", ".join(spec.source_kinds), "yes" if adapter.has_pages else "first only"
    return f"| `{spec.name}` | `{spec.settings[0]}` | {spec.label} | {kinds} | {adapter.max_results} | {pages} |\n"


def _fields_row(spec: SearchProviderSpec, adapter: type[KeyedWebSearch]) -> str:
    """Return what becomes of the fields of a request: the adapter's own words, or what its flags say."""
    dates = "passed on" if adapter.takes_freshness else "dated results are filtered"
    usual = {
        "domains": "results are filtered",
        "time_range": dates,
        "freshness": dates,
        "language": "passed on" if adapter.takes_language else "the query's",
        "text": "a snippet",
    }
    if unknown := adapter.notes.keys() - FIELDS.keys():
        raise ValueError(f"{adapter.__name__}: `notes` has {', '.join(sorted(unknown))}, which is no column of {PAGE}")
    return f"| `{spec.name}` | {' | '.join({**usual, **adapter.notes}.values())} |\n"


def _adapter_of(spec: SearchProviderSpec) -> type[KeyedWebSearch]:
    module = import_module(f"{ADAPTERS}.{spec.name}")
    found = (
        member for member in vars(module).values() if isinstance(member, type) and issubclass(member, KeyedWebSearch)
    )
    return next(adapter for adapter in found if getattr(adapter, "name", "") == spec.name)
