"""The nginx proxy of the how-to for MCP connectors that cannot send headers."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
from tests.e2e.test_mcp_http import HEADERS, INITIALIZE
from tests.kafka.broker import ROOT
from tests.kafka.child_process import free_port
from tests.services.test_proxy import HTTP, running_nginx
from tests.support.server_process import FORKED, TIMEOUT_S, served

pytestmark = pytest.mark.services

KEY = "0123456789abcdef"
RANDOM = "c0ffee" * 8
SNIPPET = re.compile(r"```nginx\n(location = /connect-RANDOM/mcp .*?)```", re.DOTALL)


def site(server: str, port: int, folder: Path) -> str:
    """Return the block of the how-to in a site with a path, a key and the server's address."""
    found = SNIPPET.search((ROOT / "docs/howto/use-from-mcp-hosts.md").read_text())
    assert found is not None
    block = found[1].replace("RANDOM", RANDOM).replace("KEY", KEY).replace("http://127.0.0.1:8000", server)
    return f"server {{ listen 127.0.0.1:{port}; {block.replace('/var/log/nginx', str(folder))} }}"


async def test_connector_without_headers_uses_the_key_of_its_path(tmp_path: Path) -> None:
    """The path works like the key, other paths do not, and no log contains the path or the key."""
    (tmp_path / "server").mkdir()
    settings = {"LLM_PLATFORM_API_KEYS": f"connector:{KEY}", "TRUSTED_PROXIES": "127.0.0.1"}
    async with served(FORKED, tmp_path / "server", **settings) as server:
        port = free_port()
        (tmp_path / "default.conf").write_text(site(str(server.client.base_url).rstrip("/"), port, tmp_path))
        (tmp_path / "nginx.conf").write_text(HTTP.format(folder=tmp_path))
        async with (
            running_nginx(tmp_path, port),
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S) as client,
        ):
            path = f"/connect-{RANDOM}/mcp"
            begun = await client.post(path, json=INITIALIZE, headers=HEADERS)
            session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]} if "mcp-session-id" in begun.headers else {}
            listed = await client.post(
                path, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers={**HEADERS, **session}
            )
            for other in ("/mcp", "/connect-guessed/mcp", f"/connect-{RANDOM}", f"/connect-{RANDOM}/mcp/x", "/health"):
                assert (await client.post(other, json=INITIALIZE, headers=HEADERS)).status_code == 404
        refused = await server.client.post("/mcp", json=INITIALIZE, headers=HEADERS)
    assert begun.status_code == 200, begun.text
    assert '"serverInfo"' in begun.text
    assert '"search"' in listed.text
    assert refused.status_code == 401
    logs = "".join(file.read_text() for file in (server.log, tmp_path / "error.log", tmp_path / "access.log"))
    assert RANDOM not in logs
    assert KEY not in logs
    assert '"connector"' in logs
