"""A store of failed requests in memory, and the contract of `IFailedRequestStore`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.fakes.outcome_store import UNUSUAL_IDS

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest, RagStage
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore
from modules.llm_platform.testing.waiting import Elapse

MAX_BYTES: Final = 10_000  # limit of the stores under test
TTL_DAYS: Final = 1.0
DAY_S: Final = 86_400


class MemoryFailedRequestStore(IFailedRequestStore):
    """Stores requests in this process. `clock`: seconds since 1970."""

    def __init__(
        self, max_bytes: int = MAX_BYTES, ttl_days: float = TTL_DAYS, clock: Callable[[], float] = time.time
    ) -> None:
        self._max_bytes, self._ttl_s, self._clock = max_bytes, ttl_days * DAY_S, clock
        self._requests: dict[tuple[RagStage, str, str], FailedRequest] = {}

    async def put(self, request: FailedRequest) -> None:
        key = request.stage, request.tenant, request.request_id
        if len(request.value) > self._max_bytes:
            return
        self._requests.pop(key, None)
        self._requests[key] = request._replace(stored_at=self._clock())
        while sum(len(request.value) for request in self._requests.values()) > self._max_bytes:
            del self._requests[next(iter(self._requests))]

    async def list(self) -> list[FailedRequest]:
        since = self._clock() - self._ttl_s
        return [request for request in self._requests.values() if request.stored_at >= since]

    async def remove(self, requests: Sequence[FailedRequest]) -> None:
        self._requests = {key: request for key, request in self._requests.items() if request not in requests}

    async def clean(self) -> int:
        recent = await self.list()
        removed = len(self._requests) - len(recent)
        self._requests = {key: request for key, request in self._requests.items() if request in recent}
        return removed


class FailedRequestStoreContract:
    """Subclass it and add the fixtures `failed` (empty, MAX_BYTES, TTL_DAYS) and `elapse` (advances its clock by seconds)."""

    async def test_request_is_returned_unchanged(self, failed: IFailedRequestStore) -> None:
        """Requests are returned oldest first, with key, headers and bytes of any kind."""
        requests = [
            FailedRequest("search", "a", "", bytes(range(256)), b"k\0", (("h", b"\xff\0"), ("h", None), ("ü\0", b""))),
            FailedRequest("answer", "a", "", b"{}"),
            FailedRequest("search", "a", "acme", b"{}"),
            *(FailedRequest("search", request_id, "t", b"{}") for request_id in UNUSUAL_IDS),
        ]
        for request in requests:
            await failed.put(request)
        assert [request._replace(stored_at=0.0) for request in await failed.list()] == requests

    async def test_later_failure_replaces_the_request(self, failed: IFailedRequestStore, elapse: Elapse) -> None:
        """The replacement counts as new, and removing the earlier version does not remove it."""
        await failed.put(FailedRequest("search", "a", "", b"1"))
        [earlier] = await failed.list()
        await elapse(1)
        await failed.put(FailedRequest("search", "a", "", b"2"))
        await failed.remove([earlier])
        [later] = await failed.list()
        assert later.value == b"2"
        assert later.stored_at > earlier.stored_at
        await failed.remove([later])
        assert await failed.list() == []

    async def test_oldest_requests_are_dropped(self, failed: IFailedRequestStore) -> None:
        """At most the maximal size is stored. A request that is larger is not stored, and drops no other."""
        for number in range(20):
            await failed.put(FailedRequest("search", f"{number}", "", b"x" * 1000))
        ids = [request.request_id for request in await failed.list()]
        assert 5 <= len(ids) <= MAX_BYTES // 1000
        assert ids == [f"{number}" for number in range(20 - len(ids), 20)]
        await failed.put(FailedRequest("search", "large", "", b"x" * (MAX_BYTES + 1)))
        assert [request.request_id for request in await failed.list()] == ids

    async def test_old_requests_are_removed(self, failed: IFailedRequestStore, elapse: Elapse) -> None:
        """Old requests are not returned even before they are removed."""
        await failed.put(FailedRequest("search", "old", "", b"{}"))
        await elapse(TTL_DAYS * DAY_S - 60)
        await failed.put(FailedRequest("search", "young", "", b"{}"))
        await elapse(120)
        assert [request.request_id for request in await failed.list()] == ["young"]
        assert await failed.clean() == 1
        assert await failed.clean() == 0
