"""Writes the table of tested clients in docs/reference/compatible-apis.md after a run of tests/services/test_clients.py.

client_table.py            write the table; refused while a check has not passed with the pinned version
client_table.py --check    the table names the pinned versions and all checks
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/compatible-apis.md"
CLIENTS_DIR = ROOT / "tests/clients"
ENVIRONMENTS = ROOT / "build/clients"
NODE = "node"  # the environment of the programs in JavaScript
_CHECK_IN_JAVASCRIPT = re.compile(r'^check\("([^"]+)"', re.MULTILINE)
BEGIN, END = "<!-- clients: make client-table -->\n", "<!-- end of clients -->\n"


@dataclass(frozen=True)
class Client:
    """A program of tests/clients and the package that it tries. Without an environment it tries requests made by hand."""

    program: str
    package: str
    environment: str = ""

    def __str__(self) -> str:
        return f"{self.package} {self.version}".strip()

    @property
    def version(self) -> str:
        """The pinned version."""
        return dict(_pins(self.environment)).get(self.package, "") if self.environment else ""

    @property
    def file(self) -> Path:
        """The program, in Python or in JavaScript."""
        return CLIENTS_DIR / f"{self.program}{'.mjs' if self.environment == NODE else '.py'}"

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks of the program, in order."""
        if self.environment == NODE:
            return tuple(_CHECK_IN_JAVASCRIPT.findall(self.file.read_text()))
        tree = ast.parse(self.file.read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        return tuple(ast.literal_eval(call.args[0]) for call in calls if getattr(call.func, "id", "") == "check")

    @property
    def results_file(self) -> Path:
        return ENVIRONMENTS / "passed" / f"{self.program}-{self.environment or 'http'}.json"


CLIENTS = (
    Client("with_perplexityai", "perplexityai", "common"),
    Client("with_langchain_perplexity", "langchain-perplexity", "common"),
    Client("with_openai", "openai", "common"),
    Client("with_openai", "openai", "litellm"),
    Client("with_anthropic", "anthropic", "common"),
    Client("with_tavily_python", "tavily-python", "common"),
    Client("with_langchain_tavily", "langchain-tavily", "common"),
    Client("with_langchain_community", "langchain-community", "common"),
    Client("with_langchain_agents", "langchain-anthropic", "langchain"),
    Client("with_firecrawl_py", "firecrawl-py", "firecrawl"),
    Client("with_cohere", "cohere", "firecrawl"),
    Client("with_gpt_researcher", "gpt-researcher", "gpt-researcher"),
    Client("with_litellm", "litellm", "litellm"),
    Client("with_openapi_python_client", "openapi-python-client", "openapi"),
    Client("with_openai_agents", "openai-agents", "common"),
    Client("with_pydantic_ai", "pydantic-ai-slim", "common"),
    Client("with_instructor", "instructor", "litellm"),
    Client("with_llama_index", "llama-index-llms-openai-like", "litellm"),
    Client("with_haystack", "haystack-ai", "common"),
    Client("with_smolagents", "smolagents", "common"),
    Client("with_llm", "llm", "common"),
    Client("with_openapi_typescript", "openapi-typescript", NODE),
    Client("with_ai_sdk_openai", "@ai-sdk/openai", NODE),
    Client("with_ai_sdk_anthropic", "@ai-sdk/anthropic", NODE),
    Client("with_ai_sdk_perplexity", "@ai-sdk/perplexity", NODE),
    Client("with_ai_sdk_compatible", "@ai-sdk/openai-compatible", NODE),
    Client("with_perplexity_ai", "@perplexity-ai/perplexity_ai", NODE),
    Client("with_langchain_js", "@langchain/openai", NODE),
    Client("with_tavily_core", "@tavily/core", NODE),
    Client("with_firecrawl_js", "@mendable/firecrawl-js", NODE),
    Client("with_mcp_searxng", "mcp-searxng", NODE),
    Client("with_http", "requests of Open WebUI and of a browser"),
    Client("with_librechat", "requests of LibreChat"),
)


def record(client: Client, results: dict[str, str]) -> None:
    """Note the checks that passed."""
    passed = [name for name, error in results.items() if not error]
    client.results_file.parent.mkdir(parents=True, exist_ok=True)
    client.results_file.write_text(json.dumps({"version": client.version, "passed": passed}))


def _pins(environment: str) -> Iterator[tuple[str, str]]:
    if environment == NODE:
        yield from json.loads((CLIENTS_DIR / NODE / "package.json").read_text())["dependencies"].items()
        return
    for line in (CLIENTS_DIR / f"{environment}.txt").read_text().split():
        name, _, version = line.partition("==")
        yield name.partition("[")[0], version


def table() -> str:
    rows = ["| client | version | what passed |", "|---|---|---|"]
    rows += [f"| {client.package} | {client.version} | {'; '.join(client.checks)} |" for client in CLIENTS]
    return "\n".join(rows) + "\n"


def not_passed() -> Iterator[str]:
    """Yield what the last run of the tests did not show."""
    for client in CLIENTS:
        found: dict[str, Any] = json.loads(client.results_file.read_text()) if client.results_file.exists() else {}
        if found.get("version") != client.version:
            yield f"{client}: not run"
        yield from (f"{client}: {name}" for name in client.checks if name not in found.get("passed", ()))


def main() -> int:
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{PAGE.name} has no place for the table")
        return 1
    written = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if written != page:
            print(f"{PAGE.name}: the table of clients is outdated: make client-table")
        return int(written != page)
    if missing := list(not_passed()):
        print("\n".join(["did not pass:", *missing]))
        return 1
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
