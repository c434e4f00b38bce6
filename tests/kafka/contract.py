"""Tests the contract and the promise from outside, on any broker. Requests and outcomes pass through an independent client.
The workers are processes, and the tests know only their topics.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest
from tests.kafka.broker import ROOT, Broker
from tests.kafka.reference_client import ANSWER, FAILED, PARTITIONS, REQUESTS, SEARCH, SEARCHED, ReferenceClient, Seen
from tests.kafka.scenarios import HASTY_S, MAX_MESSAGE_BYTES, SCENARIOS, Scenario, bad_messages
from tests.kafka.shapes import problems
from tests.kafka.stages import SECRET
from tests.kafka.worker_handle import WorkerConfig, WorkerHandle
from tests.support.cases import for_each

GROUP = "contract"
BACKLOG = 64  # requests that keep the windows of two workers full
FROZEN_S = 10.0  # longer than the session timeout of the test brokers, so other workers get its partitions
UNHURRIED_S = 120.0  # deadline of a request that must not time out, even on a busy machine
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
HEADER_REUSED = "request_id_reused"
EVERYTHING: tuple[Scenario, ...] = (*SCENARIOS, *bad_messages())

Answered = Mapping[str, Sequence[Seen]]
StartWorker = Callable[..., WorkerHandle]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All workers of a module share this folder, like workers on one machine."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def options(broker: Broker, data_dir: Path) -> WorkerConfig:
    return WorkerConfig(broker.bootstrap, str(data_dir), broker.client, group=GROUP)


@pytest.fixture
def start(options: WorkerConfig) -> Iterator[StartWorker]:
    """Starts workers, waits until each one runs, and stops them all at the end."""
    with ExitStack() as stack:
        workers: list[WorkerHandle] = []

        def started(name: str = "worker", **changes: object) -> WorkerHandle:
            worker = stack.enter_context(WorkerHandle(replace(options, name=name, **changes)))  # type: ignore[arg-type]
            workers.append(worker)
            return worker.ready()

        yield started
        for worker in workers:  # pytest shows the log if the test fails
            sys.stderr.write(f"--- log of {worker.config.name}:\n{worker.log_tail()}\n")


@pytest.fixture(scope="module")
def answered(options: WorkerConfig) -> Answered:
    """Send all scenarios at once and return the outcomes by record key. Each scenario has a unique key. Scenarios that must
    time out get a separate worker, because its deadline is too short for the other scenarios on a busy machine.
    """
    by_id: dict[str, list[Seen]] = {}
    for name, timeout_s, times_out in (("hasty", HASTY_S, True), ("scenarios", UNHURRIED_S, False)):
        strict = replace(options, name=name, timeout_s=timeout_s, max_message_bytes=MAX_MESSAGE_BYTES)
        with WorkerHandle(strict) as worker:
            worker.ready()
            scenarios = [one for one in EVERYTHING if (one.expected.get("error_code") == "timeout") is times_out]
            by_id = asyncio.run(_outcomes_of(scenarios, options.bootstrap))
            assert worker.stop() == 0
    by_key: dict[str, list[Seen]] = {}
    for seen in (one for found in by_id.values() for one in found):
        by_key.setdefault(repr(seen.key), []).append(seen)
    return by_key


async def _outcomes_of(scenarios: Sequence[Scenario], bootstrap: str) -> dict[str, list[Seen]]:
    """Return the outcomes of the scenarios and all earlier outcomes."""
    async with ReferenceClient(bootstrap, GROUP) as client:
        for one in scenarios:
            await client.send(one.topic, one.value, one.key, one.headers)
        return await client.settled()


def the_outcome(answered: Answered, scenario: Scenario) -> Seen:
    (seen,) = answered[repr(scenario.key)]
    return seen


class ScenarioContract:
    """Each request has one outcome. Subclass it with a fixture `broker` that has the topics."""

    @for_each("scenario", EVERYTHING)
    def test_request_has_one_outcome(self, answered: Answered, scenario: Scenario) -> None:
        """The outcome is in its topic, and has the request's id, key and expected fields."""
        seen = the_outcome(answered, scenario)
        assert seen.topic == scenario.outcome, seen.body
        assert seen.key == scenario.key
        assert {name: seen.body.get(name) for name in scenario.expected} == scenario.expected
        assert (
            seen.request_id == scenario.id
            if scenario.id
            else seen.request_id.startswith(f"unparsable:{scenario.topic}-")
        )
        if seen.topic == FAILED:
            assert seen.body["stage"] == scenario.stage

    @for_each("scenario", EVERYTHING)
    def test_outcome_has_the_fields_of_the_contract(self, answered: Answered, scenario: Scenario) -> None:
        """The outcome contains no secret and no traceback."""
        seen = the_outcome(answered, scenario)
        assert problems(seen) == []
        assert SECRET.encode() not in seen.value
        assert b"Traceback" not in seen.value
        if seen.body.get("error_code") == "invalid_payload":
            assert set(seen.body["details"]) >= {"field", "reason"}

    @for_each("scenario", EVERYTHING)
    def test_outcome_matches_the_published_schema(self, answered: Answered, scenario: Scenario) -> None:
        """A parser generated from docs/reference/schemas can read every outcome."""
        seen = the_outcome(answered, scenario)
        schema = json.loads((SCHEMAS / f"{seen.topic}.schema.json").read_text("utf-8"))
        jsonschema_rs.validate(schema, seen.body)

    @for_each("scenario", EVERYTHING)
    def test_outcome_has_the_headers_of_its_request(self, answered: Answered, scenario: Scenario) -> None:
        """The headers keep their order, and a header without a value is kept too."""
        carried = [one for one in the_outcome(answered, scenario).headers if one in scenario.headers]
        assert tuple(carried) == scenario.headers


class PromiseContract:
    """Each request has one outcome, whatever happens to the workers and the broker."""

    async def test_duplicate_request_gets_the_first_outcome(self, broker: Broker, start: StartWorker) -> None:
        """The bytes are equal after the first outcome, while it is in flight, for another payload, and from another worker."""
        first = start("first")
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            for _ in range(2):  # both in flight at once
                await client.send(SEARCH, {"request_id": "again", "query": "@sleep=0.5"}, b"again")
            await client.settled()
            assert first.stop() == 0
            start("second")
            await client.send(SEARCH, {"request_id": "again", "query": "another"}, b"other partition, maybe")
            seen = (await client.settled())["again"]
        assert len(seen) == 3
        assert len({one.value for one in seen}) == 1
        reused = [one for one in seen if dict(one.headers).get(HEADER_REUSED)]
        assert [one.key for one in reused] == [b"other partition, maybe"]

    async def test_duplicate_of_a_failed_request_gets_the_failure(self, broker: Broker, start: StartWorker) -> None:
        """A corrected payload under the same id also gets the failure."""
        start()
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            await client.send(SEARCH, {"request_id": "failed", "query": ""}, b"failed")
            await client.settled()
            await client.send(SEARCH, {"request_id": "failed", "query": "corrected"}, b"failed")
            seen = (await client.settled())["failed"]
        assert [one.topic for one in seen] == [FAILED, FAILED]
        assert seen[0].value == seen[1].value

    async def test_oversized_outcome_becomes_a_failure(self, broker: Broker, start: StartWorker) -> None:
        """The failure has no metadata, and the next request is answered."""
        start()
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            metadata = {"tenant": "x" * 600_000}
            large = {"request_id": "outgrown", "query": "@bytes=600000", "metadata": metadata, "trace_id": "t"}
            await client.send(SEARCH, large, b"outgrown", partition=0)
            await client.send(SEARCH, {"request_id": "behind it", "query": "sample"}, b"k", partition=0)
            found = await client.settled()
        (seen,) = found["outgrown"]
        assert (seen.topic, seen.body["trace_id"], "metadata" in seen.body) == (FAILED, "t", False)
        assert found["behind it"][0].topic == SEARCHED

    async def test_outcomes_of_one_key_keep_the_order(self, broker: Broker, start: StartWorker) -> None:
        """The outcomes keep the order even if a later request is computed sooner."""
        start(concurrency=32)
        ids = [f"order-{number:02}" for number in range(40)]
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            await client.send_all(
                (SEARCH, {"request_id": name, "query": f"@sleep={random.uniform(0, 0.1):.3f}"}, b"order")
                for name in ids
            )
            found = await client.settled()
        seen = sorted((one for name in ids for one in found[name]), key=lambda one: one.offset)
        assert [one.request_id for one in seen] == ids
        assert len({one.partition for one in seen}) == 1

    async def test_slow_request_does_not_block_its_partition(
        self, broker: Broker, start: StartWorker, tmp_path: Path
    ) -> None:
        """No offset past the slow request is committed."""
        start(timeout_s=UNHURRIED_S)
        done = tmp_path / "done"
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            await client.send(SEARCH, {"request_id": "slow", "query": f"@until={done}"}, b"slow", partition=3)
            for number in range(10):
                await client.send(SEARCH, {"request_id": f"quick-{number}", "query": "sample"}, b"quick", partition=3)
            await answered_at_least(client, [f"quick-{number}" for number in range(10)], 10)
            assert "slow" not in await client.outcomes()
            assert await client.lag() == 11
            done.touch()
            assert len((await client.settled())["slow"]) == 1

    async def test_stopped_worker_finishes_running_requests(self, broker: Broker, start: StartWorker) -> None:
        """The finished requests are committed, and the next worker does not repeat them."""
        leaving = start("leaving", concurrency=4)
        ids = [f"drain-{number}" for number in range(360)]  # 18 s of work
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            await client.send_all((SEARCH, {"request_id": name, "query": "@sleep=0.2"}, name.encode()) for name in ids)
            await answered_at_least(client, ids, 8)
            assert leaving.stop() == 0
            left = await client.lag()
            assert left > 0, "it had finished everything before it was asked"
            start("next", concurrency=64)
            found = await client.settled()
        assert [len(found[name]) for name in ids] == [1] * len(ids)
        assert _answered_by(found, ids) == {"leaving", "next"}

    async def test_worker_waits_for_unreachable_brokers(self, broker: Broker, start: StartWorker) -> None:
        """The broker goes away during requests. The worker stays up, every request is answered, and no answers contradict."""
        worker = start(concurrency=8)
        ids = [f"away-{number}" for number in range(200)]
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            await client.send_all((SEARCH, {"request_id": name, "query": "@sleep=0.05"}, name.encode()) for name in ids)
            await answered_at_least(client, ids, 20)
        for _ in range(2):
            broker.down()
            await asyncio.sleep(0.5)
            broker.up()
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            check_none_lost(await client.settled(), ids)
        assert worker.running
        assert worker.stop() == 0

    async def test_rebalances_lose_no_request(self, broker: Broker, start: StartWorker) -> None:
        """Three workers share twelve partitions while members join, leave and are killed."""
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            start("one", concurrency=8)
            ids = await asked_until_answered_by({"one"}, client, [])
            two, three = start("two", concurrency=8), start("three", concurrency=8)
            ids = await asked_until_answered_by({"one", "two", "three"}, client, ids)
            more = [f"moving-{number}" for number in range(len(ids), len(ids) + 200)]
            await client.send_all(requests(more))
            await answered_at_least(client, more, 50)
            two.kill()
            assert three.stop() == 0
            check_none_lost(await client.settled(), [*ids, *more])

    @pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen for a while"])
    async def test_reassigned_partitions_are_read(self, broker: Broker, start: StartWorker, frozen: bool) -> None:
        """A worker with a full window pauses its partitions. A second worker takes some and leaves. The first continues."""
        stays = start("stays", concurrency=8)
        backlog = [f"backlog-{frozen}-{number}" for number in range(BACKLOG)]
        later = [f"later-{frozen}-{number}" for number in range(180)]
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            await client.send_all(requests(backlog, "@sleep=3"))
            leaves = start("leaves", concurrency=8)
            backlog = await _kept_busy_until_answered_by("leaves", client, backlog)
            if frozen:
                stays.freeze()
                await asyncio.sleep(FROZEN_S)
                stays.thaw()
            await client.settled()
            assert leaves.stop() == 0
            await client.send_all(requests(later, "sample"))
            check_none_lost(await client.settled(), later)
        assert stays.running


def requests(ids: Sequence[str], text: str = "@sleep=0.1") -> list[tuple[str, object, bytes]]:
    """Alternate between both stages, because Kafka may assign all partitions of one topic to one worker."""
    bodies = {SEARCH: {"query": text}, ANSWER: {"question": text}}
    topics = [REQUESTS[position % 2] for position in range(len(ids))]
    return [
        (topic, {"request_id": name, **bodies[topic]}, name.encode()) for topic, name in zip(topics, ids, strict=True)
    ]


async def asked_until_answered_by(
    names: set[str], client: ReferenceClient, ids: list[str], prefix: str = "moving"
) -> list[str]:
    """Send requests to all partitions until each of these workers has answered. Return `ids` plus the new ids."""
    async with asyncio.timeout(120):
        while not names <= _answered_by(await client.outcomes(), ids):
            now = [f"{prefix}-{number}" for number in range(len(ids), len(ids) + 2 * PARTITIONS)]
            await client.send_all(requests(now))
            ids = [*ids, *now]
            await asyncio.sleep(0.2)
    return ids


async def _kept_busy_until_answered_by(name: str, client: ReferenceClient, ids: list[str]) -> list[str]:
    """Send more 3 s requests when the other workers are nearly done before this worker has joined. Return all ids."""
    async with asyncio.timeout(120):
        while name not in _answered_by(found := await client.outcomes(), ids):
            if sum(id_ not in found for id_ in ids) < BACKLOG // 2:
                more = [f"{ids[0]}-more-{number}" for number in range(len(ids), len(ids) + BACKLOG // 2)]
                await client.send_all(requests(more, "@sleep=3"))
                ids = [*ids, *more]
            await asyncio.sleep(0.2)
    return ids


async def answered_at_least(client: ReferenceClient, ids: Sequence[str], count: int) -> None:
    async with asyncio.timeout(120):
        while sum(name in found for found in [await client.outcomes()] for name in ids) < count:
            await asyncio.sleep(0.02)


def _answered_by(found: Mapping[str, Sequence[Seen]], ids: Sequence[str]) -> set[str]:
    """Return the names of the workers that computed these outcomes. stages.py writes them into the results."""
    bodies = [one.body for name in ids for one in found.get(name, ())]
    return {hit["source"] for body in bodies for hit in body.get("hits", ())} | {
        body["answer"].split()[1] for body in bodies if "answer" in body
    }


def check_none_lost(found: Mapping[str, Sequence[Seen]], ids: Sequence[str]) -> None:
    """Each request has an outcome, and repeated outcomes of a request are equal: delivery is at least once."""
    assert [name for name in ids if not found.get(name)] == []
    assert [name for name in ids if len({(one.topic, one.value, one.key) for one in found[name]}) > 1] == []
