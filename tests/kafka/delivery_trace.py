"""Writes the path of each request through a worker to a file: the read, the delivery report of its outcome, and the commit.

Each line names a position as `topic/partition/offset`, so a search finds the lines about one partition in all files. The
worker's methods are patched from outside, so the worker contains no test code.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, TopicPartition
from tests.kafka.crash_points import around

from modules.llm_platform.presentation.kafka.worker.consumer import ConsumerThread
from modules.llm_platform.presentation.kafka.worker.in_flight_request import InFlightRequest
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetCommitter, OffsetTracker
from modules.llm_platform.presentation.kafka.worker.producer import ProducerPump

log = logging.getLogger("delivery")

SUFFIX = ".delivery"


def trace_file(folder: Path, worker: str) -> Path:
    return folder / f"{worker}{SUFFIX}"


def trace_files(folder: Path) -> list[Path]:
    """Return the files of all workers."""
    return sorted(folder.glob(f"*{SUFFIX}"))


@contextmanager
def delivery_trace(file: Path) -> Iterator[None]:
    """Every worker inside the context logs its reads, delivery reports and commits to the file."""
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    with ExitStack() as stack:
        stack.callback(handler.close)
        for patched in (
            around(
                ConsumerThread,
                "_handle_assignment",
                before=lambda _, __, partitions: _log_partitions("assigned", partitions),
            ),
            around(
                ConsumerThread,
                "_handle_revocation",
                before=lambda _, __, partitions: _log_partitions("revoked", partitions),
            ),
            around(
                ConsumerThread, "_handle_loss", before=lambda _, __, partitions: _log_partitions("lost", partitions)
            ),
            around(ConsumerThread, "_deliver", before=_log_read),
            around(ProducerPump, "_add_report", before=_log_report),
            around(OffsetCommitter, "_commit", before=_log_commit),
            around(OffsetCommitter, "on_commit", before=_log_committed),
        ):
            stack.enter_context(patched)
        yield


def _log_partitions(what: str, partitions: Sequence[TopicPartition]) -> None:
    for partition in partitions:
        log.info("%s %s/%d", what, partition.topic, partition.partition)


def _log_read(_: ConsumerThread, messages: Sequence[Message]) -> None:
    for message in messages:
        error = message.error()
        log.info("read %s %s", _position(message), error.name() if error is not None else "")


def _log_report(_: ProducerPump, on_delivery: Any, error: KafkaError | None, message: Message) -> None:
    """`on_delivery` is a partial of the scheduler's method, and its first argument is the request. If the position has no
    offset, the brokers did not confirm the outcome: librdkafka inferred that it is written.
    """
    request: InFlightRequest = on_delivery.args[0]
    record = request.record
    written = _position(message) if error is None else error.name()
    log.info("report for %s/%d/%d: %s", record.topic, record.partition, record.offset, written)


def _log_commit(_: OffsetCommitter, consumer: Any, trackers: Sequence[OffsetTracker], *, asynchronous: bool) -> None:
    for tracker in trackers:
        log.info("commit %s/%d/%s", tracker.topic, tracker.partition, tracker.committable)


def _log_committed(_: OffsetCommitter, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
    for partition in partitions:
        failure = error or partition.error
        said = failure.name() if failure is not None else "committed"
        log.info("%s %s/%d/%d", said, partition.topic, partition.partition, partition.offset)


def _position(message: Message) -> str:
    return f"{message.topic()}/{message.partition()}/{message.offset()}"
