"""What the Dockerfile makes, started as a container: read-only root, no capability, process 1, as the image's user.

`make image-test` carries out the Dockerfile first (scripts/clean_root.py) and runs these.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import pytest
from scripts.clean_root import ROOT, Image, Mount, as_user, check_machine, enter_command
from tests.kafka.child_process import free_port
from tests.support.loopback_upstream import serving
from tests.support.server_process import TIMEOUT_S, GatedSearch, until

pytestmark = pytest.mark.image

KEY = "0123456789abcdef"
QUESTION = "Where does the grey heron build its nest?"
BUILD_TOOLS = ("pip", "pip3", "gcc", "cc", "make", "hatchling", "apt-file")


@dataclass
class Container:
    image: Image
    process: asyncio.subprocess.Process
    client: httpx2.AsyncClient

    @property
    def pid(self) -> int:
        """Process 1 of the container, as this machine counts."""
        outer = self.process.pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Return what `docker exec` does."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root"]
        return subprocess.run(
            [*enter, *as_user(self.image, command)], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )

    async def stop(self) -> int:
        os.kill(self.pid, signal.Signals[self.image.stopsignal])
        return await asyncio.wait_for(self.process.wait(), TIMEOUT_S)


@pytest.fixture(scope="module")
def image() -> Image:
    described = ROOT / "build" / "image" / "image.json"
    if (reason := check_machine()) is not None:
        pytest.fail(f"the image cannot be started here: {reason}")
    assert described.exists(), "the Dockerfile was not carried out: run `make image-test`"
    return Image(**json.loads(described.read_text()))


@pytest.fixture
def folders(tmp_path: Path) -> list[Mount]:
    documents, data = tmp_path / "documents", tmp_path / "data"
    documents.mkdir()
    data.mkdir()
    (documents / "heron.md").write_text("# Herons\n\nThe grey heron builds its nest in tall trees near water.\n")
    os.chown(data, 10001, 10001)
    for folder in (tmp_path, *tmp_path.parents[:2]):  # the user of the image reads the documents below
        folder.chmod(folder.stat().st_mode | 0o755)
    return [Mount("tmpfs", "/tmp"), Mount(str(documents), "/srv"), Mount(str(data), "/var/lib/llm-platform", "rw")]


@asynccontextmanager
async def started(
    image: Image, mounts: Sequence[Mount], command: Sequence[str] = (), **settings: str
) -> AsyncIterator[Container]:
    """The container, as `docker run --read-only --cap-drop ALL` starts it."""
    port = str(free_port())
    mine = replace(image, env={**image.env, "LLM_PLATFORM_PORT": port, "WORKER_HTTP_PORT": port, **settings})
    words = [*image.entrypoint, *(command or image.cmd)]
    line = enter_command(Path(image.root), words, image=mine, mounts=mounts, read_only=True)
    process = await asyncio.create_subprocess_exec(*line, stderr=sys.__stderr__)
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S) as client:
            yield Container(mine, process, client)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ready(container: Container) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while await status(container, "/ready") != 200:
            assert container.process.returncode is None, "the container ended"
            await asyncio.sleep(0.1)


async def status(container: Container, path: str) -> int:
    try:
        return (await container.client.get(path)).status_code
    except httpx2.TransportError:
        return 0


async def test_it_answers_from_documents_and_ends_with_0(image: Image, folders: list[Mount]) -> None:
    """Ready, healthy, closed to those without a key; an answer with its source; SIGTERM ends it with exit code 0."""
    settings = {"LLM_PLATFORM_API_KEYS": f"ops:{KEY}", "DOCUMENTS_DIR": "/srv", "LLM_PLATFORM_OFFLINE": "true"}
    async with started(image, folders, **settings) as container:
        await ready(container)
        check = container.execute(*image.healthcheck)
        assert (check.returncode, check.stdout.split()[0]) == (0, "200"), check.stderr
        health = (await container.client.get("/health")).json()
        assert health["components"]["documents"]["status"] == "healthy", health
        body = {"query": QUESTION}
        assert (await container.client.post("/research", json=body)).status_code == 401
        answer = await container.client.post("/research", json=body, headers={"X-API-Key": KEY})
        assert answer.json()["sources"][0]["url"] == "doc:heron.md"
        assert await container.stop() == 0


async def test_the_process_has_no_rights(image: Image, folders: list[Mount]) -> None:
    """Neither root nor a capability; only the data folder and /tmp can be written to."""
    async with started(image, folders, LLM_PLATFORM_API_KEYS=f"ops:{KEY}") as container:
        await ready(container)
        lines = Path(f"/proc/{container.pid}/status").read_text().splitlines()
        state = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert state["Uid"].split() == ["10001"] * 4
        assert {int(state[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {0}
        written = {
            path: container.execute("touch", f"{path}/file").returncode
            for path in ("/", "/opt/llm-platform", "/etc", "/srv", "/tmp", "/var/lib/llm-platform")
        }
        assert [path for path, code in written.items() if code == 0] == ["/tmp", "/var/lib/llm-platform"]
        assert await container.stop() == 0


def test_no_build_tool_is_left(image: Image) -> None:
    """Neither a compiler nor an installer, nor a list of packages or an address of an index."""
    folders = [Path(image.root + folder) for folder in image.env["PATH"].split(":")]
    assert [tool for tool in BUILD_TOOLS for folder in folders if (folder / tool).exists()] == []
    assert list(Path(image.root, "var/lib/apt/lists").iterdir()) == []
    assert not Path(image.root, "etc/pip.conf").exists()


async def test_without_keys_it_refuses_to_start(image: Image, folders: list[Mount]) -> None:
    """A container listens on all its addresses, so keys are needed, and the message names the setting."""
    words = [*image.entrypoint, *image.cmd]
    line = enter_command(Path(image.root), words, image=image, mounts=folders, read_only=True)
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert "LLM_PLATFORM_API_KEYS" in done.stderr


async def test_a_stop_lets_requests_finish(image: Image, folders: list[Mount]) -> None:
    """After SIGTERM /ready says no, the request under way gets its answer, and the exit code is 0."""
    search = GatedSearch()
    async with serving(search.handle) as upstream:
        settings = {"LLM_PLATFORM_API_KEYS": f"ops:{KEY}", "SEARXNG_URL": upstream.url, "SEARXNG_TIMEOUT_S": "60"}
        async with started(image, folders, **settings) as container:
            await ready(container)
            request = container.client.post("/research", json={"query": QUESTION}, headers={"X-API-Key": KEY})
            research = asyncio.create_task(request)
            await until(lambda: upstream.requests)
            stopping = asyncio.create_task(container.stop())
            async with asyncio.timeout(TIMEOUT_S):
                while await status(container, "/ready") == 200:
                    await asyncio.sleep(0.02)
            search.gate.set()
            assert (await research).status_code == 200
            assert await stopping == 0


async def test_a_worker_is_alive_without_brokers_and_ends_with_0(image: Image, folders: list[Mount]) -> None:
    """`/health` of the worker answers, `/ready` and the health check say that no broker is there; SIGTERM ends it."""
    settings = {"KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}", "EMBEDDER": "none"}
    async with started(image, folders, ["llm-platform", "worker"], **settings) as container:
        async with asyncio.timeout(TIMEOUT_S):
            while await status(container, "/health") != 200:
                await asyncio.sleep(0.1)
        assert await status(container, "/ready") == 503
        check = container.execute("healthcheck", "WORKER_HTTP_PORT")
        assert (check.returncode, check.stdout.split()[0]) == (1, "503"), check.stderr
        assert await container.stop() == 0
