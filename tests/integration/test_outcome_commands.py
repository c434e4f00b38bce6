"""The commands `outcomes show`, `forget` and `replay` on the mock cluster with a running worker."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_kafka_worker import options as worker_options
from tests.integration.test_kafka_worker import working
from tests.kafka.mock_cluster import MockCluster
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest, Hit, Outcome, RagHits, RagSearch
from modules.llm_platform.domain.exceptions import EmbeddingError, OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
from modules.llm_platform.infrastructure.stores.failed_requests.sqlite import SqliteFailedRequestStore
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.setup import Wiring
from modules.llm_platform.presentation.kafka.admin import dev_client
from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster
from modules.llm_platform.presentation.kafka.admin.replay import Replayer
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import Worker
from shared.config import Settings

REQUESTS, RESULTS, FAILED = "rag_search_request", "rag_search_result", "rag_failed"
PATIENCE_S = 60.0
MB = 1_000_000


class Stores:
    """The outcome stores of a data folder."""

    def __init__(self, folder: Path) -> None:
        self.outcomes = SqliteOutcomeStore(folder / "outcomes.sqlite3", 7)
        self.failed = SqliteFailedRequestStore(folder / "failed.sqlite3", MB, 1)


class Stage:
    """A search stage that fails until `works` is set."""

    def __init__(self) -> None:
        self.works = False
        self.calls = 0

    async def search(self, wanted: RagSearch) -> RagHits:
        self.calls += 1
        if not self.works:
            raise EmbeddingError("the embedder is away")
        return RagHits(hits=(Hit(doc_id=wanted.query, score=0.5),))

    async def answer(self, _: object) -> Any:
        raise AssertionError

    def handler(self, stores: Stores, *, keeps: bool = True) -> RagHandler:
        async def no_wait(_: float) -> None:
            return

        keep = stores.failed.put if keeps else None
        return RagHandler(self.search, self.answer, stores.outcomes, HandlerOptions(), None, keep, sleep=no_wait)


@pytest.fixture
def broker() -> Iterator[MockCluster]:
    with MockCluster({REQUESTS: 1, "rag_answer_request": 1, RESULTS: 1, FAILED: 1}) as mock:
        yield mock


@pytest.fixture(autouse=True)
def variables(broker: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap)
    monkeypatch.setenv("KAFKA_CONFIG", json.dumps(dict(broker.client)))


def record(request_id: str, query: str = "kafka", offset: int = 0, key: bytes | None = b"key") -> IncomingRecord:
    value = json.dumps({"request_id": request_id, "query": query}).encode()
    return IncomingRecord(REQUESTS, 0, offset, key, value, (("tenant", b"acme"), ("odd", None)))


def command(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run `outcomes` with its own database connections, and return the exit code, output and errors."""

    @asynccontextmanager
    async def opened(_: Settings) -> AsyncIterator[tuple[IOutcomeStore, IFailedRequestStore]]:
        stores = Stores(folder)
        yield stores.outcomes, stores.failed
        await stores.outcomes.aclose()

    out, err = io.StringIO(), io.StringIO()
    wiring = Wiring(None, None, None, None, None, outcome_stores=opened)  # type: ignore[arg-type]
    code = run(["outcomes", *arguments], wiring, Console(out, err, io.StringIO()))
    return code, out.getvalue(), err.getvalue()


async def run_command(folder: Path, *arguments: str) -> tuple[int, str, str]:
    return await asyncio.to_thread(command, folder, *arguments)


@asynccontextmanager
async def worker(broker: MockCluster, handler: RagHandler) -> AsyncIterator[Worker]:
    async with working(handler, replace(worker_options(broker), group_id="replays")) as running:
        yield running


async def outcome_of(stores: Stores, request_id: str, kind: str) -> Outcome:
    until = time.monotonic() + PATIENCE_S
    while (found := await stores.outcomes.get("search", request_id)) is None or found.kind != kind:
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
    return found


async def test_show_lists_and_filters(tmp_path: Path) -> None:
    """`show` filters by status, code, topic and age, and prints a given id in full."""
    stores, stage = Stores(tmp_path), Stage()
    handler = stage.handler(stores)
    await handler.handle(record("fails"))
    await handler.handle(record("invalid", query=""))
    stage.works = True
    await handler.handle(record("works"))

    def ids(*arguments: str) -> list[str]:
        code, out, err = command(tmp_path, "show", "--json", *arguments)
        assert (code, err) == (0, "")
        return [outcome["request_id"] for outcome in json.loads(out)["outcomes"]]

    def check() -> None:
        assert ids() == ["works", "invalid", "fails"]
        assert ids("--limit", "1") == ["works"]
        assert ids("--status", "failed") == ["invalid", "fails"]
        assert ids("--code", "embedding_failed") == ids("--topic", FAILED, "--code", "embedding_failed") == ["fails"]
        assert ids("--code", "ok") == ids("--topic", RESULTS) == ["works"]
        assert ids("--topic", "rag_answer_result") == ids("--older-than", "1h") == ids("--tenant", "x") == []
        assert ids("--newer-than", "1h", "--topic", REQUESTS) == ["works", "invalid", "fails"]
        code, out, _ = command(tmp_path, "show", "fails")
        assert code == 0
        assert "can be replayed" in out
        assert '"error_code": "embedding_failed"' in out
        assert "can be replayed" not in command(tmp_path, "show", "invalid", "works")[1]
        code, _, err = command(tmp_path, "show", "nobody")
        assert (code, err) == (1, "llm-platform: no stored outcome matches nobody\n")
        assert command(tmp_path, "show", "--older-than", "soon")[0] == 2
        assert command(tmp_path, "show", "--topic", "other")[0] == 2
        assert command(tmp_path, "show", "--status", "ok")[0] == 2

    await asyncio.to_thread(check)
    await stores.outcomes.aclose()


async def test_forgotten_request_is_computed_again(tmp_path: Path) -> None:
    """A forgotten request is computed again. A dry run forgets nothing, and selecting everything requires --all."""
    stores, stage = Stores(tmp_path), Stage()
    handler = stage.handler(stores)
    await handler.handle(record("a"))
    await handler.handle(record("b"))
    stage.works = True
    code, out, err = await run_command(tmp_path, "forget", "a")
    assert (code, err) == (0, "")
    assert "1 outcome would be forgotten." in out
    assert "--yes" in out
    assert (await run_command(tmp_path, "forget", "--yes"))[0] == 2
    assert (await handler.handle(record("a"))).topic == FAILED
    code, out, _ = await run_command(tmp_path, "forget", "a", "--yes")
    assert (code, out) == (0, "1 outcome forgotten.\n")
    assert [request.request_id for request in await stores.failed.list()] == ["b"]
    assert (await handler.handle(record("a"))).topic == RESULTS
    code, out, _ = await run_command(tmp_path, "forget", "--all", "--yes", "--json")
    assert json.loads(out) == {"dry_run": False, "matched": 2, "removed": 2, "changed_meanwhile": 0}
    await stores.outcomes.aclose()


async def test_replay_answers_failed_requests(broker: MockCluster, tmp_path: Path) -> None:
    """A running worker answers replayed requests with the same id, key and headers.

    A second replay finds nothing, and a dry run sends nothing.
    """
    stores, stage = Stores(tmp_path), Stage()
    handler = stage.handler(stores)
    first = await handler.handle(record("again"))
    assert first.topic == FAILED
    stage.works = True
    async with worker(broker, handler):
        code, out, _ = await run_command(tmp_path, "replay", "--code", "embedding_failed")
        assert code == 0
        assert "1 request would be sent." in out
        calls = stage.calls
        code, out, err = await run_command(tmp_path, "replay", "--code", "embedding_failed", "--yes")
        assert (code, out, err) == (0, "1 request sent.\n", "")
        result = await outcome_of(stores, "again", "result")
        assert stage.calls == calls + 1
    assert json.loads(result.body)["hits"][0]["doc_id"] == "kafka"
    assert await stores.failed.list() == []
    assert json.loads((await run_command(tmp_path, "replay", "--all", "--yes", "--json"))[1])["sent"] == 0
    await stores.outcomes.aclose()


async def test_request_that_fails_again_can_be_replayed_again(broker: MockCluster, tmp_path: Path) -> None:
    """A request that fails again is stored again, and the command does not remove the new entry."""
    stores, stage = Stores(tmp_path), Stage()
    handler = stage.handler(stores)
    await handler.handle(record("again"))
    async with worker(broker, handler):
        calls = stage.calls
        assert (await run_command(tmp_path, "replay", "again", "--yes"))[0] == 0
        until = time.monotonic() + PATIENCE_S
        while stage.calls == calls and time.monotonic() < until:
            await asyncio.sleep(0.02)
        await outcome_of(stores, "again", "failed")
        [request] = await stores.failed.list()
        assert (request.key, request.headers) == (b"key", (("tenant", b"acme"), ("odd", None)))
    await stores.outcomes.aclose()


async def test_replay_leaves_an_outcome_that_changed_meanwhile(broker: MockCluster, tmp_path: Path) -> None:
    """An outcome that another process replaced between listing and removal is kept, and its request is not sent."""
    stores, stage = Stores(tmp_path), Stage()
    handler = stage.handler(stores)
    await handler.handle(record("a"))
    failure = await stores.outcomes.get("search", "a")
    [request] = await stores.failed.list()
    assert failure is not None
    stage.works = True
    await stores.outcomes.remove([failure])
    await handler.handle(record("a"))
    replayer = Replayer(Cluster([broker.bootstrap], {}), stores.outcomes, stores.failed)
    result = await replayer.replay([(request, failure)])
    assert (result.sent, result.changed) == (0, [request])
    assert (await outcome_of(stores, "a", "result")).kind == "result"
    await stores.outcomes.aclose()


async def test_interrupted_replay_is_finished_by_the_next(broker: MockCluster, tmp_path: Path) -> None:
    """A kill between removal and sending leaves a request without an outcome, which the next replay sends."""
    stores, stage = Stores(tmp_path), Stage()
    handler = stage.handler(stores)
    await handler.handle(record("a"))
    failure = await stores.outcomes.get("search", "a")
    assert failure is not None
    await stores.outcomes.remove([failure])
    stage.works = True
    async with worker(broker, handler):
        code, out, err = await run_command(tmp_path, "replay", "a", "--yes")
        assert (code, out, err) == (0, "1 request sent.\n", "")
        await outcome_of(stores, "a", "result")
    await stores.outcomes.aclose()


def failed_request(request_id: str, size: int = 0) -> FailedRequest:
    value = json.dumps({"request_id": request_id, "query": "kafka", "unknown": "x" * size}).encode()
    return FailedRequest("search", request_id, "", value)


async def test_large_request_is_replayed(broker: MockCluster, tmp_path: Path) -> None:
    """A large request stored under a higher RAG_MAX_MESSAGE_BYTES is replayed, regardless of the client's default
    limit.
    """
    stores = Stores(tmp_path)
    stores.failed = SqliteFailedRequestStore(tmp_path / "failed.sqlite3", 10 * MB, 1)
    await stores.failed.put(failed_request("large", MB + 200_000))
    requests = await stores.failed.list()
    result = await Replayer(Cluster([broker.bootstrap], broker.client), stores.outcomes, stores.failed).replay(
        [(request, None) for request in requests]
    )
    assert (result.sent, result.unsent, await stores.failed.list()) == (1, [], [])
    await stores.outcomes.aclose()


async def test_a_refused_request_does_not_stop_the_replay(
    broker: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused request is reported and stays stored. The requests before and after it are sent."""
    monkeypatch.setattr(dev_client, "CLIENT_MAX_BYTES", 10_000)
    stores = Stores(tmp_path)
    for request_id, size in (("a", 0), ("large", 20_000), ("b", 0)):
        await stores.failed.put(failed_request(request_id, size))
    requests = await stores.failed.list()
    result = await Replayer(Cluster([broker.bootstrap], broker.client), stores.outcomes, stores.failed).replay(
        [(request, None) for request in requests]
    )
    assert (result.sent, [request.request_id for request in result.unsent]) == (2, ["large"])
    assert [request.request_id for request in await stores.failed.list()] == ["large"]
    await stores.outcomes.aclose()


async def test_unreachable_brokers_change_nothing(
    broker: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure stays stored, and the exit code is 1."""
    monkeypatch.setattr("modules.llm_platform.presentation.kafka.admin.replay.QUERY_TIMEOUT_S", 0.5)
    stores, stage = Stores(tmp_path), Stage()
    await stage.handler(stores).handle(record("a"))
    broker.down()
    code, _, err = await run_command(tmp_path, "replay", "a", "--yes")
    assert code == 1
    assert "no broker can be reached" in err
    assert await stores.outcomes.get("search", "a") is not None
    broker.up()
    await stores.outcomes.aclose()


async def test_failure_without_its_request_is_reported(tmp_path: Path) -> None:
    """Without stored requests (setting off), the message names the request with exit code 1, also in a dry run.

    Invalid requests are never stored.
    """
    stores, stage = Stores(tmp_path), Stage()
    await stage.handler(stores).handle(record("invalid", query=""))
    assert "invalid_payload fail again" in (await run_command(tmp_path, "replay", "invalid"))[2]
    await stage.handler(stores, keeps=False).handle(record("a"))
    for more in ((), ("--yes",)):
        code, _, err = await run_command(tmp_path, "replay", "a", *more)
        assert code == 1
        assert (
            "1 failure cannot be replayed: their requests are not stored: start the workers with --keep-failed" in err
        )
    assert await stores.outcomes.get("search", "a") is not None
    await stores.outcomes.aclose()


async def test_broken_store_of_failed_requests_does_not_affect_the_outcome(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed store of requests does not change the outcome. A log line says that the request cannot be replayed."""
    stores, stage = Stores(tmp_path), Stage()

    async def broken(_: object) -> None:
        raise OutcomeStoreError("the disk is full")

    monkeypatch.setattr(stores.failed, "put", broken)
    assert (await stage.handler(stores).handle(record("a"))).topic == FAILED
    assert "a failed request could not be stored" in caplog.text
    await stores.outcomes.aclose()


async def test_each_named_outcome_is_shown(tmp_path: Path) -> None:
    """An id is reported as unknown only if it is not stored, regardless of the number of ids and the limit."""
    names = [f"r{number}" for number in range(25)]
    stores = Stores(tmp_path)
    await stores.outcomes.put_if_absent([Outcome("search", name, "result", b"{}", "") for name in names])
    await stores.outcomes.aclose()
    for options, count in (((), 25), (("--limit", "3"), 3)):
        code, out, _ = await run_command(tmp_path, "show", *names, *options, "--json")
        assert (code, len(json.loads(out)["outcomes"])) == (0, count)
    code, out, _ = await run_command(tmp_path, "show", "--json")
    assert (code, len(json.loads(out)["outcomes"])) == (0, 20)
    code, _, err = await run_command(tmp_path, "show", *names, "r25")
    assert code == 1
    assert "no stored outcome matches r25\n" in err


@for_each(
    "arguments",
    [
        ("--status", "result", "--code", "embedding"),
        ("--status", "failed", "--code", "ok"),
        ("--status", "result", "--topic", FAILED),
        ("--status", "failed", "--topic", RESULTS),
        ("--code", "embedding", "--topic", RESULTS),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Contradicting options are refused, because `forget` would remove too much."""
    assert command(tmp_path, "forget", *arguments, "--yes")[0] == 2
