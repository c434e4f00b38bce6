"""Bytes in, exactly one outcome out."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Hit,
    Outcome,
    RagAnswer,
    RagCitation,
    RagHits,
    RagQuestion,
    RagSearch,
    RagStage,
)
from modules.llm_platform.domain.exceptions import (
    EmbeddingError,
    LLMConnectionError,
    OutcomeStoreError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker.handler import Answer, HandlerOptions, RagHandler, Search
from modules.llm_platform.testing import MemoryOutcomeStore
from modules.llm_platform.testing.patience import becomes

KEY, HEADERS = b"\xff key", (("traceparent", b"00-4bf9"), ("tenant", b"acme"), ("tenant", None))
REUSED = ("request_id_reused", b"true")
HIT = Hit(doc_id="doc-10", score=0.92, title="Using vector databases", snippet="Vector stores …", source="blog")
SEARCH = {"request_id": "search-001", "query": "vector databases"}
LARGE_METADATA = {"padding": "x" * 5000}
QUESTION = {"request_id": "answer-001", "question": "How?"}


@dataclass
class Desk:
    """Stages that give what they are told to, one thing after the other and the last for ever; an exception is raised."""

    gives: list[Any] = field(default_factory=lambda: [RagHits(hits=(HIT,))])
    asked: list[RagSearch | RagQuestion] = field(default_factory=list)
    waits_for: asyncio.Event | None = None

    async def give(self, asked: RagSearch | RagQuestion) -> Any:
        self.asked.append(asked)
        if self.waits_for is not None:
            await self.waits_for.wait()
        given = self.gives.pop(0) if len(self.gives) > 1 else self.gives[0]
        if isinstance(given, BaseException):
            raise given
        return given


class Naps(list[float]):
    """Sleeps that take no time."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def handler_of(desk: Desk, store: MemoryOutcomeStore | None = None, **more: Any) -> RagHandler:
    search: Search = desk.give
    answer: Answer = desk.give
    return RagHandler(search, answer, store or MemoryOutcomeStore(), **{"sleep": Naps(), **more})


def record(value: Any, stage: RagStage = "search", offset: int = 0) -> IncomingRecord:
    data = value if isinstance(value, (bytes, type(None))) else json.dumps(value, ensure_ascii=False).encode()
    return IncomingRecord(f"rag_{stage}_request", 2, offset, KEY, data, HEADERS)


def body(told: OutgoingRecord) -> dict[str, Any]:
    found = json.loads(told.value)
    assert isinstance(found, dict)
    return found


class TestWhatIsTold:
    """The messages of the contract."""

    async def test_a_search_result(self) -> None:
        """In its topic, with the key and the headers of the request, without what is not there."""
        ticks = iter((10.0, 10.1204))
        handler = handler_of(Desk(), clock=lambda: next(ticks))
        value = {**SEARCH, "trace_id": "trace-abc", "metadata": {"tenant": "acme"}, "unknown": 1}
        told = await handler.handle(record(value))
        hit = {name: getattr(HIT, name) for name in ("doc_id", "score", "title", "snippet", "source")}
        assert body(told) == {
            "request_id": "search-001", "trace_id": "trace-abc", "hits": [hit], "latency_ms": 120,
            "metadata": {"tenant": "acme"},
        }  # fmt: skip
        assert (told.topic, told.key, told.headers) == ("rag_search_result", KEY, HEADERS)

    async def test_an_answer(self) -> None:
        """With its citations, and what did not go as asked."""
        cited = RagCitation(doc_id="doc-10", title="Using vector databases", url="https://example.com/blog/vector")
        late = Degraded(component="index", reason="vector_store: not reachable")
        given = RagAnswer(answer="Run it. [1]", citations=(cited, RagCitation(doc_id="b")), degraded=(late,))
        told = await handler_of(Desk([given])).handle(record(QUESTION, "answer"))
        found = body(told)
        assert found.pop("latency_ms") >= 0
        assert found == {
            "request_id": "answer-001",
            "answer": "Run it. [1]",
            "citations": [cited.model_dump(), {"doc_id": "b"}],
            "degraded": [{"component": "index", "reason": "vector_store: not reachable"}],
        }
        assert told.topic == "rag_answer_result"

    async def test_a_failure(self) -> None:
        """The contract's own example."""
        value = {"request_id": "search-001", "trace_id": "trace-abc", "metadata": {"tenant": "acme"}}
        told = await handler_of(Desk()).handle(record(value))
        assert body(told) == {
            "request_id": "search-001", "trace_id": "trace-abc", "stage": "search", "error_type": "non_recoverable",
            "error_code": "invalid_payload", "error_message": "query is empty or missing",
            "details": {"field": "query", "reason": "empty_or_missing"}, "metadata": {"tenant": "acme"},
        }  # fmt: skip
        assert (told.topic, told.key, told.headers) == ("rag_failed", KEY, HEADERS)

    async def test_without_a_readable_id(self) -> None:
        """The failure bears the place of the record; nothing is kept, since nobody can ask for it again."""
        store = MemoryOutcomeStore()
        handler = handler_of(Desk(), store)
        told = await handler.handle(record(b"{", "answer", offset=17))
        assert body(told)["request_id"] == "unparsable:rag_answer_request-2-17"
        assert await store.get("answer", body(told)["request_id"]) is None
        assert await handler.handle(record(b"{", "answer", offset=17)) == told
        assert handler.counts.outcomes == {("answer", "invalid_payload"): 2}

    async def test_text_is_utf8(self) -> None:
        """Letters are written as they are; half a surrogate pair of a stage's text cannot be, and is replaced."""
        desk = Desk([RagAnswer(answer="Größe 漢字 🙂 \ud800.")])
        told = await handler_of(desk).handle(record({**QUESTION, "request_id": "é"}, "answer"))
        assert "Größe 漢字 🙂 ?.".encode() in told.value
        assert body(told)["request_id"] == "é"

    async def test_a_topic_that_is_none_of_ours_is_a_mistake_of_the_caller(self) -> None:
        """The worker subscribes to nothing else."""
        with pytest.raises(KeyError):
            await handler_of(Desk()).handle(replace(record(SEARCH), topic="other"))


class TestOneOutcomeForOneRequest:
    """The same id, per stage, is the same request."""

    @pytest.mark.parametrize("first", [RagHits(hits=(HIT,)), VectorStoreConfigError("run llm-platform index")])
    async def test_again_is_the_first_outcome_again(self, first: Any) -> None:
        """Byte for byte, results and failures, also from another worker; the stage is not asked again."""
        store, desk = MemoryOutcomeStore(), Desk([first, RagHits(hits=())])
        one, other = handler_of(desk, store), handler_of(desk, store)
        told = await one.handle(record(SEARCH))
        again = replace(record(SEARCH, offset=9), key=None, headers=(("traceparent", b"another"),))
        for handler in (one, other):
            assert await handler.handle(again) == replace(told, key=None, headers=again.headers)
        assert len(desk.asked) == 1
        assert other.counts.repeated == {"search": 1}
        assert not other.counts.outcomes
        assert not one.counts.reused

    async def test_another_payload_under_the_same_id(self, caplog: pytest.LogCaptureFixture) -> None:
        """It gets the first outcome, with a header; that is logged without a word of it, and counted."""
        handler = handler_of(Desk())
        told = await handler.handle(record(SEARCH))
        other = {**SEARCH, "query": "secret question"}
        with caplog.at_level(logging.WARNING):
            again = await handler.handle(record(other))
        assert again == replace(told, headers=(*HEADERS, REUSED))
        assert handler.counts.reused == {"search": 1}
        assert [entry.message for entry in caplog.records if "request_id_reused" in entry.message]
        assert "secret" not in caplog.text

    @pytest.mark.parametrize("broken", [{"query": ""}, {"top_k": 0}])
    async def test_a_broken_payload_under_a_known_id(self, broken: dict[str, Any]) -> None:
        """It is not even a failure of its own: the first outcome stands."""
        handler = handler_of(Desk())
        told = await handler.handle(record(SEARCH))
        assert (await handler.handle(record({**SEARCH, **broken}))).value == told.value

    async def test_stages_have_ids_of_their_own(self) -> None:
        """A search and a question may share an id."""
        handler = handler_of(Desk([RagHits(hits=()), RagAnswer(answer="yes")]))
        assert body(await handler.handle(record({**SEARCH, "request_id": "a"})))["hits"] == []
        assert body(await handler.handle(record({**QUESTION, "request_id": "a"}, "answer")))["answer"] == "yes"

    async def test_tenants_have_ids_of_their_own(self) -> None:
        """Where requests name a tenant, an id of one is not the other's: in the store, and while it is in flight."""
        desk = Desk([RagHits(hits=(HIT,)), RagHits(hits=())], waits_for=asyncio.Event())
        store = MemoryOutcomeStore()
        handler = handler_of(desk, store, options=HandlerOptions(tenant_field="tenant"))
        acme, globex = (record({**SEARCH, "metadata": {"tenant": name}}) for name in ("acme", "globex"))
        tasks = [asyncio.ensure_future(handler.handle(each)) for each in (acme, globex, acme, globex)]
        assert await becomes(lambda: len(desk.asked) == 2, 5)
        assert desk.waits_for
        desk.waits_for.set()
        first, second, *again = await asyncio.gather(*tasks)
        assert again == [first, second]
        assert len(body(first)["hits"]) == 1
        assert body(second)["hits"] == []
        assert [asked.filters for asked in desk.asked] == [{"tenant": ("acme",)}, {"tenant": ("globex",)}]
        other = handler_of(Desk(), store, options=HandlerOptions(tenant_field="tenant"))
        assert [await other.handle(acme), await other.handle(globex)] == [first, second]
        assert not other.counts.reused

    async def test_a_failure_is_its_tenants_too(self) -> None:
        """Whatever is wrong with the rest of a request: the tenant that can be read gets its first outcome again."""
        handler = handler_of(Desk(), options=HandlerOptions(tenant_field="tenant"))
        broken = record({**SEARCH, "query": "", "metadata": {"tenant": "acme"}})
        told = await handler.handle(broken)
        assert body(told)["details"]["reason"] == "empty_or_missing"
        good = await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}}))
        assert good == replace(told, headers=(*HEADERS, REUSED))
        assert body(await handler.handle(record({**SEARCH, "metadata": {"tenant": "globex"}})))["hits"]

    @pytest.mark.parametrize("metadata", [None, {}, {"tenant": ""}, {"tenant": 5}, {"tenant": "x" * 1001}])
    async def test_who_names_no_tenant_has_no_ids(self, metadata: Any) -> None:
        """It is refused without asking a stage, nothing of it is kept, and no outcome of anybody is told to it."""
        desk = Desk()
        handler = handler_of(desk, options=HandlerOptions(tenant_field="tenant"))
        good = await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}}))
        nobody = record({**SEARCH, "metadata": metadata, "trace_id": "mine"})
        refused = await handler.handle(nobody)
        assert body(refused)["error_code"] == "invalid_payload"
        assert body(refused)["details"]["path"] == "metadata.tenant"
        assert await handler.handle(nobody) == refused
        assert body(await handler.handle(record({**SEARCH, "metadata": metadata}))).get("trace_id") is None
        assert len(desk.asked) == 1
        assert await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}})) == good

    async def test_without_the_setting_a_tenant_is_no_matter(self) -> None:
        """Metadata take no part: an id is one id, whoever is named."""
        handler = handler_of(Desk())
        told = await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}}))
        again = await handler.handle(record({**SEARCH, "metadata": {"tenant": "globex"}}))
        assert again == replace(told, headers=(*HEADERS, REUSED))

    async def test_a_header_of_ours_is_not_taken_from_a_request(self) -> None:
        """What we did not say is not told as if we had."""
        forged = replace(record(SEARCH), headers=(REUSED, ("x", b"1")))
        assert (await handler_of(Desk()).handle(forged)).headers == (("x", b"1"),)

    async def test_a_duplicate_waits_for_the_first(self) -> None:
        """While the first is in flight the stage is asked once, and all are told the same."""
        desk = Desk(waits_for=asyncio.Event())
        handler = handler_of(desk)
        values: Sequence[Any] = (SEARCH, SEARCH, {**SEARCH, "query": "other"})
        tasks = [asyncio.ensure_future(handler.handle(record(value))) for value in values]
        assert await becomes(lambda: bool(desk.asked), 1)
        assert desk.waits_for
        desk.waits_for.set()
        first, same, other = await asyncio.gather(*tasks)
        assert len(desk.asked) == 1
        assert first == same
        assert other == replace(first, headers=(*HEADERS, REUSED))

    async def test_a_duplicate_takes_over_from_one_that_was_given_up(self) -> None:
        """Partitions move while a request is worked on: those who wait for it are answered all the same."""
        desk = Desk(waits_for=asyncio.Event())
        handler = handler_of(desk)
        tasks = [asyncio.ensure_future(handler.handle(record(SEARCH, offset=number))) for number in range(4)]
        assert await becomes(lambda: len(desk.asked) == 1, 1)
        for place in (0, 2):
            tasks[place].cancel()
        assert await becomes(lambda: len(desk.asked) == 2, 1)
        assert desk.waits_for
        desk.waits_for.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in ended] == [True, False, True, False]
        assert ended[1] == ended[3]
        assert len(desk.asked) == 2

    async def test_two_workers_at_once_tell_the_same(self) -> None:
        """Both compute when both saw nothing; the store decides, and both tell what it kept."""
        store = MemoryOutcomeStore()
        slow, quick = Desk(waits_for=asyncio.Event()), Desk([RagHits(hits=())])
        behind = handler_of(slow, store)
        task = asyncio.ensure_future(behind.handle(record(SEARCH)))
        assert await becomes(lambda: bool(slow.asked), 1)
        told = await handler_of(quick, store).handle(record(SEARCH))
        assert slow.waits_for
        slow.waits_for.set()
        assert await task == told
        assert body(told)["hits"] == []
        assert behind.counts.repeated == {"search": 1}

    async def test_a_cancelled_request_leaves_nothing_behind(self) -> None:
        """It has no outcome, and is handled like new when it comes again."""
        desk, store = Desk(waits_for=asyncio.Event()), MemoryOutcomeStore()
        handler = handler_of(desk, store)
        task = asyncio.ensure_future(handler.handle(record(SEARCH)))
        assert await becomes(lambda: bool(desk.asked), 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.get("search", "search-001") is None
        desk.waits_for = None
        assert (await handler.handle(record(SEARCH))).topic == "rag_search_result"


class TestWhatGoesWrong:
    """Failures of stages and of the store."""

    async def test_a_recoverable_cause_is_tried_again(self) -> None:
        """Inside the deadline, with growing waits; the sender hears of the result alone."""
        naps, desk = Naps(), Desk([VectorStoreError(), EmbeddingError(), RagHits(hits=())])
        told = await handler_of(desk, sleep=naps).handle(record(SEARCH))
        assert told.topic == "rag_search_result"
        assert len(naps) == 2
        assert naps[0] < naps[1]

    async def test_after_the_last_try_there_is_one_failure(self) -> None:
        """Of the last cause."""
        desk = Desk([LLMConnectionError("the model is not reachable: try again")])
        found = body(await handler_of(desk).handle(record(QUESTION, "answer")))
        assert (found["error_code"], found["error_type"]) == ("llm_failed", "recoverable")
        assert found["error_message"] == "the model is not reachable: try again"
        assert found["details"] == {"cause": "llm_connection"}
        assert len(desk.asked) == 5

    async def test_what_cannot_be_recovered_is_not_tried_again(self) -> None:
        """A missing setting stays missing."""
        desk = Desk([VectorStoreConfigError("run llm-platform index")])
        found = body(await handler_of(desk).handle(record(SEARCH)))
        assert (found["error_code"], found["error_type"]) == ("retrieval_failed", "non_recoverable")
        assert len(desk.asked) == 1

    async def test_the_deadline(self) -> None:
        """A stage that hangs is given up."""
        desk = Desk(waits_for=asyncio.Event())
        found = body(await handler_of(desk, options=HandlerOptions(timeout_s=0.02)).handle(record(SEARCH)))
        assert (found["error_code"], found["error_type"]) == ("timeout", "recoverable")

    @pytest.mark.parametrize(
        "bug", [KeyError("sk-secret"), RecursionError("sk-secret"), asyncio.CancelledError("sk-secret")]
    )
    async def test_a_bug_of_a_stage_stays_its_own(self, bug: BaseException, caplog: pytest.LogCaptureFixture) -> None:
        """The sender hears that it happened, the log where; also when a stage cancels itself. The next one is answered."""
        handler = handler_of(Desk([bug, RagHits(hits=())]))
        found = body(await handler.handle(record(SEARCH)))
        assert (found["error_code"], found["error_type"]) == ("internal", "non_recoverable")
        assert "sk-secret" not in json.dumps(found)
        assert "Traceback" in caplog.text
        assert (await handler.handle(record({**SEARCH, "request_id": "b"}))).topic == "rag_search_result"

    @pytest.mark.parametrize("score", [float("nan"), float("inf")])
    async def test_a_score_that_is_no_number(self, score: float) -> None:
        """JSON has no word for it: a failure, not broken JSON."""
        desk = Desk([RagHits(hits=(Hit(doc_id="a", score=score),))])
        handler = handler_of(desk)
        assert body(await handler.handle(record(SEARCH)))["error_code"] == "internal"
        assert handler.counts.outcomes == {("search", "internal"): 1}

    async def test_without_the_store_nothing_is_told(self) -> None:
        """It is waited for before the stage is asked and before the outcome is told, and nothing is computed twice."""
        naps, desk, store = Naps(), Desk(), FlakyStore([True, True, True, False, True, False])
        handler = handler_of(desk, store, sleep=naps)
        told = await handler.handle(record(SEARCH))
        assert await store.get("search", "search-001") is not None
        assert told.topic == "rag_search_result"
        assert (len(naps), handler.counts.store_waits, len(desk.asked)) == (3, 3, 1)


    async def test_the_log_says_which_request_failed_and_why(self, caplog: pytest.LogCaptureFixture) -> None:
        """Its id, its trace and the cause; a warning where a setting is to blame."""
        caplog.set_level(logging.INFO)
        handler = handler_of(Desk([VectorStoreConfigError("index first"), EmbeddingError("away")]))
        for number in range(2):
            await handler.handle(record({**SEARCH, "request_id": f"r-{number}", "trace_id": "trace-abc"}))
        await handler.handle(record({"request_id": "r-2", "trace_id": "t" * 5000}))
        lines = [entry for entry in caplog.records if entry.message == "a request failed"]
        assert [(each.levelname, each.__dict__["request_id"], each.__dict__["cause"]) for each in lines] == [
            ("WARNING", "r-0", "vector_store_config"),
            ("INFO", "r-1", "embedding"),
            ("INFO", "r-2", "empty_or_missing"),
        ]
        assert {each.__dict__["trace_id"][:200] for each in lines} == {"trace-abc", "t" * 200}
        assert len(lines[2].__dict__["trace_id"]) == 200
        assert lines[0].__dict__["reason"] == "index first"

    async def test_a_reused_id_and_its_trace_are_in_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        """Whoever sends ids twice can be found."""
        handler = handler_of(Desk())
        await handler.handle(record(SEARCH))
        await handler.handle(record({**SEARCH, "trace_id": "second"}))
        [line] = [entry for entry in caplog.records if "request_id_reused" in entry.message]
        assert (line.__dict__["request_id"], line.__dict__["trace_id"]) == ("search-001", "second")

    async def test_waiting_for_the_store_is_said_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """Not for each request and each try; with the id of one that waits. So is the end of it."""
        caplog.set_level(logging.INFO)
        handler = handler_of(Desk(), FlakyStore([True] * 25), sleep=Naps())
        await asyncio.gather(*(handler.handle(record({**SEARCH, "request_id": f"r-{n}"})) for n in range(5)))
        lines = [entry for entry in caplog.records if "store of outcomes" in entry.message]
        assert [(each.levelname, each.message) for each in lines] == [
            ("WARNING", "waiting for the store of outcomes"),
            ("INFO", "the store of outcomes can be used again"),
        ]
        assert lines[0].__dict__["request_id"] == "r-0"
        assert handler.counts.store_waits > 5


class FlakyStore(MemoryOutcomeStore):
    """Fails in the calls that it is told to."""

    def __init__(self, fails: list[bool]) -> None:
        super().__init__()
        self._fails = fails

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        self._maybe()
        return await super().get(stage, request_id, tenant)

    async def keep(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        self._maybe()
        return await super().keep(outcomes)

    def _maybe(self) -> None:
        if self._fails and self._fails.pop(0):
            raise OutcomeStoreError


class TestSizes:
    """What does not fit into its topic."""

    def handler(self, desk: Desk, **limits: int) -> RagHandler:
        return handler_of(desk, options=HandlerOptions(outcome_bytes=limits))

    async def test_a_result_that_is_too_large(self) -> None:
        """It becomes a failure, which says so, without the metadata: they may be what made it so."""
        value = {**SEARCH, "metadata": LARGE_METADATA, "trace_id": "t"}
        told = await self.handler(Desk(), rag_search_result=3000).handle(record(value))
        found = body(told)
        assert (told.topic, found["error_code"], found["error_type"]) == ("rag_failed", "internal", "non_recoverable")
        assert found["details"] == {"field": "message", "reason": "outcome_too_large"}
        assert found["trace_id"] == "t"
        assert "metadata" not in found

    async def test_it_is_that_failure_again(self) -> None:
        """Too large once is too large for ever, also where the limit was raised."""
        store, value = MemoryOutcomeStore(), {**SEARCH, "metadata": LARGE_METADATA}
        small = handler_of(Desk(), store, options=HandlerOptions(outcome_bytes={"rag_search_result": 3000}))
        told = await small.handle(record(value))
        assert await handler_of(Desk(), store).handle(record(value)) == told

    async def test_a_failure_keeps_its_code(self) -> None:
        """A refusal without its metadata is the same refusal."""
        told = await self.handler(Desk(), rag_failed=3000).handle(
            record({"request_id": "a", "metadata": LARGE_METADATA})
        )
        assert body(told)["details"] == {"field": "query", "reason": "empty_or_missing"}
        assert "metadata" not in body(told)

    async def test_at_last_trace_id_headers_and_key_go(self) -> None:
        """An outcome gets through, whatever came with its request."""
        value = {"request_id": "a", "trace_id": "t" * 5000}
        handler = self.handler(Desk(), rag_failed=3000)
        assert body(await handler.handle(record(value))).keys().isdisjoint({"trace_id", "metadata"})

        def large(size: int) -> IncomingRecord:
            headers = (("h", b"x" * 4000),)
            return replace(record({"request_id": f"{size}"}), headers=headers, key=b"k" * size)

        told = await handler.handle(large(10))
        assert (told.headers, told.key) == ((), b"k" * 10)
        told = await handler.handle(large(4000))
        assert (told.headers, told.key) == ((), None)
        assert body(told)["request_id"] == "4000"

    async def test_what_fits_is_not_touched(self) -> None:
        """The usual limit is what brokers take if nothing else is set."""
        value = {**SEARCH, "metadata": {"padding": "x" * 998_000}}
        assert (await handler_of(Desk()).handle(record(value))).topic == "rag_search_result"

    def test_a_broker_that_refuses_it_after_all(self) -> None:
        """The failure for it is the same each time, and has what is known of the request."""
        handler = handler_of(Desk())
        value = {**SEARCH, "trace_id": "t", "metadata": {"a": 1}}
        told = handler.too_large(record(value))
        assert told == handler.too_large(record(value))
        found = body(told)
        assert (told.topic, told.key, told.headers) == ("rag_failed", KEY, HEADERS)
        assert (found["request_id"], found["trace_id"]) == ("search-001", "t")
        assert found["details"]["reason"] == "outcome_too_large"
        assert "metadata" not in found

    def test_that_failure_is_small(self) -> None:
        """Whatever came with its request: a topic that takes less than was said takes this."""
        large = replace(
            record({**SEARCH, "trace_id": "t" * 70_000}), headers=(("h", b"x" * 70_000),), key=b"k" * 70_000
        )
        told = handler_of(Desk()).too_large(large)
        assert len(told.value) < 1000
        assert (told.headers, told.key) == ((), None)
