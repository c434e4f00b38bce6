"""The promises that every store of outcomes keeps, and one in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias
from uuid import uuid4

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome, RagStage
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore

Elapse: TypeAlias = Callable[[float], Awaitable[None]]

DAY_S: Final = 86_400
KEPT_DAYS: Final = 7.0  # by the stores of the contract
AT_ONCE: Final = 200
ODD_IDS: Final = ("x" * 1000, "日本語 🙂", "a\0b", "'; DROP TABLE outcomes; --", " ", "a ", "A", "a", "%", "\n")


class MemoryOutcomeStore(IOutcomeStore):
    """Keeps what it is given for `ttl_days`, in this process. `clock`: seconds since 1970."""

    reach = "this process alone"

    def __init__(self, ttl_days: float = KEPT_DAYS, clock: Callable[[], float] = time.time) -> None:
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._kept: dict[tuple[RagStage, str, str], tuple[float, Outcome]] = {}
        self._identity = uuid4().hex
        self._closed = False

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        self._check()
        found = self._kept.get((stage, tenant, request_id))
        return found and found[1]

    async def keep(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        self._check()
        now = self._clock()
        return [self._kept.setdefault((each.stage, each.tenant, each.request_id), (now, each))[1] for each in outcomes]

    async def clean(self) -> int:
        self._check()
        before = self._clock() - self._ttl_s
        old = [place for place, (kept_at, _) in self._kept.items() if kept_at < before]
        for place in old:
            del self._kept[place]
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
            raise OutcomeStoreError("the store of outcomes is closed")


class OutcomeStoreContract:
    """Subclass, give `store` (an empty one of KEPT_DAYS) and `elapse` (lets seconds pass on its clock)."""

    async def test_what_was_not_kept_is_not_there(self, store: IOutcomeStore) -> None:
        """An empty store knows nobody, and keeping nothing keeps nothing."""
        assert await store.get("search", "a") is None
        assert await store.keep([]) == []

    async def test_what_was_kept_comes_back(self, store: IOutcomeStore) -> None:
        """Every field and every byte is the same, results and failures alike, and large ones."""
        result = made_up_outcome("a", body=bytes(range(256)) * 4000)
        failed = made_up_outcome("b", body=b"", kind="failed")
        assert await store.keep([result, failed]) == [result, failed]
        assert await store.get("search", "a") == result
        assert await store.get("search", "b") == failed

    async def test_many_are_looked_up_at_once(self, store: IOutcomeStore) -> None:
        """For each what `get` says, in their order, also for one that is asked for twice; for none nothing."""
        kept = [made_up_outcome(f"{number}", body=b"%d" % number) for number in range(AT_ONCE)]
        await store.keep(kept)
        wanted = [(each.stage, each.request_id, each.tenant) for each in kept]
        assert await store.get_many([("answer", "0", ""), *wanted, wanted[7], ("search", "0", "x")]) == [
            None, *kept, kept[7], None,
        ]  # fmt: skip
        assert await store.get_many([]) == []

    async def test_the_first_one_stays(self, store: IOutcomeStore) -> None:
        """A second outcome of a request is not kept: the answer is the first one, also within one call."""
        first, second, third = (made_up_outcome("a", body=body) for body in (b"1", b"2", b"3"))
        assert await store.keep([first, second]) == [first, first]
        assert await store.keep([third]) == [first]
        assert await store.get("search", "a") == first

    async def test_stages_do_not_meet(self, store: IOutcomeStore) -> None:
        """The same id in the other stage is another request."""
        search = made_up_outcome("a", body=b"hits")
        answer = made_up_outcome("a", body=b"words", stage="answer")
        assert await store.keep([search]) == [search]
        assert await store.get("answer", "a") is None
        assert await store.keep([answer]) == [answer]
        assert await store.get("search", "a") == search

    async def test_tenants_do_not_meet(self, store: IOutcomeStore) -> None:
        """The same id of another tenant, or of none, is another request, also where tenant and id together read the same."""
        owners = ("", "a", "ab", "ünï", "ü", "1", *ODD_IDS)
        places = [(tenant, each) for tenant in dict.fromkeys(owners) for each in ("s1", "bs1", "a", "\0s1")]
        kept = [made_up_outcome(each, body=repr((tenant, each)).encode(), tenant=tenant) for tenant, each in places]
        assert await store.keep(kept) == kept
        assert [await store.get("search", each, tenant) for tenant, each in places] == kept
        assert await store.keep([made_up_outcome("s1", body=b"later", tenant="a")]) == [kept[places.index(("a", "s1"))]]
        assert await store.get("search", "s1", "nobody") is None

    async def test_ids_are_any_text(self, store: IOutcomeStore) -> None:
        """An id is compared character by character, whatever the characters are."""
        kept = [made_up_outcome(each, body=each.encode()) for each in ODD_IDS]
        assert await store.keep(kept) == kept
        assert [await store.get("search", each) for each in ODD_IDS] == kept

    async def test_many_at_once_agree(self, store: IOutcomeStore) -> None:
        """Of many who keep the same request together all are told the same one; those of other requests get their own."""
        same = [made_up_outcome("same", body=b"%d" % number) for number in range(AT_ONCE)]
        others = [made_up_outcome(f"other {number}", body=b"%d" % number) for number in range(AT_ONCE)]
        answers = await asyncio.gather(*(store.keep([one, other]) for one, other in zip(same, others, strict=True)))
        assert len({one.body for one, _ in answers}) == 1
        assert [other for _, other in answers] == others
        assert await store.get("search", "same") == answers[0][0]

    async def test_cancelling_is_safe(self, store: IOutcomeStore) -> None:
        """Those who are cancelled while they wait harm nobody else: what the others kept is there."""
        kept = [made_up_outcome(f"{number}", body=b"%d" % number) for number in range(AT_ONCE)]
        tasks = [asyncio.ensure_future(store.keep([each])) for each in kept]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        for task in tasks[::2]:
            with suppress(asyncio.CancelledError):
                await task
        assert [await task for task in tasks[1::2]] == [[each] for each in kept[1::2]]
        assert [await store.get("search", each.request_id) for each in kept[1::2]] == kept[1::2]

    async def test_old_ones_are_cleaned(self, store: IOutcomeStore, elapse: Elapse) -> None:
        """Cleaning removes what is older than outcomes are kept and nothing else; after that the request is a new one."""
        old, young = made_up_outcome("old", body=b"1"), made_up_outcome("young", body=b"2")
        await store.keep([old])
        assert await store.clean() == 0
        await elapse(KEPT_DAYS * DAY_S - 60)
        await store.keep([young])
        assert await store.get("search", "old") == old
        await elapse(120)
        assert await store.clean() == 1
        assert await store.get("search", "old") is None
        assert await store.get("search", "young") == young
        again = made_up_outcome("old", body=b"3")
        assert await store.keep([again]) == [again]

    async def test_asking_again_does_not_make_it_younger(self, store: IOutcomeStore, elapse: Elapse) -> None:
        """An outcome is kept from its first day on, however often it is asked for."""
        outcome = made_up_outcome("a", body=b"1")
        await store.keep([outcome])
        await elapse(KEPT_DAYS * DAY_S - 60)
        await store.keep([outcome])
        await store.get("search", "a")
        await elapse(120)
        assert await store.clean() == 1

    async def test_a_probe_leaves_nothing_behind(self, store: IOutcomeStore) -> None:
        """It raises nothing while outcomes can be kept, and there is nothing to clean afterwards."""
        await store.probe()
        await store.probe()
        assert await store.clean() == 0

    async def test_it_has_an_identity(self, store: IOutcomeStore) -> None:
        """The same each time, of letters and digits: it travels in places that take no more."""
        identity = await store.identity()
        assert identity.isalnum()
        await store.keep([made_up_outcome("a", body=b"1")])
        assert await store.identity() == identity

    async def test_closing(self, store: IOutcomeStore) -> None:
        """Closing twice is closing once; a closed store says so."""
        await store.keep([made_up_outcome("a", body=b"1")])
        await store.aclose()
        await store.aclose()
        assert await _refuses(store.get("search", "a"))
        assert await _refuses(store.keep([made_up_outcome("b", body=b"1")]))
        assert await _refuses(store.probe())
        assert await _refuses(store.identity())

    def test_it_says_who_shares_it(self, store: IOutcomeStore) -> None:
        """People who start a worker read how far its memory reaches."""
        assert store.reach


async def _refuses(call: Awaitable[object]) -> bool:
    try:
        await call
    except OutcomeStoreError:
        return True
    return False


def made_up_outcome(
    request_id: str,
    *,
    body: bytes,
    stage: RagStage = "search",
    kind: Literal["result", "failed"] = "result",
    tenant: str = "",
) -> Outcome:
    """An outcome for tests."""
    return Outcome(stage=stage, request_id=request_id, kind=kind, body=body, request_sha256="0" * 64, tenant=tenant)
