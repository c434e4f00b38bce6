"""The floor: a Kafka worker as a careful person writes it by hand. It takes as many requests as may be in flight, runs their
stages side by side, writes the outcomes, and commits now and then what is written. Nothing is validated and nothing is kept:
a request that comes again is told another outcome, and a slow one holds up all others.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer

POLL_S = 0.05
COMMIT_EVERY_S = 0.2


async def answer(message: Message, stage_s: float) -> bytes:
    asked = json.loads(message.value() or b"")
    if stage_s:
        await asyncio.sleep(stage_s)
    told = {"request_id": asked["request_id"], "trace_id": asked.get("trace_id"), "hits": [], "latency_ms": 0}
    return json.dumps(told | {"metadata": asked.get("metadata")}).encode()


def take(consumer: Consumer, most: int) -> list[Message]:
    first = consumer.poll(POLL_S)
    return [] if first is None else [one for one in (first, *consumer.consume(most - 1, 0)) if one.error() is None]


async def work(told: dict[str, Any]) -> None:
    brokers = {"bootstrap.servers": told["bootstrap"]}
    producer = Producer({**brokers, "enable.idempotence": True, "linger.ms": 1})
    group = {"group.id": told["group"], "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**brokers, **group, **told["client"]})
    consumer.subscribe(["rag_search_request"])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    print("started", flush=True)
    due, behind = 0.0, False
    while not stopped.is_set():
        messages = await asyncio.to_thread(take, consumer, told["concurrency"])
        outcomes = await asyncio.gather(*(answer(one, told["stage_s"]) for one in messages))
        for message, outcome in zip(messages, outcomes, strict=True):
            producer.produce("rag_search_result", outcome, message.key(), headers=message.headers())
        await asyncio.to_thread(producer.flush)
        behind = behind or bool(messages)
        if behind and time.monotonic() >= due:
            await asyncio.to_thread(consumer.commit, asynchronous=False)
            due, behind = time.monotonic() + COMMIT_EVERY_S, False
    consumer.close()


if __name__ == "__main__":
    asyncio.run(work(json.loads(sys.argv[1])))
