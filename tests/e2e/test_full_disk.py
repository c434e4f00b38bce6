"""A server with a full disk reports the fault, and recovers when there is space again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
from tests.e2e.test_background_researches import PATIENCE_S, QUESTION, SETTINGS
from tests.support.loopback_upstream import Loopback, serving
from tests.support.report_upstream import Upstream, environment
from tests.support.small_disk import in_a_mount_namespace

ON_A_FULL_DISK = """
mount -t tmpfs -o size=16m tmpfs "$LLM_PLATFORM_DATA_DIR"
head -c 17m /dev/zero > "$LLM_PLATFORM_DATA_DIR/filling" 2> /dev/null
exec "$0" -m modules.llm_platform serve
"""


@asynccontextmanager
async def server_on_a_full_disk(loopback: Loopback, folder: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Path]]:
    """Yield a client of the server, and the file that fills its disk."""
    data, log = folder / "data", folder / "server.log"
    data.mkdir()
    with log.open("w") as file:
        process = await asyncio.create_subprocess_exec(
            *in_a_mount_namespace(folder),
            "sh",
            "-c",
            ON_A_FULL_DISK,
            sys.executable,
            env={**environment(loopback, data), **SETTINGS},
            stderr=file,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
                await asyncio.sleep(0.05)
        async with httpx2.AsyncClient(base_url=found[0], timeout=PATIENCE_S) as client:
            yield client, Path(f"/proc/{process.pid}/root{data}/filling")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """A full disk is reported like an unavailable database.

    The answer names the store, a background run is refused with Retry-After, and health gives the reason. With free
    space the server recovers. An answer that is finished when the disk fills up can still be read.
    """
    upstream = Upstream()
    background = {"query": QUESTION, "background": True}
    async with serving(upstream.handle) as loopback, server_on_a_full_disk(loopback, tmp_path) as (client, filling):
        answer = await client.post("/research", json={"query": QUESTION, "depth": "report"})
        assert answer.status_code == 200, answer.text
        [reason] = [
            degradation["reason"] for degradation in answer.json()["degraded"] if degradation["component"] == "store"
        ]
        assert "LLM_PLATFORM_DATA_DIR" in reason
        refused = await client.post("/research", json=background)
        assert (refused.status_code, refused.json()["code"]) == (503, "store"), refused.text
        assert "its disk is full" in refused.json()["detail"]
        assert "retry-after" in refused.headers
        health = (await client.get("/health")).json()
        assert health["components"]["store"]["status"] == "unhealthy"
        assert str(tmp_path) not in str(health) + answer.text + refused.text
        filling.unlink()
        submitted = await client.post("/research", json=background)
        assert submitted.status_code == 202
        async with asyncio.timeout(PATIENCE_S):
            while "store" in (await client.get("/health")).json()["components"]:
                await asyncio.sleep(0.5)
        found = await finished(client, submitted.json()["id"])
        with suppress(OSError), filling.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for _ in range(3):  # the worker tries to write every two seconds
            await asyncio.sleep(1.0)
            assert (await client.get(f"/research/{found['id']}")).json() == found


async def finished(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found: dict[str, Any] = (await client.get(f"/research/{name}")).json()
            if found["status"] == "done":
                return found
            await asyncio.sleep(0.1)
