"""The npm conformance suite of the Model Context Protocol with a real server over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.support.server_process import served

pytestmark = pytest.mark.services

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "build" / "mcp-conformance"
EXPECTED: Final = Path(__file__).with_name("mcp_conformance.yml")
SUITE: Final = "@modelcontextprotocol/conformance"
PACKAGES: Final = {SUITE: "0.1.16", "node": "22.23.3"}  # the suite needs a newer Node.js than Debian's
SUITE_S: Final = 300.0


def prepare() -> None:
    """Install the suite if it is missing. `make services-ready` installs it in advance."""
    wanted = json.dumps({"private": True, "dependencies": PACKAGES})
    manifest = FOLDER / "package.json"
    if manifest.is_file() and manifest.read_text() == wanted:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--no-save"]
    packages = [f"{name}@{version}" for name, version in PACKAGES.items()]
    subprocess.run([*command, *packages], cwd=FOLDER, check=True)
    manifest.write_text(wanted)


async def test_the_server_conforms_to_the_protocol(tmp_path: Path) -> None:
    """Every scenario passes except those of mcp_conformance.yml, and these still fail."""
    await asyncio.to_thread(prepare)
    modules = FOLDER / "node_modules"
    async with served("serve", tmp_path) as server:
        suite = await asyncio.create_subprocess_exec(
            modules / ".bin" / "node",
            modules / SUITE / "dist" / "index.js",
            "server",
            "--url",
            str(server.client.base_url.join("/mcp")),
            "--expected-failures",
            EXPECTED,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(suite.communicate(), SUITE_S)
        finally:
            if suite.returncode is None:
                suite.kill()
                await suite.wait()
    summary = output.decode().partition("=== SUMMARY ===")[2]
    assert suite.returncode == 0, output.decode()  # the reasons are before the summary
    for scenario in ("server-initialize", "ping", "tools-list", "tools-call-error", "resources-list"):
        assert f"✓ {scenario}:" in summary


if __name__ == "__main__":
    prepare()
