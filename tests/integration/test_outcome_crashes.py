"""The outcome database under SIGKILL and concurrent processes: every confirmed outcome is kept intact."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.forked_command import PIPE, ForkedPython

from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore

PATIENCE_S = 120

KEEPING = """
import asyncio, hashlib, json, sys
from pathlib import Path
from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore

store = SqliteOutcomeStore(Path(sys.argv[1]), 7)
who, first, count = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

async def keep(number):
    body = (who * (number % 50 + 1) * 40).encode()
    [kept] = await store.put_if_absent([
        Outcome(stage="search", request_id=str(number), kind="result", body=body, request_sha256="0" * 64)
    ])
    print(json.dumps([number, hashlib.sha256(kept.body).hexdigest()]), flush=True)

async def work():
    print("ready", flush=True)
    sys.stdin.readline()
    for start in range(first, first + count, 20):
        await asyncio.gather(*(keep(number) for number in range(start, start + 20)))

asyncio.run(work())
"""


@contextmanager
def keeping(file: Path, who: str, count: int) -> Iterator[ForkedPython]:
    """Start a process that stores this many outcomes when told to, and kill it at the end."""
    with ForkedPython(KEEPING, file, who, "0", str(count), stdin=PIPE, stdout=PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def go(child: ForkedPython) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def printed_outcomes(text: str) -> dict[int, str]:
    """Return the confirmed outcomes that a process printed, without an incomplete last line."""
    lines = text.splitlines() if text.endswith("\n") or not text else text.splitlines()[:-1]
    return dict(map(json.loads, lines))


@pytest.mark.parametrize("seed", range(4))
async def test_confirmed_outcomes_survive_a_kill(tmp_path: Path, seed: int) -> None:
    """A process killed while it stores outcomes loses none that it was told is stored."""
    file = tmp_path / "outcomes.sqlite3"
    with keeping(file, "a", 100_000) as child:
        go(child)
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(random.Random(seed).randint(1, 900))]
        child.kill()
        rest = child.stdout.read()  # `communicate` would skip buffered output
    numbers = printed_outcomes("".join(lines) + rest)
    assert len(numbers) >= len(lines)
    store = SqliteOutcomeStore(file, 7)
    for number in numbers:
        outcome = await store.get("search", str(number))
        assert outcome is not None
        assert outcome.body == b"a" * ((number % 50 + 1) * 40)
    await store.aclose()


async def test_concurrent_processes_get_the_same_outcomes(tmp_path: Path) -> None:
    """Three processes that compute the same requests into a new database get one outcome for each request."""
    file = tmp_path / "outcomes.sqlite3"
    with keeping(file, "a", 400) as one, keeping(file, "b", 400) as two, keeping(file, "c", 400) as three:
        for child in (one, two, three):
            go(child)
        answers = [printed_outcomes(child.communicate(timeout=PATIENCE_S)[0]) for child in (one, two, three)]
        assert [child.returncode for child in (one, two, three)] == [0, 0, 0]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 400
