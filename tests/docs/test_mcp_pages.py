"""The MCP pages agree with the tools, and the configurations for hosts start a real server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import version
from tests.docs.pages import text_of
from tests.support.cases import for_each

from modules.llm_platform.presentation.mcp.server import MAX_LISTED_REPORTS, REPORT_TEMPLATE
from modules.llm_platform.presentation.mcp.tools import TOOLS, ToolSpec
from modules.llm_platform.presentation.rest import mcp_routes

REFERENCE, HOSTS = "docs/reference/mcp.md", "docs/howto/use-from-mcp-hosts.md"
TIMEOUT_S = 120.0


def section_of(tool: str) -> str:
    return text_of(REFERENCE).partition(f"\n### {tool}\n")[2].partition("\n##")[0]


def named_in(text: str) -> set[str]:
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))


def servers_in_page() -> list[dict[str, Any]]:
    blocks = re.findall(r"```json\n(.*?)```", text_of(HOSTS), re.S)
    files = [json.loads(block) for block in blocks]
    return [server for file in files for server in (file.get("servers") or file["mcpServers"]).values()]


def test_every_tool_has_its_section() -> None:
    """The sections follow the order of tools/list."""
    assert re.findall(r"^### (\w+)$", text_of(REFERENCE), re.M) == [tool.name for tool in TOOLS]


@for_each("tool", TOOLS)
def test_arguments_and_results_are_described(tool: ToolSpec) -> None:
    """Each argument has a row, and the page names each field of the result."""
    arguments, _, result = section_of(tool.name).partition("\nReturns ")
    listed = re.findall(r"^\| (`[^|]+`) \|", arguments, re.M)
    assert sorted(named_in(" ".join(listed))) == sorted(tool.parameters)
    assert set(tool.output_schema()["properties"]) <= named_in(result)


def test_limits_and_versions_are_those_of_the_code() -> None:
    """The numbers on the page match constants of the code."""
    page = text_of(REFERENCE)
    assert version.MODERN_PROTOCOL_VERSIONS[0] in page
    assert version.HANDSHAKE_PROTOCOL_VERSIONS[0] in page
    assert version.HANDSHAKE_PROTOCOL_VERSIONS[-1] in page
    assert f"at most {MAX_LISTED_REPORTS}, newest" in page
    assert REPORT_TEMPLATE in page
    assert f"after {mcp_routes.SESSION_IDLE_S / 60:.0f} minutes" in page
    for method in mcp_routes.METHODS:
        assert f"`{method}`" in page


def test_hosts_are_given_valid_lines() -> None:
    """Each block is valid JSON, and each server is our command or a server URL."""
    servers = servers_in_page()
    assert len(servers) == 4
    for server in servers:
        assert ("command" in server) != ("url" in server)
        if "command" in server:
            assert (server["command"], server["args"][0]) == ("llm-platform", "mcp")
        else:
            assert server["url"] == f"http://localhost:8000{mcp_routes.PATH}"
            assert server["headers"]["Authorization"].startswith("Bearer ${")


@pytest.mark.parametrize(
    "server", [server for server in servers_in_page() if "command" in server], ids=lambda server: server["args"][-1]
)
async def test_the_lines_start_a_server(server: dict[str, Any], tmp_path: Path) -> None:
    """The command with these arguments and variables lists the tools."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nThe harbour is nine metres deep.\n")
    program = str(Path(sys.executable).parent / server["command"])
    arguments = [arg.replace("${workspaceFolder}", str(tmp_path)) for arg in server["args"]]
    parameters = StdioServerParameters(
        command=program, args=arguments, env={**server.get("env", {}), "LLM_PLATFORM_DATA_DIR": str(tmp_path / "data")}
    )
    async with Client(parameters, mode="legacy", read_timeout_seconds=TIMEOUT_S) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
