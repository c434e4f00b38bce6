"""An outcome store in memory, and the contract of `IOutcomeStore`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal
from uuid import uuid4

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome, OutcomeFilter, RagStage, StoredOutcome
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.testing.waiting import Elapse, error_of

DAY_S: Final = 86_400
TTL_DAYS: Final = 7.0  # lifetime in the tested stores
CONCURRENT_CALLS: Final = 200
TOLERANCE_S: Final = 30.0  # difference on a busy machine with a real clock
UNUSUAL_IDS: Final = ("x" * 1000, "日本語 🙂", "a\0b", "'; DROP TABLE outcomes; --", " ", "a ", "A", "a", "%", "\n")


class MemoryOutcomeStore(IOutcomeStore):
    """Stores outcomes for `ttl_days` in this process. `clock`: seconds since 1970."""

    reach = "this process alone"

    def __init__(self, ttl_days: float = TTL_DAYS, clock: Callable[[], float] = time.time) -> None:
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._outcomes: dict[tuple[RagStage, str, str], tuple[float, Outcome]] = {}
        self._identity = uuid4().hex
        self._closed = False

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        self._check()
        entry = self._outcomes.get((stage, tenant, request_id))
        return entry and entry[1]

    async def put_if_absent(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        self._check()
        now = self._clock()
        return [
            self._outcomes.setdefault((outcome.stage, outcome.tenant, outcome.request_id), (now, outcome))[1]
            for outcome in outcomes
        ]

    async def scan(self, wanted: OutcomeFilter) -> AsyncIterator[StoredOutcome]:
        self._check()
        now = self._clock()
        for stored_at, outcome in reversed(list(self._outcomes.values())):
            age_s = now - stored_at
            is_recent = wanted.max_age_s is None or age_s <= wanted.max_age_s
            if age_s >= wanted.min_age_s and is_recent and _matches(outcome, wanted):
                yield StoredOutcome(outcome, stored_at)

    async def remove(self, outcomes: Sequence[Outcome]) -> list[bool]:
        self._check()
        removed = []
        for outcome in outcomes:
            position = outcome.stage, outcome.tenant, outcome.request_id
            stored = self._outcomes.get(position)
            removed.append(stored is not None and stored[1].body == outcome.body)
            if removed[-1]:
                del self._outcomes[position]
        return removed

    async def clean(self) -> int:
        self._check()
        before = self._clock() - self._ttl_s
        old = [position for position, (stored_at, _) in self._outcomes.items() if stored_at < before]
        for position in old:
            del self._outcomes[position]
        return len(old)

    async def probe(self) -> None:
        self._check()

    async def identity(self) -> str:
        self._check()
        return self._identity

    async def aclose(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise OutcomeStoreError("the outcome store is closed")


def _matches(outcome: Outcome, wanted: OutcomeFilter) -> bool:
    fields = ("stage", "kind", "request_id", "tenant")
    return all(getattr(wanted, name) in (None, getattr(outcome, name)) for name in fields)


class OutcomeStoreContract:
    """Subclass it and add the fixtures `store` (empty, with TTL_DAYS) and `elapse` (advances its clock by seconds)."""

    async def test_empty_store_returns_nothing(self, store: IOutcomeStore) -> None:
        """An empty store has no outcome; storing an empty list stores nothing."""
        assert await store.get("search", "a") is None
        assert await store.put_if_absent([]) == []

    async def test_outcome_is_returned_unchanged(self, store: IOutcomeStore) -> None:
        """All fields and bytes of a result, a failure and a large outcome are unchanged."""
        result = sample_outcome("a", body=bytes(range(256)) * 4000)
        failed = sample_outcome("b", body=b"", kind="failed")
        assert await store.put_if_absent([result, failed]) == [result, failed]
        assert await store.get("search", "a") == result
        assert await store.get("search", "b") == failed

    async def test_get_many_returns_outcomes_in_order(self, store: IOutcomeStore) -> None:
        """Each result is that of `get`, in order, also for a repeated key; no keys return an empty list."""
        outcomes = [sample_outcome(f"{number}", body=b"%d" % number) for number in range(CONCURRENT_CALLS)]
        await store.put_if_absent(outcomes)
        keys = [(outcome.stage, outcome.request_id, outcome.tenant) for outcome in outcomes]
        assert await store.get_many([("answer", "0", ""), *keys, keys[7], ("search", "0", "x")]) == [
            None,
            *outcomes,
            outcomes[7],
            None,
        ]
        assert await store.get_many([]) == []

    async def test_first_outcome_is_final(self, store: IOutcomeStore) -> None:
        """A second outcome of a request is not stored; the first one is returned, also within one call."""
        first, second, third = (sample_outcome("a", body=body) for body in (b"1", b"2", b"3"))
        assert await store.put_if_absent([first, second]) == [first, first]
        assert await store.put_if_absent([third]) == [first]
        assert await store.get("search", "a") == first

    async def test_stages_are_independent(self, store: IOutcomeStore) -> None:
        """The same id in the other stage is another request."""
        search = sample_outcome("a", body=b"hits")
        answer = sample_outcome("a", body=b"words", stage="answer")
        assert await store.put_if_absent([search]) == [search]
        assert await store.get("answer", "a") is None
        assert await store.put_if_absent([answer]) == [answer]
        assert await store.get("search", "a") == search

    async def test_tenants_are_independent(self, store: IOutcomeStore) -> None:
        """The same id of another tenant, or of none, is another request, also if tenant and id concatenate to the same text."""
        owners = ("", "a", "ab", "ünï", "ü", "1", *UNUSUAL_IDS)
        positions = [
            (tenant, request_id) for tenant in dict.fromkeys(owners) for request_id in ("s1", "bs1", "a", "\0s1")
        ]
        outcomes = [
            sample_outcome(request_id, body=repr((tenant, request_id)).encode(), tenant=tenant)
            for tenant, request_id in positions
        ]
        assert await store.put_if_absent(outcomes) == outcomes
        assert [await store.get("search", request_id, tenant) for tenant, request_id in positions] == outcomes
        assert await store.put_if_absent([sample_outcome("s1", body=b"later", tenant="a")]) == [
            outcomes[positions.index(("a", "s1"))]
        ]
        assert await store.get("search", "s1", "nobody") is None

    async def test_ids_can_be_any_text(self, store: IOutcomeStore) -> None:
        """Ids are compared exactly."""
        outcomes = [sample_outcome(request_id, body=request_id.encode()) for request_id in UNUSUAL_IDS]
        assert await store.put_if_absent(outcomes) == outcomes
        assert [await store.get("search", request_id) for request_id in UNUSUAL_IDS] == outcomes

    async def test_concurrent_calls_agree_on_the_first_outcome(self, store: IOutcomeStore) -> None:
        """Concurrent calls for one request return the same outcome; other requests get their own."""
        same = [sample_outcome("same", body=b"%d" % number) for number in range(CONCURRENT_CALLS)]
        others = [sample_outcome(f"other {number}", body=b"%d" % number) for number in range(CONCURRENT_CALLS)]
        answers = await asyncio.gather(
            *(store.put_if_absent([one, other]) for one, other in zip(same, others, strict=True))
        )
        assert len({one.body for one, _ in answers}) == 1
        assert [other for _, other in answers] == others
        assert await store.get("search", "same") == answers[0][0]

    async def test_cancelled_call_does_not_affect_others(self, store: IOutcomeStore) -> None:
        """The outcomes of calls that were not cancelled are stored."""
        outcomes = [sample_outcome(f"{number}", body=b"%d" % number) for number in range(CONCURRENT_CALLS)]
        tasks = [asyncio.ensure_future(store.put_if_absent([outcome])) for outcome in outcomes]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        for task in tasks[::2]:
            with suppress(asyncio.CancelledError):
                await task
        assert [await task for task in tasks[1::2]] == [[outcome] for outcome in outcomes[1::2]]
        assert [await store.get("search", outcome.request_id) for outcome in outcomes[1::2]] == outcomes[1::2]

    async def test_clean_removes_expired_outcomes(self, store: IOutcomeStore, elapse: Elapse) -> None:
        """`clean` removes expired outcomes only; their requests are new ones afterwards."""
        old, young = sample_outcome("old", body=b"1"), sample_outcome("young", body=b"2")
        await store.put_if_absent([old])
        assert await store.clean() == 0
        await elapse(TTL_DAYS * DAY_S - 60)
        await store.put_if_absent([young])
        assert await store.get("search", "old") == old
        await elapse(120)
        assert await store.clean() == 1
        assert await store.get("search", "old") is None
        assert await store.get("search", "young") == young
        again = sample_outcome("old", body=b"3")
        assert await store.put_if_absent([again]) == [again]

    async def test_scan_yields_matching_outcomes(self, store: IOutcomeStore, elapse: Elapse) -> None:
        """Outcomes are returned newest first, selected by each field and by age, over several pages."""
        old = [sample_outcome(f"{number}", body=b"%d" % number) for number in range(CONCURRENT_CALLS)]
        await store.put_if_absent(old)
        await elapse(3600)
        failed = sample_outcome("f", body=b"{}", kind="failed")
        answer = sample_outcome("a", body=b"[]", stage="answer")
        owned = sample_outcome("f", body=b"owned", tenant="acme")
        for outcome in (failed, answer, owned):
            await store.put_if_absent([outcome])
            await elapse(1)
        found = await self._scan(store)
        assert found[:3] == [owned, answer, failed]
        assert {outcome.request_id for outcome in found[3:]} == {outcome.request_id for outcome in old}
        assert len(found) == len(old) + 3
        assert await self._scan(store, kind="failed") == [failed]
        assert await self._scan(store, stage="answer") == [answer]
        assert await self._scan(store, request_id="f") == [owned, failed]
        assert await self._scan(store, request_id="f", tenant="") == [failed]
        assert await self._scan(store, tenant="acme") == [owned]
        assert await self._scan(store, max_age_s=1800) == [owned, answer, failed]
        assert len(await self._scan(store, min_age_s=1800)) == len(old)
        assert await self._scan(store, request_id="nobody", tenant="") == []

    async def test_scan_returns_the_time(self, store: IOutcomeStore, elapse: Elapse) -> None:
        """The times are seconds since 1970."""
        await store.put_if_absent([sample_outcome("a", body=b"1")])
        await elapse(100)
        await store.put_if_absent([sample_outcome("b", body=b"2")])
        later, earlier = [outcome.stored_at async for outcome in store.scan(OutcomeFilter())]
        assert 99 <= later - earlier < 100 + TOLERANCE_S

    async def test_removed_outcome_makes_the_request_new(self, store: IOutcomeStore) -> None:
        """An outcome that was replaced meanwhile is kept, and so are others. A second removal removes nothing."""
        kept = [sample_outcome(f"{number}", body=b"1") for number in range(3)]
        await store.put_if_absent(kept)
        assert await store.remove([kept[0], sample_outcome("1", body=b"other"), sample_outcome("x", body=b"1")]) == [
            True,
            False,
            False,
        ]
        assert await store.remove([kept[0]]) == [False]
        assert await store.remove([]) == []
        assert await store.get("search", "1") == kept[1]
        again = sample_outcome("0", body=b"2")
        assert await store.put_if_absent([again]) == [again]
        assert await store.remove([kept[0]]) == [False]

    @staticmethod
    async def _scan(store: IOutcomeStore, **wanted: Any) -> list[Outcome]:
        return [outcome.outcome async for outcome in store.scan(OutcomeFilter(**wanted))]

    async def test_reading_does_not_extend_the_lifetime(self, store: IOutcomeStore, elapse: Elapse) -> None:
        """The lifetime of an outcome begins when it is first stored."""
        outcome = sample_outcome("a", body=b"1")
        await store.put_if_absent([outcome])
        await elapse(TTL_DAYS * DAY_S - 60)
        await store.put_if_absent([outcome])
        await store.get("search", "a")
        await elapse(120)
        assert await store.clean() == 1

    async def test_probe_stores_nothing(self, store: IOutcomeStore) -> None:
        """`probe` succeeds while outcomes can be stored, and leaves nothing to clean."""
        await store.probe()
        await store.probe()
        assert await store.clean() == 0

    async def test_identity_is_stable(self, store: IOutcomeStore) -> None:
        """The identity does not change and is alphanumeric."""
        identity = await store.identity()
        assert identity.isalnum()
        await store.put_if_absent([sample_outcome("a", body=b"1")])
        assert await store.identity() == identity

    async def test_closed_store_raises_errors(self, store: IOutcomeStore) -> None:
        """A store can be closed twice; calls after that raise OutcomeStoreError."""
        await store.put_if_absent([sample_outcome("a", body=b"1")])
        await store.aclose()
        await store.aclose()
        outcome = sample_outcome("b", body=b"1")
        for call in (store.get("search", "a"), store.put_if_absent([outcome]), store.probe(), store.identity()):
            await error_of(call, OutcomeStoreError)

    def test_reach_is_described(self, store: IOutcomeStore) -> None:
        """`reach` says which processes share the store."""
        assert store.reach


def sample_outcome(
    request_id: str,
    *,
    body: bytes,
    stage: RagStage = "search",
    kind: Literal["result", "failed"] = "result",
    tenant: str = "",
) -> Outcome:
    """Return an outcome for tests."""
    return Outcome(stage=stage, request_id=request_id, kind=kind, body=body, request_sha256="0" * 64, tenant=tenant)
