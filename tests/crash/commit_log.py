"""Reads a group's commits from the cluster's offsets topic, in the order in which the coordinators accepted them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer

OFFSETS = "__consumer_offsets"
READ_S = 120.0
OFFSET_COMMIT_VERSIONS = (0, 1)  # versions of the record key; other versions belong to group metadata


@dataclass(frozen=True, slots=True)
class Commit:
    """`at`: partition and offset of the commit's record in the offsets topic."""

    at: tuple[int, int]
    topic: str
    partition: int
    offset: int


async def read_commits(bootstrap: str, group: str) -> list[Commit]:
    """Return all commits of the group. Each partition keeps the order. The topic is compacted only hours later."""
    consumer = AIOKafkaConsumer(
        OFFSETS, bootstrap_servers=bootstrap, auto_offset_reset="earliest", exclude_internal_topics=False
    )
    await consumer.start()
    try:
        async with asyncio.timeout(READ_S):
            ends = {place: end for place, end in (await consumer.end_offsets(consumer.assignment())).items() if end}
            found = []
            while any([await consumer.position(place) < end for place, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found += [
                        commit
                        for one in records
                        if (commit := _commit((one.partition, one.offset), one.key, one.value, group)) is not None
                    ]
            return found
    finally:
        await consumer.stop()


def last_of_each(commits: Iterable[Commit]) -> list[Commit]:
    """Return the last commit of each partition. These are the group's committed offsets."""
    return list({(commit.topic, commit.partition): commit for commit in commits}.values())


def going_back(commits: Iterable[Commit]) -> Iterator[str]:
    """Yield each commit that is lower than an earlier commit of its partition."""
    highest: dict[tuple[str, int], Commit] = {}
    for commit in commits:
        place = (commit.topic, commit.partition)
        before = highest.get(place)
        if before is not None and commit.offset < before.offset:
            yield f"{commit.topic}/{commit.partition}: {commit.offset} at {commit.at} after {before.offset} at {before.at}"
        else:
            highest[place] = commit


def _commit(at: tuple[int, int], key: bytes | None, value: bytes | None, group: str) -> Commit | None:
    """Return None for other records of the topic and for a deleted commit."""
    if not key or value is None or int.from_bytes(key[:2], "big") not in OFFSET_COMMIT_VERSIONS:
        return None
    name, rest = _string(key[2:])
    topic, rest = _string(rest)
    if name != group:
        return None
    return Commit(at, topic, struct.unpack(">i", rest[:4])[0], struct.unpack(">q", value[2:10])[0])


def _string(raw: bytes) -> tuple[str, bytes]:
    end = 2 + int.from_bytes(raw[:2], "big")
    return raw[2:end].decode(), raw[end:]
