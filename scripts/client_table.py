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
_CHECK_IN_JAVASCRIPT = re.compile(r'^check\("([^"]+)", \[(.*?)\], ', re.MULTILINE)
COLUMNS = ("search", "chat", "stream", "tools", "structure", "second turn", "embeddings")
NOT_ITS_WORK, NOT_TRIED = "–", "not tried"
BEGIN, END = "<!-- clients: make client-table -->\n", "<!-- end of clients -->\n"


@dataclass(frozen=True)
class Client:
    """A program of tests/clients and the package that it tries. Without an environment it tries requests made by hand.

    `lacks` are the columns that the package has nothing for, in their order.
    """

    program: str
    package: str
    environment: str = ""
    lacks: tuple[str, ...] = ()

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
        return tuple(self.shown)

    @property
    def shown(self) -> dict[str, tuple[str, ...]]:
        """What each check of the program shows: columns, and `COLUMN: reason` where the client cannot."""
        if self.environment == NODE:
            found = _CHECK_IN_JAVASCRIPT.findall(self.file.read_text())
            return {name: tuple(json.loads(f"[{shows}]")) for name, shows in found}
        tree = ast.parse(self.file.read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        checks = [call for call in calls if getattr(call.func, "id", "") == "check"]
        texts = [tuple(ast.literal_eval(argument) for argument in call.args) for call in checks]
        return {name: tuple(shows) for name, *shows in texts}

    def cell(self, column: str) -> str:
        """Return `yes` where a check shows it, `no` with the reason that a check shows, and what else there is to say."""
        shows = [show for shown in self.shown.values() for show in shown]
        if column in shows:
            return "yes"
        reasons = [show for show in shows if show.startswith(f"{column}: ")]
        if reasons:
            return f"no: {reasons[0].removeprefix(f'{column}: ')}"
        return NOT_ITS_WORK if column in self.lacks else NOT_TRIED

    @property
    def results_file(self) -> Path:
        return ENVIRONMENTS / "passed" / f"{self.program}-{self.environment or 'http'}.json"


ONLY_SEARCH = tuple(column for column in COLUMNS if column != "search")
NO_MODEL = ("tools", "structure", "second turn", "embeddings")  # a client of a service that searches
CLIENTS = (
    Client("with_perplexityai", "perplexityai", "common", ("embeddings",)),
    Client("with_langchain_perplexity", "langchain-perplexity", "common", ("tools", "embeddings")),
    Client("with_openai", "openai", "common", ("search",)),
    Client("with_openai", "openai", "litellm", ("search",)),
    Client("with_anthropic", "anthropic", "common", ("search", "embeddings")),
    Client("with_tavily_python", "tavily-python", "common", NO_MODEL),
    Client("with_langchain_tavily", "langchain-tavily", "common", NO_MODEL),
    Client("with_langchain_community", "langchain-community", "common", ONLY_SEARCH),
    Client("with_langchain_agents", "langgraph", "langchain"),
    Client("with_firecrawl_py", "firecrawl-py", "firecrawl", ONLY_SEARCH),
    Client("with_cohere", "cohere", "firecrawl", COLUMNS),
    Client("with_gpt_researcher", "gpt-researcher", "gpt-researcher", ("tools", "structure", "second turn")),
    Client("with_litellm", "litellm", "litellm"),
    Client("with_dspy", "dspy", "litellm", ("search", "stream")),
    Client("with_aider", "aider-chat", "aider", ("search", "tools", "structure", "embeddings")),
    Client("with_claude_code", "@anthropic-ai/claude-code", NODE, ("search", "structure", "embeddings")),
    Client("with_local_deep_research", "local-deep-research", "sources", ONLY_SEARCH),
    Client("with_open_webui", "open-webui", "sources", ("structure",)),
    Client("with_openapi_python_client", "openapi-python-client", "openapi", ONLY_SEARCH),
    Client("with_openai_agents", "openai-agents", "common", ("search", "embeddings")),
    Client("with_pydantic_ai", "pydantic-ai-slim", "common", ("search",)),
    Client("with_instructor", "instructor", "litellm", ("search", "second turn", "embeddings")),
    Client("with_llama_index", "llama-index-llms-openai-like", "litellm", ("search", "embeddings")),
    Client("with_haystack", "haystack-ai", "common", ("search",)),
    Client("with_smolagents", "smolagents", "common", ("search", "embeddings")),
    Client("with_llm", "llm", "common", ("search",)),
    Client("with_openapi_typescript", "openapi-typescript", NODE, ONLY_SEARCH),
    Client("with_ai_sdk_openai", "@ai-sdk/openai", NODE, ("search",)),
    Client("with_ai_sdk_anthropic", "@ai-sdk/anthropic", NODE, ("search", "embeddings")),
    Client("with_ai_sdk_perplexity", "@ai-sdk/perplexity", NODE, ("search", "embeddings")),
    Client("with_ai_sdk_compatible", "@ai-sdk/openai-compatible", NODE, ("search",)),
    Client("with_perplexity_ai", "@perplexity-ai/perplexity_ai", NODE, ("embeddings",)),
    Client("with_langchain_js", "@langchain/openai", NODE, ("search",)),
    Client("with_tavily_core", "@tavily/core", NODE, ("tools", "second turn", "embeddings")),
    Client("with_firecrawl_js", "@mendable/firecrawl-js", NODE, ONLY_SEARCH),
    Client("with_mcp_searxng", "mcp-searxng", NODE, ONLY_SEARCH),
    Client("with_http", "requests of a browser and of curl", "", ONLY_SEARCH),
    Client("with_librechat", "requests of LibreChat", "", ONLY_SEARCH),
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
    for file in sorted(CLIENTS_DIR.glob(f"{environment}.*")):
        for line in file.read_text().split():
            name, _, version = line.partition("==")
            yield name.partition("[")[0], version


def table() -> str:
    rows = [f"| client | version | {' | '.join(COLUMNS)} |", "|---|---|" + "---|" * len(COLUMNS)]
    rows += [f"| {client.package} | {client.version} | {' | '.join(map(client.cell, COLUMNS))} |" for client in CLIENTS]
    passed = [f"- {client}: {'; '.join(client.checks)}" for client in CLIENTS]
    return "\n".join([*rows, "", "What passed, by client:", "", *passed]) + "\n"


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
