"""The contract and the promise, seen from outside, on any broker: requests and outcomes pass through a client that is not
ours, the workers are processes, and nothing is known of them but their topics.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest
from tests.kafka.broker import ROOT, Broker
from tests.kafka.foreign import ANSWER, FAILED, PARTITIONS, REQUESTS, SEARCH, SEARCHED, ForeignClient, Seen
from tests.kafka.scenarios import DEADLINE_S, MAX_MESSAGE_BYTES, SCENARIOS, Scenario, bad_messages
from tests.kafka.shapes import problems
from tests.kafka.stages import SECRET
from tests.kafka.worker_handle import WorkerHandle, WorkerTold

GROUP = "contract"
FROZEN_S = 10.0  # longer than the sessions of the tests' brokers: its partitions are given to others
ANSWERED_S = 30.0  # for requests that each take no time
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
HEADER_REUSED = "request_id_reused"
EVERYTHING: tuple[Scenario, ...] = (*SCENARIOS, *bad_messages())

Answered = Mapping[str, Sequence[Seen]]
StartWorker = Callable[..., WorkerHandle]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by all workers of a module, as on one machine."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def options(broker: Broker, data_dir: Path) -> WorkerTold:
    return WorkerTold(broker.bootstrap, str(data_dir), broker.client, group=GROUP)


@pytest.fixture
def start(options: WorkerTold) -> Iterator[StartWorker]:
    """Starts workers, waits until each runs, and leaves none behind."""
    with ExitStack() as stack:

        def started(name: str = "worker", **changes: object) -> WorkerHandle:
            return stack.enter_context(WorkerHandle(replace(options, name=name, **changes))).ready()  # type: ignore[arg-type]

        yield started


@pytest.fixture(scope="module")
def answered(options: WorkerTold) -> Answered:
    """Every scenario through one worker at once; the outcomes by the record's key, which each scenario has for itself."""
    strict = replace(options, name="scenarios", timeout_s=DEADLINE_S, max_message_bytes=MAX_MESSAGE_BYTES)
    with WorkerHandle(strict) as worker:
        worker.ready()
        by_id = asyncio.run(_all_scenarios(options.bootstrap))
        assert worker.stop() == 0
    by_key: dict[str, list[Seen]] = {}
    for seen in (one for found in by_id.values() for one in found):
        by_key.setdefault(repr(seen.key), []).append(seen)
    return by_key


async def _all_scenarios(bootstrap: str) -> dict[str, list[Seen]]:
    async with ForeignClient(bootstrap, GROUP) as client:
        for one in EVERYTHING:
            await client.send(one.topic, one.value, one.key, one.headers)
        return await client.settled()


def the_outcome(answered: Answered, scenario: Scenario) -> Seen:
    (seen,) = answered[repr(scenario.key)]
    return seen


@pytest.mark.parametrize("scenario", EVERYTHING, ids=lambda scenario: scenario.name)
class ScenarioContract:
    """One request, one outcome; subclass it with a fixture `broker` that has the topics."""

    def test_it_has_its_one_outcome(self, answered: Answered, scenario: Scenario) -> None:
        """In the topic for it, with the id of the request, its key, and what it was to echo or to say."""
        seen = the_outcome(answered, scenario)
        assert seen.topic == scenario.outcome, seen.body
        assert seen.key == scenario.key
        assert {name: seen.body.get(name) for name in scenario.expected} == scenario.expected
        assert seen.request_id == scenario.id if scenario.id else seen.request_id.startswith(f"unparsable:{scenario.topic}-")
        if seen.topic == FAILED:
            assert seen.body["stage"] == scenario.stage

    def test_it_has_the_shape_of_the_contract(self, answered: Answered, scenario: Scenario) -> None:
        """The fields and types that other teams' parsers were written for; no secret, no trace of code."""
        seen = the_outcome(answered, scenario)
        assert problems(seen) == []
        assert SECRET.encode() not in seen.value
        assert b"Traceback" not in seen.value
        if seen.body.get("error_code") == "invalid_payload":
            assert set(seen.body["details"]) >= {"field", "reason"}

    def test_it_fits_the_schema_that_we_publish(self, answered: Answered, scenario: Scenario) -> None:
        """Who generates a parser from docs/reference/schemas can read every outcome."""
        seen = the_outcome(answered, scenario)
        schema = json.loads((SCHEMAS / f"{seen.topic}.schema.json").read_text("utf-8"))
        jsonschema_rs.validate(schema, seen.body)

    def test_it_carries_the_headers_of_its_request(self, answered: Answered, scenario: Scenario) -> None:
        """Trace context and tenant, also a header without a value, in their order."""
        carried = [one for one in the_outcome(answered, scenario).headers if one in scenario.headers]
        assert tuple(carried) == scenario.headers


class PromiseContract:
    """One request, one outcome, whatever happens to the workers and the broker."""

    async def test_a_repeated_id_gets_the_first_outcome_again(self, broker: Broker, start: StartWorker) -> None:
        """Byte for byte, after the first and while it is in flight, whatever its payload is, and from another worker."""
        first = start("first")
        async with ForeignClient(broker.bootstrap, GROUP) as client:
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

    async def test_a_repeated_failure_is_the_first_failure(self, broker: Broker, start: StartWorker) -> None:
        """A request that failed and is sent again, corrected, under the same id, is still that failure."""
        start()
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            await client.send(SEARCH, {"request_id": "failed", "query": ""}, b"failed")
            await client.settled()
            await client.send(SEARCH, {"request_id": "failed", "query": "corrected"}, b"failed")
            seen = (await client.settled())["failed"]
        assert [one.topic for one in seen] == [FAILED, FAILED]
        assert seen[0].value == seen[1].value

    async def test_an_outcome_too_large_for_its_topic_is_a_failure(self, broker: Broker, start: StartWorker) -> None:
        """Without the metadata, which may be what made it so; and the next request is answered."""
        start()
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            metadata = {"tenant": "x" * 600_000}
            large = {"request_id": "outgrown", "query": "@bytes=600000", "metadata": metadata, "trace_id": "t"}
            await client.send(SEARCH, large, b"outgrown", partition=0)
            await client.send(SEARCH, {"request_id": "behind it", "query": "sample"}, b"k", partition=0)
            found = await client.settled()
        (seen,) = found["outgrown"]
        assert (seen.topic, seen.body["trace_id"], "metadata" in seen.body) == (FAILED, "t", False)
        assert found["behind it"][0].topic == SEARCHED

    async def test_outcomes_of_one_key_keep_the_order_of_their_requests(self, broker: Broker, start: StartWorker) -> None:
        """Although the later ones are computed sooner."""
        start(concurrency=32)
        ids = [f"order-{number:02}" for number in range(40)]
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            await client.send_all(
                (SEARCH, {"request_id": name, "query": f"@sleep={random.uniform(0, 0.1):.3f}"}, b"order") for name in ids
            )
            found = await client.settled()
        seen = sorted((one for name in ids for one in found[name]), key=lambda one: one.offset)
        assert [one.request_id for one in seen] == ids
        assert len({one.partition for one in seen}) == 1

    async def test_a_slow_request_holds_nobody_up(self, broker: Broker, start: StartWorker) -> None:
        """Another key's requests behind it in its partition are answered while it runs; nothing is committed past it."""
        start()
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            await client.send(SEARCH, {"request_id": "slow", "query": "@sleep=2.5"}, b"slow", partition=3)
            for number in range(10):
                await client.send(SEARCH, {"request_id": f"quick-{number}", "query": "sample"}, b"quick", partition=3)
            async with asyncio.timeout(60):
                while "quick-9" not in (found := await client.outcomes()):
                    await asyncio.sleep(0.05)
            assert "slow" not in found
            assert await client.lag() == 11
            assert len((await client.settled())["slow"]) == 1

    async def test_a_worker_that_is_asked_to_stop_finishes_first(self, broker: Broker, start: StartWorker) -> None:
        """SIGTERM under load: what was begun is answered and committed, nothing is answered again by the next worker."""
        leaving = start("leaving", concurrency=4)
        ids = [f"drain-{number}" for number in range(120)]
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            await client.send_all((SEARCH, {"request_id": name, "query": "@sleep=0.05"}, name.encode()) for name in ids)
            await answered_at_least(client, ids, 8)
            assert leaving.stop() == 0
            left = await client.lag()
            assert left > 0, "it had finished everything before it was asked"
            start("next")
            found = await client.settled()
        assert [len(found[name]) for name in ids] == [1] * len(ids)
        assert _answered_by(found, ids) == {"leaving", "next"}

    async def test_a_broker_that_goes_away_is_waited_for(self, broker: Broker, start: StartWorker) -> None:
        """Requests under way while the broker is gone: the worker lives, and each is answered, never in two ways."""
        worker = start(concurrency=8)
        ids = [f"away-{number}" for number in range(200)]
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            await client.send_all((SEARCH, {"request_id": name, "query": "@sleep=0.05"}, name.encode()) for name in ids)
            await answered_at_least(client, ids, 20)
        for _ in range(2):
            broker.down()
            await asyncio.sleep(0.5)
            broker.up()
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            check_none_lost(await client.settled(), ids)
        assert worker.running
        assert worker.stop() == 0

    async def test_three_workers_share_twelve_partitions_while_members_come_and_go(
        self, broker: Broker, start: StartWorker
    ) -> None:
        """One joins after the other under load, one leaves, one is killed: all take part, nothing is lost or contradicted."""
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            start("one", concurrency=8)
            ids = await _asked_until_answered_by({"one"}, client, [])
            two, three = start("two", concurrency=8), start("three", concurrency=8)
            ids = await _asked_until_answered_by({"one", "two", "three"}, client, ids)
            more = [f"moving-{number}" for number in range(len(ids), len(ids) + 200)]
            await client.send_all(_requests(more))
            await answered_at_least(client, more, 50)
            two.kill()
            assert three.stop() == 0
            check_none_lost(await client.settled(), [*ids, *more])

    @pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen for a while"])
    async def test_partitions_that_come_back_are_read(self, broker: Broker, start: StartWorker, frozen: bool) -> None:
        """A worker whose window is full pauses its partitions. Another joins under that backlog, takes some of them, and
        leaves when all is done: what is asked after that is answered by the first, which was not restarted.
        """
        stays = start("stays", concurrency=8)
        backlog = [f"backlog-{frozen}-{number}" for number in range(64)]
        later = [f"later-{frozen}-{number}" for number in range(180)]
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            await client.send_all(_requests(backlog, "@sleep=3"))
            leaves = start("leaves", concurrency=8)
            await answered_at_least(client, backlog, 8)
            if frozen:
                stays.freeze()
                await asyncio.sleep(FROZEN_S)
                stays.thaw()
            found = await client.settled()
            assert "leaves" in _answered_by(found, backlog), "it joined after the backlog was done"
            assert leaves.stop() == 0
            await client.send_all(_requests(later, "sample"))
            check_none_lost(await client.settled(timeout_s=ANSWERED_S), later)
        assert stays.running


def _requests(ids: Sequence[str], text: str = "@sleep=0.1") -> list[tuple[str, object, bytes]]:
    """In turns for both stages: Kafka may well give all partitions of one topic to one worker."""
    bodies = {SEARCH: {"query": text}, ANSWER: {"question": text}}
    topics = [REQUESTS[place % 2] for place in range(len(ids))]
    return [(topic, {"request_id": name, **bodies[topic]}, name.encode()) for topic, name in zip(topics, ids, strict=True)]


async def _asked_until_answered_by(names: set[str], client: ForeignClient, ids: list[str]) -> list[str]:
    """Ask for all partitions again and again, until each of these workers has answered; what was asked, `ids` before it."""
    async with asyncio.timeout(120):
        while not names <= _answered_by(await client.outcomes(), ids):
            now = [f"moving-{number}" for number in range(len(ids), len(ids) + 2 * PARTITIONS)]
            await client.send_all(_requests(now))
            ids = [*ids, *now]
            await asyncio.sleep(0.2)
    return ids


async def answered_at_least(client: ForeignClient, ids: Sequence[str], count: int) -> None:
    async with asyncio.timeout(120):
        while sum(name in found for found in [await client.outcomes()] for name in ids) < count:
            await asyncio.sleep(0.02)


def _answered_by(found: Mapping[str, Sequence[Seen]], ids: Sequence[str]) -> set[str]:
    """The names of the workers that computed these: stages.py puts them into results."""
    bodies = [one.body for name in ids for one in found.get(name, ())]
    return {hit["source"] for body in bodies for hit in body.get("hits", ())} | {
        body["answer"].split()[1] for body in bodies if "answer" in body
    }


def check_none_lost(found: Mapping[str, Sequence[Seen]], ids: Sequence[str]) -> None:
    """Each has an outcome, and no two outcomes of one differ: at least once is the delivery, once is the answer."""
    assert [name for name in ids if not found.get(name)] == []
    assert [name for name in ids if len({(one.topic, one.value, one.key) for one in found[name]}) > 1] == []
