"""Sends failed requests again under their own ids: the stored failure is removed first, so that the request is computed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest, Outcome
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
from modules.llm_platform.presentation.kafka.admin.dev_client import (
    QUERY_TIMEOUT_S,
    SEND_TIMEOUT_S,
    Cluster,
    make_request_producer,
)

BATCH: Final = 100  # requests whose failures are removed before they are sent


@dataclass(slots=True)
class ReplayResult:
    """The result of a replay.

    - `sent` is the number of requests that were sent.
    - `changed` are requests whose outcome is no longer the failure.
    - `unsent` are requests that the brokers did not accept. They have no outcome, and the next replay sends them.
    """

    sent: int = 0
    changed: list[FailedRequest] = field(default_factory=list)
    unsent: list[FailedRequest] = field(default_factory=list)


class Replayer:
    """Replays with one producer. The order makes it safe to be killed at any point: the failure is removed, the request is
    sent, and when the brokers have it, it is removed from the store of failed requests. What was not sent is found there.
    """

    def __init__(self, cluster: Cluster, outcomes: IOutcomeStore, failed_requests: IFailedRequestStore) -> None:
        self._cluster, self._outcomes, self._failed_requests = cluster, outcomes, failed_requests
        self._producer = make_request_producer(cluster)

    def check_topics(self) -> None:
        """Raise KafkaException unless the brokers answer and have the request topics: before a failure is removed."""
        for topic in self._cluster.topics.requests.values():
            error = self._producer.list_topics(topic, timeout=QUERY_TIMEOUT_S).topics[topic].error
            if error is not None and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(error)

    async def replay(self, requests: Sequence[tuple[FailedRequest, Outcome | None]]) -> ReplayResult:
        """Send each request whose stored outcome is still this failure, or that has none. Raises OutcomeStoreError."""
        result = ReplayResult()
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            removed = iter(await self._outcomes.remove([failure for _, failure in batch if failure is not None]))
            ready = []
            for request, failure in batch:
                if failure is None or next(removed):
                    ready.append(request)
                else:
                    result.changed.append(request)
            sent = self._send(ready)
            await self._failed_requests.remove(sent)
            result.sent += len(sent)
            result.unsent += [request for request in ready if request not in sent]
        return result

    def _send(self, requests: Sequence[FailedRequest]) -> list[FailedRequest]:
        sent: list[FailedRequest] = []
        for failed_request in requests:

            def on_delivery(error: KafkaError | None, _: Message, request: FailedRequest = failed_request) -> None:
                if error is None:
                    sent.append(request)

            topic = self._cluster.topics.requests[failed_request.stage]
            # A request that the client refuses counts as not sent. It must not keep others from being sent.
            with suppress(KafkaException, BufferError):
                self._producer.produce(
                    topic,
                    failed_request.value,
                    failed_request.key,
                    on_delivery=on_delivery,
                    headers=list(failed_request.headers) or None,
                )
        self._producer.flush(SEND_TIMEOUT_S + 1)
        return sent
