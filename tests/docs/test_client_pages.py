"""Tests the pages about third-party clients."""

from __future__ import annotations

import ast
import re

import pytest
from scripts import client_table
from tests.docs.pages import text_of
from tests.support.cases import for_each

from modules.llm_platform.presentation.rest.app import ROUTERS
from modules.llm_platform.presentation.rest.compat.table import DIALECT_OF_PREFIX
from modules.llm_platform.presentation.rest.http.access import get_first_segment

HOWTO, REFERENCE = "docs/howto/use-existing-clients.md", "docs/reference/compatible-apis.md"
ADDRESS = re.compile(r"http://(?:user:KEY@)?localhost:8000(/[\w/-]+)")
PROGRAM_NAMES = {  # by a word in the how-to's line: the program that tests the line
    "Perplexity(": "with_perplexityai",
    "OpenAI(": "with_openai",
    "Anthropic(": "with_anthropic",
    "TavilyClient(": "with_tavily_python",
    "TavilySearch(": "with_langchain_tavily",
    "SearxSearchWrapper(": "with_langchain_community",
    "Firecrawl(": "with_firecrawl_py",
    "cohere.ClientV2(": "with_cohere",
    "litellm.search(": "with_litellm",
    "PERPLEXITY_BASE_URL": "with_langchain_perplexity",
    "SEARX_URL": "with_gpt_researcher",
}


def test_table_of_clients_has_the_pinned_versions_and_all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["client_table.py", "--check"])
    assert client_table.main() == 0


@for_each("client", client_table.CLIENTS)
def test_cells_of_the_table_are_shown_by_checks(client: client_table.Client) -> None:
    """Checks name only columns of the table. No check shows a column that the package lacks."""
    columns = [show.partition(": ")[0] for shows in client.shown.values() for show in shows]
    assert set(columns) <= set(client_table.COLUMNS), client
    assert not set(columns) & set(client.lacks), client
    yes = [column for column in client_table.COLUMNS if client.cell(column) == "yes"]
    assert set(yes) == {show for shows in client.shown.values() for show in shows if ": " not in show}


def test_addresses_lead_to_a_compatible_api() -> None:
    """The two pages show an address for each prefix of DIALECTS. Each address in the how-to leads to a route."""
    paths = ADDRESS.findall(text_of(HOWTO))
    shown = {get_first_segment(path) for path in (*paths, *ADDRESS.findall(text_of(REFERENCE)))}
    assert set(DIALECT_OF_PREFIX) - shown == set(), (
        "add http://localhost:8000/… of these prefixes to `clients` of DIALECT"
    )
    assert shown - set(DIALECT_OF_PREFIX) == set(), (
        f"{HOWTO} or {REFERENCE} has addresses that lead to no compatible API"
    )
    routes = {route.path for router in ROUTERS for route in router.routes}  # type: ignore[attr-defined]
    assert all(any(route.startswith(path) for route in routes) for path in paths)


@for_each(("word", "program"), PROGRAM_NAMES.items())
def test_line_of_the_howto_is_what_the_tests_change(word: str, program: str) -> None:
    """The program that `make test-services` runs uses the keyword arguments and variables of the line."""
    line = next(line for line in text_of(HOWTO).splitlines() if word in line)
    tried = (client_table.CLIENTS_DIR / f"{program}.py").read_text()
    assert word in tried
    names = re.findall(r"\b(base_url|api_base_url|api_base|searx_host|search_provider|tavily_api_key)=", line)
    assert all(name in tried for name in names)
    ast.parse(tried)
