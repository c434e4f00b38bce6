"""Reads the topics and decides whether the promise was kept. It knows the contract (docs/reference/kafka.md) and none of our
code, and it reads with an independent client.

    python -m tests.crash.checker 127.0.0.1:9092     # any cluster with idle workers
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer

STAGE_BY_TOPIC = {"rag_search_request": "search", "rag_answer_request": "answer"}
RESULT_OF = {"rag_search_result": "search", "rag_answer_result": "answer"}
FAILED = "rag_failed"
TOPICS = (*STAGE_BY_TOPIC, *RESULT_OF, FAILED)
REUSED = ("request_id_reused", b"true")
LONGEST_ID, UNPARSABLE = 1000, "unparsable:"
READ_S = 120.0
FETCH_WAIT_MS, FETCH_BYTES = 20, 4_000_000
SHOWN = 20  # limit on the printed problems
# JSON tokens. Two texts with the same tokens differ only in white space.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]')
_SPACE = re.compile(r"[\s,:]*")


@dataclass(frozen=True, slots=True)
class Record:
    """A record as stored in its topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def position(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Name(NamedTuple):
    """The stage and request id that an outcome belongs to."""

    stage: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """`repeats`: outcomes that were written again. At-least-once delivery allows them."""

    requests: int
    names: int
    outcomes: int
    repeats: int
    codes: Mapping[str, int]
    problems: tuple[str, ...]


def judge(records: Iterable[Record], quiet: Iterable[Iterable[Record]] = ()) -> Verdict:
    """Check that every request has an outcome, repeated outcomes are equal, and every outcome has a request.

    `quiet`: contents of the topics at moments when running workers had had enough time to answer every request. A request
    without an outcome at such a moment is a problem even if it has an outcome now, because a worker that started later may
    have written it.
    """
    asked, told = _asked_and_told(records)
    problems = [f"an outcome that nobody asked for: {told[name][0].position}" for name in told if name not in asked]
    for moment in quiet:
        problems += _stranded(moment)
    for name, requests in asked.items():
        problems += _of_one(name, requests, told.get(name, []))
    problems += _out_of_order(asked, told)
    requests, outcomes = _count(asked), _count(told)
    codes = Counter(_code(found[0]) for found in told.values())
    return Verdict(requests, len(asked), outcomes, max(outcomes - requests, 0), codes, tuple(problems))


def _asked_and_told(records: Iterable[Record]) -> tuple[dict[Name, list[Record]], dict[Name, list[Record]]]:
    every = sorted(records, key=lambda one: (one.topic, one.partition, one.offset))
    return _by_name(every, STAGE_BY_TOPIC, asked_name), _by_name(every, (*RESULT_OF, FAILED), told_name)


def _stranded(moment: Iterable[Record]) -> Iterator[str]:
    """Yield each request that the running workers did not answer."""
    asked, told = _asked_and_told(moment)
    for name, requests in asked.items():
        missing = len(requests) - len(told.get(name, ()))
        if missing > 0:
            yield f"not answered while workers were up: {name.stage} {name.request_id!r}, asked at {requests[-1].position}"


def committed_too_early(records: Iterable[Record], committed: Mapping[tuple[str, int], int]) -> Iterator[str]:
    """Yield the requests below a committed offset without an outcome. It may run at any time. `committed`: offsets by topic
    and partition, read before `records`.
    """
    asked, told = _asked_and_told(records)
    for name, requests in asked.items():
        passed = [one for one in requests if one.offset < committed.get((one.topic, one.partition), 0)]
        if len(passed) > len(told.get(name, ())):
            yield f"committed without an outcome: {name.stage} {name.request_id!r}, asked at {passed[-1].position}"


def _by_name(records: Iterable[Record], topics: Iterable[str], named: Any) -> dict[Name, list[Record]]:
    found: dict[Name, list[Record]] = {}
    for record in records:
        if record.topic in topics:
            found.setdefault(named(record), []).append(record)
    return found


def asked_name(request: Record) -> Name:
    """Return the sender's id. If it is unreadable, return the id derived from the record's position."""
    given = _object(request.value).get("request_id")
    if isinstance(given, str) and 0 < len(given) <= LONGEST_ID and not given.startswith(UNPARSABLE):
        return Name(STAGE_BY_TOPIC[request.topic], given)
    made = f"{UNPARSABLE}{request.topic}-{request.partition}-{request.offset}"
    return Name(STAGE_BY_TOPIC[request.topic], made)


def told_name(outcome: Record) -> Name:
    body = _object(outcome.value)
    return Name(RESULT_OF.get(outcome.topic, str(body.get("stage"))), str(body.get("request_id")))


def _of_one(name: Name, requests: Sequence[Record], outcomes: Sequence[Record]) -> Iterator[str]:
    """Yield the problems of one id's outcomes."""
    which = f"{name.stage} {name.request_id!r}"
    if not outcomes:
        yield f"lost: {which}, asked at {requests[0].position}"
        return
    if len({(one.topic, one.value) for one in outcomes}) > 1:
        yield f"contradicted: {which} is {' and '.join(sorted({one.position for one in outcomes}))}"
    asked = Counter((one.key, one.headers) for one in requests)
    told = Counter((one.key, tuple(header for header in one.headers if header != REUSED)) for one in outcomes)
    for (key, _), count in (asked - told).items():
        yield f"lost: {which} with the key {key!r} and its headers, {count} times"
    for key, _ in told.keys() - asked.keys():
        yield f"a key or headers that nobody sent: {which} with the key {key!r}"
    if len({one.value for one in requests}) == 1 and any(REUSED in one.headers for one in outcomes):
        yield f"called reused, though its payload never differed: {which}"
    yield from _wrong_echo(which, requests, outcomes[0])


def _wrong_echo(which: str, requests: Sequence[Record], outcome: Record) -> Iterator[str]:
    """If an id has several payloads, the outcome must echo exactly one of them."""
    told = _echo(outcome.value)
    details = _object(outcome.value).get("details")
    outgrown = isinstance(details, dict) and details.get("reason") == "outcome_too_large"
    asked = [_echo(one.value) for one in requests]
    if outgrown:
        asked = [(trace, None) for trace, _ in asked]
    if told not in asked:
        yield f"trace_id or metadata are not as they were sent: {which}"


def _out_of_order(asked: Mapping[Name, Sequence[Record]], told: Mapping[Name, Sequence[Record]]) -> Iterator[str]:
    """Requests with one key in one partition: their first outcomes in a topic must keep the order of the requests."""
    rows: dict[tuple[str, int, bytes, str], list[tuple[int, Record]]] = {}
    for name, requests in asked.items():
        for key in {one.key for one in requests} - {None}:
            assert key is not None
            first = next(one for one in requests if one.key == key)
            answer = next((one for one in told.get(name, ()) if one.key == key), None)
            if answer is not None:
                rows.setdefault((first.topic, first.partition, key, answer.topic), []).append((first.offset, answer))
    for (_, _, key, topic), row in rows.items():
        answers = [answer for _, answer in sorted(row, key=lambda pair: pair[0])]
        if len({one.partition for one in answers}) > 1:
            yield f"the key {key!r} lies in several partitions of {topic}"
            continue
        for one, after in pairwise(answers):
            if after.offset < one.offset:
                yield f"out of order: {after.position} with the key {key!r} should come after {one.position}"


def _code(outcome: Record) -> str:
    return str(_object(outcome.value).get("error_code", "ok"))


def _count(found: Mapping[Name, Sequence[Record]]) -> int:
    return sum(map(len, found.values()))


def _text(value: bytes | None) -> str:
    try:
        return (value or b"").decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _object(value: bytes | None) -> dict[str, Any]:
    """Parse the bytes as a JSON object. Return an empty object if they are not one."""
    try:
        body = json.loads(_text(value))
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _echo(value: bytes | None) -> tuple[Any, list[str] | None]:
    """Return trace_id and the tokens of metadata. Their order, escapes and digits must match the request."""
    body = _object(value)
    metadata = _TOKEN.findall(_member(_text(value), "metadata")) if body.get("metadata") is not None else None
    return body.get("trace_id"), metadata


def _member(text: str, name: str) -> str:
    """Return the source text of a member of the JSON object `text`. The member must exist."""
    read = json.JSONDecoder().raw_decode
    at = text.index("{") + 1
    while True:
        key, at = read(text, _SPACE.match(text, at).end())  # type: ignore[union-attr]
        begins = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        _, at = read(text, begins)
        if key == name:
            return text[begins:at]


async def read_topics(bootstrap: str) -> list[Record]:
    """Return all records of the five topics. Raises RuntimeError if the broker deleted some, which rules out a verdict."""
    consumer = AIOKafkaConsumer(  # a consumer without a group reads all partitions of its topics
        *TOPICS,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=FETCH_WAIT_MS,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    await consumer.start()
    try:
        async with asyncio.timeout(READ_S):
            return await _read(consumer)
    finally:
        await consumer.stop()


async def _read(consumer: AIOKafkaConsumer) -> list[Record]:
    partitions = consumer.assignment()
    if any((await consumer.beginning_offsets(partitions)).values()):
        raise RuntimeError("the broker does not have the beginning of its topics any more")
    ends = {position: end for position, end in (await consumer.end_offsets(partitions)).items() if end}
    found: list[Record] = []
    while any([await consumer.position(position) < end for position, end in ends.items()]):
        for records in (await consumer.getmany(timeout_ms=100)).values():
            found += [
                Record(one.topic, one.partition, one.offset, one.key, one.value, tuple(one.headers)) for one in records
            ]
    return found


def verdict_text(verdict: Verdict) -> str:
    """Format the verdict for people."""
    codes = ", ".join(f"{code} {count}" for code, count in sorted(verdict.codes.items()))
    lines = [
        f"{verdict.requests} requests under {verdict.names} ids, {verdict.outcomes} outcomes ({codes}),"
        f" {verdict.repeats} of them written again",
        *verdict.problems[:SHOWN],
        f"{len(verdict.problems)} problems" if verdict.problems else "the promise was kept",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Was each request answered, and never in two ways?")
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    verdict = judge(asyncio.run(read_topics(parser.parse_args().bootstrap)))
    sys.stdout.write(verdict_text(verdict) + "\n")
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
