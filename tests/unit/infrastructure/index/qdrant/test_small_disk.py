"""The embedded index on a small disk: the engine maps its files, and a process that finds no room for one ends by SIGBUS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.small_disk import in_a_mount_namespace

from modules.llm_platform.infrastructure.index.qdrant.generations import measure_folder

SRC = Path(__file__).resolve().parents[5] / "src"
INDEX = """
import asyncio, pathlib, sys
from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.exceptions import VectorStoreError
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore

async def main(folder, order, dimension):
    store = QdrantEdgeVectorStore(pathlib.Path(folder))
    vector = [1.0] * dimension or None
    document = dtos.IndexedDocument(doc_id="a", sha256="1", passages=1)
    passage = dtos.Passage(
        id="6f1ed002-ab5f-45a8-9e8c-3f5f7b0d0a11", doc_id="a", title="Sails", text="Solar sails are pushed by light."
    )
    try:
        if order != "read":
            await store.prepare(dtos.Collection(name="c", embedder="e", dimension=dimension))
            await store.replace("c", document, [dtos.EmbeddedPassage(passage, vector)])
            await store.finish("c")
        print(len(await store.search("c", "sails", vector, {}, 3)), "found")
    except VectorStoreError as error:
        print(error.message)
    finally:
        await store.aclose()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""
ON_A_SMALL_DISK = """
mount -t tmpfs -o size={size}m tmpfs "$0" && cp -a --sparse=always "$1/." "$0" && "$2" -c "$3" "$0" {order} {dimension}
"""


def index(folder: Path, dimension: int) -> None:
    command = [sys.executable, "-c", INDEX, str(folder), "make", str(dimension)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(SRC)}
    )
    assert (done.returncode, done.stdout) == (0, "1 found\n"), done.stderr


@pytest.mark.parametrize(("dimension", "small_mb", "large_mb"), [(0, 16, 80), (8, 40, 200)])
def test_a_full_disk_kills_no_process(tmp_path: Path, dimension: int, small_mb: int, large_mb: int) -> None:
    """With any amount of free space, a process that opens, creates or changes an index survives.

    It finds passages, or reports the folder's setting and the required space. With that space it finds them.
    """
    made, empty, disk = (tmp_path / name for name in ("made", "empty", "disk"))
    for folder in (made, empty, disk):
        folder.mkdir()
    unshare = in_a_mount_namespace(disk)
    index(made, dimension)
    assert measure_folder(made).unfilled > 20_000_000
    found: dict[tuple[str, int], str] = {}
    for order, source in (("read", made), ("change", made), ("make", empty)):
        for size in (small_mb, large_mb):
            script = ON_A_SMALL_DISK.format(size=size, order=order, dimension=dimension)
            done = subprocess.run(
                [*unshare, "sh", "-c", script, str(disk), str(source), sys.executable, INDEX],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": str(SRC)},
            )
            assert done.returncode == 0, (order, size, done.returncode, done.stderr)
            found[order, size] = done.stdout.strip()
    for (_, size), line in found.items():
        assert (
            line == "1 found" if size == large_mb else "its disk is full" in line and "LLM_PLATFORM_DATA_DIR" in line
        ), found
