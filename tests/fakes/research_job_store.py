"""A store of background runs in memory, and the contract of such stores."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest
from tests.fakes.tracing import PARENT

from modules.llm_platform.domain.callers.list_cursor import write_cursor
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import (
    MAX_UNCLEAN_ENDS,
    AnswerEvidence,
    ClaimedJob,
    JobEvent,
    NewResearchJob,
    ResearchProgress,
)
from modules.llm_platform.domain.dtos.source_dtos import Source, StoredSources
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore, JobSelection, LeaseLostError
from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import MEMORY, SqliteResearchJobStore
from modules.llm_platform.testing.waiting import Elapse

TTL_DAYS: Final = 30.0
DAY_S: Final = 86_400.0
LEASE_S: Final = 60.0
MANY: Final = 1000
OWNERS: Final = ("owner", "other")
PROGRESS: Final = ResearchProgress(step="searched", searched=2)
QUESTION: Final = "How do heat pumps work?"
HOOK: Final = "https://hooks.example.org/done"
PROBLEM: Final = '{"type": "failed", "problem": {"code": "timeout"}}'


class MemoryResearchJobStore(SqliteResearchJobStore):
    """Research runs in this process. `clock`: seconds since 1970."""

    def __init__(self, ttl_days: float = TTL_DAYS, clock: Callable[[], float] = time.time) -> None:
        super().__init__(MEMORY, ttl_days, clock)


def new_job(name: str, owner: str = "", webhook: str | None = None) -> NewResearchJob:
    return NewResearchJob(name, ResearchRequest(query=QUESTION, depth="deep"), owner, "label", webhook)


def follow_up(
    name: str, previous_id: str | None, owner: str = "owner", query: str = "And the costs?"
) -> NewResearchJob:
    return NewResearchJob(name, ResearchRequest(query=query, previous_id=previous_id), owner)


def done(synthesis: str, *verdicts: Verdict) -> str:
    """Return the data of an event with this answer.

    Its first sentences have these verdicts, and the next one has no source.
    """
    length = 5
    citations = [
        {"start": place * length, "end": (place + 1) * length - 1, "source_index": 1, "verdict": verdict, "score": 1.0}
        for place, verdict in enumerate(verdicts)
    ]
    uncited = [{"start": len(verdicts) * length, "end": len(synthesis)}] if verdicts else []
    return json.dumps({"response": {"synthesis": synthesis, "citations": citations, "metadata": {"uncited": uncited}}})


def event(number: int, kind: str = "searched", data: str = "{}") -> JobEvent:
    return JobEvent(number, kind, data)


async def claimed(store: IResearchJobStore, worker: str = "worker") -> ClaimedJob:
    job = await store.claim(worker, LEASE_S)
    assert job is not None
    return job


async def is_lost(write: Awaitable[None]) -> bool:
    """Return whether the store refuses the write because the worker has no lease."""
    try:
        await write
    except LeaseLostError:
        return True
    return False


class ResearchJobStoreContract:
    """The contract of every store of background runs.

    A subclass has the fixtures `store` and `elapse`, which lets time pass.
    """

    async def test_an_empty_store(self, store: IResearchJobStore) -> None:
        """An empty store has no research run, no work and no webhook."""
        assert await store.get("", "a") is None
        assert await store.page("", 10) == ()
        assert await store.claim("worker", LEASE_S) is None
        assert await store.claim_webhook(LEASE_S) is None
        assert await store.events("", "a", 0, 10) is None
        assert await store.sources("", "a") is None
        assert not await store.cancel("", "a", event(0))
        assert not await store.ask_finish("", "a")
        assert await store.counts() == {"queued": 0, "running": 0}
        assert await store.clean() == 0

    async def test_finished_run_is_recorded_with_its_client(self, store: IResearchJobStore) -> None:
        """A foreground run is stored with its events, its sources and the request of its client, and no worker claims
        it.
        """
        job = NewResearchJob(
            "a",
            ResearchRequest(query=QUESTION),
            "owner",
            "label",
            api="openai",
            client_request={"metadata": {"k": "\x00"}},
        )
        sources_to_store = StoredSources(
            sources=(Source(index=1, title="t", url="https://example.org/", text="words"),)
        )
        for _ in range(2):  # the second one replaces the first
            await store.record(job, [event(1, "started"), event(2, "failed", PROBLEM)], sources_to_store, 2.0)
        found = await store.get("owner", "a")
        assert found is not None
        assert (found.status, found.api, found.client_request, found.attempts) == (
            "done",
            "openai",
            job.client_request,
            1,
        )
        assert found.finished_at is not None
        took_s = (found.finished_at - found.created_at).total_seconds()
        assert took_s == pytest.approx(2.0, abs=0.1)  # a database reads its clock separately for each column
        page = await store.events("owner", "a", 0, 10)
        assert page is not None
        assert ([event.number for event in page.events], page.is_last) == ([1, 2], True)
        assert await store.sources("owner", "a") == sources_to_store
        assert await store.claim("worker", LEASE_S) is None
        assert await store.get("", "a") is None

    async def test_a_recorded_run_can_have_a_webhook(self, store: IResearchJobStore) -> None:
        """The webhook is due at once, with the last event. A run without a webhook has none."""
        hook = "https://hooks.example.org/a"
        for name, webhook in (("a", None), ("b", hook)):
            job = NewResearchJob(name, ResearchRequest(query=QUESTION), webhook=webhook)
            await store.record(job, [event(1, "failed", PROBLEM)], None, 2.0)
        delivery = await store.claim_webhook(LEASE_S)
        assert delivery is not None
        assert (delivery.job.id, delivery.url, delivery.result) == ("b", hook, json.loads(PROBLEM))
        assert await store.claim_webhook(LEASE_S) is None

    async def test_runs_are_listed_by_compatible_api(self, store: IResearchJobStore) -> None:
        """The list of one API contains only its runs, and the owner's list contains all."""
        for name, api in (("a", ""), ("b", "openai"), ("c", "perplexity")):
            assert await store.add(NewResearchJob(name, ResearchRequest(query=QUESTION), api=api), MANY)
        assert [job.id for job in await store.page("", 10)] == ["c", "b", "a"]
        assert [job.id for job in await store.page("", 10, api="openai")] == ["b"]
        assert [job.id for job in await store.page("", 10, "c", "openai")] == ["b"]
        assert await store.page("", 10, "b", "openai") == ()

    async def test_deleted_run_is_gone(self, store: IResearchJobStore) -> None:
        """The run is removed with its events and sources, and its worker may write no more."""
        assert await store.add(new_job("a", "owner"), MANY)
        job = await claimed(store)
        await store.append(job, [event(1)], PROGRESS)
        assert not await store.delete("other", "a")
        assert await store.delete("owner", "a")
        assert await store.get("owner", "a") is None
        assert await store.events("owner", "a", 0, 10) is None
        assert await store.sources("owner", "a") is None
        assert await is_lost(store.append(job, [event(2)], PROGRESS))
        assert not await store.delete("owner", "a")

    async def test_a_follow_up_joins_the_thread_of_its_owner(self, store: IResearchJobStore) -> None:
        """A run knows its predecessor and the first run of its thread. It cannot follow a run of another owner."""
        await store.add(new_job("a", "owner"), MANY)
        await store.record(follow_up("b", "a"), [event(1)], None, 0.0)
        await store.add(follow_up("c", "b"), MANY)
        await store.add(follow_up("x", "b", "other"), MANY)
        found = await store.thread("owner", "b")
        assert found is not None
        assert [(job.id, job.previous_id, job.thread_id) for job in found.researches] == [
            ("a", None, "a"),
            ("b", "a", "a"),
            ("c", "b", "a"),
        ]
        assert (found.id, found.title, found.status, found.runs, found.running) == ("a", QUESTION, "queued", 3, 2)
        assert found == await store.thread("owner", "a")
        other = await store.thread("other", "x")
        assert other is not None
        assert [job.thread_id for job in other.researches] == ["x"]
        assert await store.thread("other", "a") is None

    async def test_a_run_joins_a_thread_without_following(self, store: IResearchJobStore) -> None:
        """A repeated question joins the thread after the predecessor of the first one, but not a thread of another
        owner or one that is not stored.
        """
        await store.add(new_job("a", "owner"), MANY)
        await store.add(follow_up("b", "a"), MANY)
        await store.record(replace(new_job("c", "owner"), thread_id="b"), [event(1)], None, 0.0)
        await store.add(replace(follow_up("d", "a"), thread_id="b"), MANY)
        for name, owner, joined in (("x", "other", "a"), ("y", "owner", "gone")):
            await store.add(replace(new_job(name, owner), thread_id=joined), MANY)
        found = await store.thread("owner", "a")
        assert found is not None
        assert [(job.id, job.previous_id) for job in found.researches] == [
            ("a", None),
            ("b", "a"),
            ("c", None),
            ("d", "a"),
        ]
        assert [(thread.id, thread.runs) for thread in await store.threads("other", 9)] == [("x", 1)]
        assert [(thread.id, thread.runs) for thread in await store.threads("owner", 9)] == [("y", 1), ("a", 4)]

    async def test_threads_are_listed_by_their_newest_run(self, store: IResearchJobStore) -> None:
        """Each thread is listed once, sorted by its newest run, in pages. Threads of other owners are not listed."""
        for name in "abcd":
            await store.add(new_job(name, "owner"), MANY)
        await store.add(new_job("x", "other"), MANY)
        await store.add(follow_up("e", "b"), MANY)
        assert [thread.id for thread in await store.threads("owner", 3)] == ["b", "d", "c"]
        assert [thread.id for thread in await store.threads("owner", 3, "c")] == ["a"]
        assert [thread.id for thread in await store.threads("owner", 3, "b")] == ["d", "c", "a"]

    async def test_threads_of_two_owners_with_equal_ids_are_apart(self, store: IResearchJobStore) -> None:
        """Names, counts, times, paging, search, titles and deletion of one owner's threads are independent of another
        owner's.
        """
        for owner, names in (("owner", "abc"), ("other", "cab")):
            for name in names:
                await store.add(new_job(name, owner), MANY)
        await store.add(follow_up("d", "a"), MANY)
        await store.add(follow_up("e", "a", "other"), MANY)
        await store.add(follow_up("f", "c", "other", "Which bell rings?"), MANY)
        runs = {
            owner: [(thread.id, thread.runs, thread.running) for thread in await store.threads(owner, 9)]
            for owner in OWNERS
        }
        assert runs == {
            "owner": [("a", 2, 2), ("c", 1, 1), ("b", 1, 1)],
            "other": [("c", 2, 2), ("a", 2, 2), ("b", 1, 1)],
        }
        after_a = {owner: [thread.id for thread in await store.threads(owner, 9, "a")] for owner in OWNERS}
        assert after_a == {"owner": ["c", "b"], "other": ["b"]}
        assert [thread.id for thread in await store.threads("owner", 9, None, "bell")] == []
        for owner, ids in (("owner", ["a", "d"]), ("other", ["a", "e"])):
            found = await store.thread(owner, "a")
            assert found is not None
            assert ([job.id for job in found.researches], found.runs) == (ids, 2)
        assert await store.rename_thread("owner", "a", "Mine")
        titles = {owner: {thread.id: thread.title for thread in await store.threads(owner, 9)}["a"] for owner in OWNERS}
        assert titles == {"owner": "Mine", "other": QUESTION}
        assert sorted(await store.delete_thread("owner", "a")) == ["a", "d"]
        assert await store.cancel("other", "a", event(0))
        runs = {
            owner: [(thread.id, thread.runs, thread.running) for thread in await store.threads(owner, 9)]
            for owner in OWNERS
        }
        assert runs == {"owner": [("c", 1, 1), ("b", 1, 1)], "other": [("c", 2, 2), ("a", 2, 1), ("b", 1, 1)]}

    async def test_a_run_joins_no_thread_of_another_owner(self, store: IResearchJobStore) -> None:
        """A follow-up of a run id that two owners have joins the thread of its own owner."""
        await store.add(new_job("a", "other"), MANY)
        await store.add(follow_up("b", "a", "other"), MANY)
        await store.add(new_job("b", "owner"), MANY)
        await store.add(follow_up("c", "b"), MANY)
        assert [(thread.id, thread.runs) for thread in await store.threads("owner", 9)] == [("b", 2)]
        assert [(thread.id, thread.runs) for thread in await store.threads("other", 9)] == [("a", 2)]

    async def test_threads_of_compatible_apis_are_not_listed(self, store: IResearchJobStore) -> None:
        """Their clients know the addresses, by which the threads are found.

        A thread that was continued without such an API is listed.
        """
        runs = (("a", None, ""), ("b", None, "openai"), ("c", None, "tavily"), ("d", "c", ""), ("e", "b", "openai"))
        for name, previous, api in runs:
            assert await store.add(replace(follow_up(name, previous), api=api), MANY)
        assert [(thread.id, thread.runs) for thread in await store.threads("owner", 9)] == [("c", 2), ("a", 1)]
        assert [thread.id for thread in await store.threads("owner", 9, "c")] == ["a"]
        assert [thread.id for thread in await store.threads("owner", 9, None, "costs")] == ["c", "a"]
        found = await store.thread("owner", "e")
        assert found is not None
        assert (found.id, found.runs) == ("b", 2)

    async def test_threads_are_found_by_their_words(self, store: IResearchJobStore) -> None:
        """Every question of a thread and its title are searched without regard to case.

        Pattern characters have no special meaning.
        """
        await store.add(new_job("a", "owner"), MANY)
        await store.add(follow_up("b", "a", query="Was kosten WÄRMEPUMPEN, 100% elektrisch?"), MANY)
        await store.add(follow_up("c", None, query="Сколько стоит_насос?"), MANY)
        found = {
            text: [thread.id for thread in await store.threads("owner", 10, None, text)]
            for text in ("wärmepumpen", "heat PUMPS", "НАСОС", "100% ", "0%e", "t_p", "!", "'", "nothing")
        }
        assert found == {
            "wärmepumpen": ["a"],
            "heat PUMPS": ["a"],
            "НАСОС": ["c"],
            "100% ": ["a"],
            "0%e": [],
            "t_p": [],
            "!": [],
            "'": [],
            "nothing": [],
        }

    async def test_threads_are_found_by_the_words_of_their_answers(self, store: IResearchJobStore) -> None:
        """Answers of finished background runs and of foreground runs are searched, up to a length, and only the
        owner's.
        """
        await store.add(new_job("a", "owner"), MANY)
        job = await claimed(store)
        await store.finish(job, "done", [event(1, "done", done("WÄRMEPUMPEN heat at −15 °C."))], PROGRESS)
        await store.record(follow_up("b", None), [event(1, "done", done("100% sure.\x00"))], None, 0.0)
        await store.record(new_job("x", "other"), [event(1, "done", done("x" * 30_000 + " wärmepumpen"))], None, 0.0)
        found = {
            text: [thread.id for thread in await store.threads("owner", 10, None, text)]
            for text in ("wärmepumpen HEAT", "100% sure", "0%s", "nothing")
        }
        assert found == {"wärmepumpen HEAT": ["a"], "100% sure": ["b"], "0%s": [], "nothing": []}
        assert await store.threads("other", 10, None, "wärmepumpen") == ()

    async def test_threads_show_the_verdicts_of_their_newest_answer(self, store: IResearchJobStore) -> None:
        """The list has a cell for each sentence and the counts, and nothing for a run without an answer or without a
        check.
        """
        answer = done("One. Two. Three.", "supported", "unsupported")
        await store.record(new_job("a", "owner"), [event(1, "done", answer)], None, 0.0)
        await store.record(new_job("b", "owner"), [event(1, "done", done("One."))], None, 0.0)
        await store.add(new_job("c", "owner"), MANY)
        await store.finish(await claimed(store), "failed", [event(1, "failed", PROBLEM)], PROGRESS)
        found = {thread.id: thread.evidence for thread in await store.threads("owner", 9)}
        assert found == {"a": AnswerEvidence(strip="▁▆░", supported=1, sentences=3), "b": None, "c": None}
        await store.add(follow_up("d", "a"), MANY)
        thread = await store.thread("owner", "a")
        assert thread is not None
        assert thread.evidence is None

    async def test_threads_show_an_answer_of_quotes_as_quotes(self, store: IResearchJobStore) -> None:
        """The counts of sentences are kept, and the number of quoted sources shows that no model selected them."""
        answer = json.loads(done("One. Two.", "supported", "supported"))
        answer["response"]["citations"][1]["source_index"] = 2
        answer["response"]["metadata"] = {"synthesizer": "extractive"}
        await store.record(new_job("a", "owner"), [event(1, "done", json.dumps(answer))], None, 0.0)
        (thread,) = await store.threads("owner", 9)
        assert thread.evidence == AnswerEvidence(strip="▁▁", supported=2, sentences=2, quoted_sources=2)

    async def test_a_thread_is_renamed(self, store: IResearchJobStore) -> None:
        """The new title and the questions are found.

        Later follow-ups keep the title, and another owner cannot change it.
        """
        await store.add(new_job("a", "owner"), MANY)
        await store.add(follow_up("b", "a"), MANY)
        assert not await store.rename_thread("other", "a", "Mine")
        assert await store.rename_thread("owner", "b", "Heizung Ö")
        await store.add(follow_up("c", "b"), MANY)
        [found] = await store.threads("owner", 10, None, "heizung ö")
        assert (found.id, found.title) == ("a", "Heizung Ö")
        assert [thread.title for thread in await store.threads("owner", 10, None, "pumps")] == ["Heizung Ö"]

    async def test_a_thread_outlives_its_first_run(self, store: IResearchJobStore) -> None:
        """After its first run is gone, the thread keeps its id, its title and its words, and runs can still join it."""
        await store.add(new_job("a", "owner"), MANY)
        await store.add(follow_up("b", "a"), MANY)
        assert await store.delete("owner", "a")
        assert [(thread.id, thread.title) for thread in await store.threads("owner", 9, None, "pumps")] == [
            ("a", QUESTION)
        ]
        assert await store.rename_thread("owner", "a", "Heizung Ö")
        await store.record(follow_up("c", "b"), [event(1)], None, 0.0)
        assert await store.delete("owner", "b")
        await store.add(replace(new_job("d", "owner"), thread_id="a"), MANY)
        await store.add(replace(new_job("x", "other"), thread_id="a"), MANY)
        assert [(thread.id, thread.title, thread.runs) for thread in await store.threads("owner", 9)] == [
            ("a", "Heizung Ö", 2)
        ]
        assert [thread.id for thread in await store.threads("owner", 9, None, "heizung ö")] == ["a"]
        for name in ("a", "c"):
            found = await store.thread("owner", name)
            assert found is not None
            assert (found.id, [research.id for research in found.researches]) == ("a", ["c", "d"])
        assert await store.thread("owner", "b") is None
        assert await store.rename_thread("owner", "a", "Wärme")
        assert [thread.title for thread in await store.threads("owner", 9, None, "WÄRME")] == ["Wärme"]
        assert sorted(await store.delete_thread("owner", "a")) == ["c", "d"]
        assert await store.threads("owner", 9) == ()
        assert [thread.id for thread in await store.threads("other", 9)] == ["x"]

    async def test_equal_ids_of_two_owners_are_two_threads(self, store: IResearchJobStore) -> None:
        """Clients choose the ids of their requests.

        Runs of another owner with the same ids change no count, order, page or search.
        """
        for name in "abc":
            await store.add(new_job(name, "owner"), MANY)
        await store.add(follow_up("d", "a"), MANY)
        before = await store.threads("owner", 9)
        pages = [await store.threads("owner", 9, name) for name in "abcd"]
        for name, previous in (("c", None), ("b", None), ("a", None), ("x", "a"), ("y", "c")):
            await store.add(follow_up(name, previous, "other", "Is a secret kept?"), MANY)
        assert [(thread.id, thread.runs, thread.running) for thread in before] == [
            ("a", 2, 2),
            ("c", 1, 1),
            ("b", 1, 1),
        ]
        assert await store.threads("owner", 9) == before
        assert [await store.threads("owner", 9, name) for name in "abcd"] == pages
        assert [[thread.id for thread in page] for page in pages[:3]] == [["c", "b"], [], ["b"]]
        assert await store.threads("owner", 9, None, "secret") == ()
        assert [(thread.id, thread.runs) for thread in await store.threads("other", 9)] == [
            ("c", 2),
            ("a", 2),
            ("b", 1),
        ]

    async def test_a_deleted_thread_is_gone(self, store: IResearchJobStore) -> None:
        """All its runs and events are removed, and other threads are kept."""
        await store.add(new_job("a", "owner"), MANY)
        await store.add(follow_up("b", "a"), MANY)
        await store.add(new_job("c", "owner"), MANY)
        assert await store.delete_thread("other", "a") == ()
        assert sorted(await store.delete_thread("owner", "b")) == ["a", "b"]
        assert [job.id for job in await store.page("owner", 10)] == ["c"]
        assert await store.thread("owner", "a") is None

    async def test_quick_runs_and_reports_are_claimed_separately(self, store: IResearchJobStore) -> None:
        """A worker that has enough reports still claims a quick question."""
        await store.add(NewResearchJob("a", ResearchRequest(query=QUESTION, depth="report")), MANY)
        await store.add(new_job("b"), MANY)
        quick = await store.claim("worker", LEASE_S, is_report=False)
        assert quick is not None
        assert quick.id == "b"
        assert await store.claim("worker", LEASE_S, is_report=False) is None
        report = await store.claim("worker", LEASE_S, is_report=True)
        assert report is not None
        assert report.id == "a"

    async def test_only_selected_runs_are_claimed(self, store: IResearchJobStore) -> None:
        """A run of another owner with the same id is another run."""
        for name, owner in (("a", "owner"), ("b", "other"), ("b", "owner")):
            await store.add(new_job(name, owner), MANY)
        assert await store.claim("worker", LEASE_S, only=JobSelection("owner", ())) is None
        only = JobSelection("owner", ("b", "c"))
        job = await store.claim("worker", LEASE_S, only=only)
        assert job is not None
        assert (job.owner, job.id) == ("owner", "b")
        assert await store.claim("worker", LEASE_S, only=only) is None
        rest = [await claimed(store) for _ in range(2)]
        assert [(job.owner, job.id) for job in rest] == [("other", "b"), ("owner", "a")]

    async def test_what_was_submitted_is_claimed(self, store: IResearchJobStore) -> None:
        """The request is returned unchanged with the fields that were set, and a running research is not claimed again."""
        request = ResearchRequest(query=QUESTION, depth="report", urls=("https://example.org/a",), sources=("web",))
        assert await store.add(NewResearchJob("a", request, "owner", "label", HOOK), MANY)
        job = await claimed(store)
        assert (job.id, job.owner, job.label, job.attempts, job.last_event) == ("a", "owner", "label", 1, 0)
        assert job.request == request
        assert job.request.model_fields_set == request.model_fields_set
        assert await store.claim("other", LEASE_S) is None
        found = await store.get("owner", "a")
        assert found is not None
        assert (found.status, found.query, found.depth, found.request) == ("running", QUESTION, "report", request)
        assert found.started_at is not None
        assert found.started_at >= found.created_at
        assert found.webhook is not None
        assert found.webhook.status == "pending"
        assert await store.counts() == {"queued": 0, "running": 1}

    async def test_the_trace_of_the_request_is_stored(self, store: IResearchJobStore) -> None:
        """The worker gets the traceparent of the request, also at a second attempt, or an empty text."""
        await store.add(replace(new_job("a"), traceparent=PARENT), MANY)
        await store.add(new_job("b"), MANY)
        await store.release(await claimed(store))
        assert [(await claimed(store)).traceparent for _ in "ab"] == [PARENT, ""]

    async def test_the_oldest_comes_first(self, store: IResearchJobStore) -> None:
        """Research runs are claimed in the order of their submission."""
        for name in "abc":
            await store.add(new_job(name), MANY)
        assert [(await claimed(store)).id for _ in "abc"] == ["a", "b", "c"]

    async def test_a_full_queue_of_one_owner_does_not_delay_another(self, store: IResearchJobStore) -> None:
        """The owner with the fewest running runs comes first. Runs with an expired lease do not count."""
        for name in "abcde":
            await store.add(new_job(name, "greedy"), MANY)
        first = await claimed(store)
        await store.add(new_job("x", "other"), MANY)
        await store.add(new_job("y", "other"), MANY)
        assert first.id == "a"
        assert [(await claimed(store)).id for _ in range(5)] == ["x", "b", "y", "c", "d"]

    async def test_parallel_workers_share_the_work(self, store: IResearchJobStore) -> None:
        """Each run is executed once, however many workers claim at the same time."""
        for number in range(8):
            await store.add(new_job(f"job{number}"), MANY)
        found = await asyncio.gather(*(store.claim(f"worker{number}", LEASE_S) for number in range(12)))
        ids = [job.id for job in found if job is not None]
        while job := await store.claim("late", LEASE_S):  # a store may skip rows that others are claiming
            ids.append(job.id)
        assert sorted(ids) == [f"job{number}" for number in range(8)]

    async def test_the_queue_of_an_owner_is_bounded(self, store: IResearchJobStore) -> None:
        """Above the limit nothing is queued. The queue of another owner is not affected."""
        assert await store.add(new_job("a", "one"), 1)
        assert not await store.add(new_job("b", "one"), 1)
        assert await store.get("one", "b") is None
        assert await store.add(new_job("c", "two"), 1)
        again = await store.add(new_job("a", "one"), 1)  # a repeated request finds its run
        assert again is not None
        assert again.id == "a"

    async def test_an_owner_sees_only_what_is_theirs(self, store: IResearchJobStore) -> None:
        """Two owners may use the same id. Neither can see, follow or cancel the other's run."""
        await store.add(new_job("a", "one"), MANY)
        await store.add(new_job("a", "two"), MANY)
        assert await store.cancel("two", "a", event(0, "failed", PROBLEM))
        mine, yours = await store.get("one", "a"), await store.get("two", "a")
        assert mine is not None
        assert yours is not None
        assert (mine.status, yours.status) == ("queued", "cancelled")
        assert await store.get("three", "a") is None
        assert await store.events("three", "a", 0, 10) is None

    async def test_pages(self, store: IResearchJobStore) -> None:
        """The newest run comes first, and `before` continues after a run."""
        for name in "abcde":
            await store.add(new_job(name, "me"), MANY)
        await store.add(new_job("z", "you"), MANY)
        assert [job.id for job in await store.page("me", 2)] == ["e", "d"]
        assert [job.id for job in await store.page("me", 9, before="d")] == ["c", "b", "a"]
        assert await store.page("me", 9, before="z") == ()

    async def test_a_list_continues_after_a_removed_entry(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """The list continues by the entry's time. An id alone has no position."""
        for name in "abcd":
            await store.add(new_job(name, "me"), MANY)
            await elapse(1)
        cursors = {job.id: write_cursor(job.id, job.created_at) for job in await store.page("me", 9)}
        for name, rest in (("d", "cba"), ("c", "ba")):
            assert [job.id for job in await store.page("me", 9, before=cursors[name])] == list(rest)
            await store.delete("me", name)
            assert [job.id for job in await store.page("me", 9, before=cursors[name])] == list(rest)
            assert [one.id for one in await store.threads("me", 9, before=cursors[name])] == list(rest)
            assert await store.page("me", 9, before=name) == ()
        assert await store.page("you", 9, before=cursors["b"]) == ()

    async def test_events_are_read_in_pages(self, store: IResearchJobStore) -> None:
        """Each event has its number and its data, and the last page is marked."""
        await store.add(new_job("a"), MANY)
        job = await claimed(store)
        await store.append(job, [event(1, "started"), event(2)], PROGRESS)
        page = await store.events("", "a", 0, 10)
        assert page is not None
        assert ([event.number for event in page.events], page.is_last) == ([1, 2], False)
        answer = '{"type": "failed", "problem": {"code": "timeout"}}'
        await store.finish(job, "failed", [event(3), event(4, "failed", answer)], PROGRESS)
        first, last = await store.events("", "a", 1, 2), await store.events("", "a", 3, 2)
        assert first is not None
        assert last is not None
        assert ([event.number for event in first.events], first.is_last) == ([2, 3], False)
        assert (last.events, last.is_last) == ((event(4, "failed", answer),), True)
        ended = await store.get("", "a")
        assert ended is not None
        assert (ended.status, ended.problem, ended.response) == ("failed", {"code": "timeout"}, None)
        assert ended.progress == PROGRESS
        assert ended.finished_at is not None

    async def test_a_lease_expires(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """A run whose worker vanished is claimed again with its last number, and the old worker can write nothing."""
        await store.add(new_job("a"), MANY)
        old = await claimed(store, "old")
        await store.append(old, [event(1)], PROGRESS)
        await elapse(LEASE_S / 2)
        await store.renew(old, LEASE_S)
        await elapse(LEASE_S * 3 / 4)
        assert await store.claim("new", LEASE_S) is None
        await elapse(LEASE_S / 2)
        new = await claimed(store, "new")
        assert (new.id, new.attempts, new.last_event) == ("a", 2, 1)
        sources_to_store = StoredSources(sources=())
        for write in (
            store.renew(old, LEASE_S),
            store.append(old, [event(2)], PROGRESS),
            store.put_sources(old, sources_to_store),
            store.finish(old, "done", [event(2)], PROGRESS),
        ):
            assert await is_lost(write)
        await store.release(old)
        page = await store.events("", "a", 0, 10)
        assert page is not None
        assert [event.number for event in page.events] == [1]
        await store.append(new, [event(2)], PROGRESS)

    async def test_a_vanished_worker_counts_until_the_run_stores_a_finished_item(
        self, store: IResearchJobStore, elapse: Elapse
    ) -> None:
        """Each expired lease counts before the next attempt begins.

        `clear_unclean_ends` resets the count, but events do not, and a worker without the lease may not.
        """
        await store.add(new_job("a"), MANY)
        first = await claimed(store, "first")
        assert first.unclean_ends == 0
        await elapse(LEASE_S + 1)
        second = await claimed(store, "second")
        assert (second.unclean_ends, second.is_suspect, second.is_given_up) == (1, True, False)
        await store.append(second, [event(1)], PROGRESS)
        assert await is_lost(store.clear_unclean_ends(first))
        await store.clear_unclean_ends(second)
        await elapse(LEASE_S + 1)
        third = await claimed(store, "third")
        assert (third.unclean_ends, third.attempts) == (1, 3)
        await store.append(third, [event(2)], PROGRESS)
        await elapse(LEASE_S + 1)
        fourth = await claimed(store, "fourth")
        assert (fourth.unclean_ends, fourth.is_given_up) == (MAX_UNCLEAN_ENDS, True)
        assert fourth.attempts == 3  # the run is claimed to be failed, not to be executed

    async def test_a_worker_that_stops_is_no_unclean_end(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """Releasing a run does not change its count, however often and however long it waits.

        A given-up run stays given up.
        """
        await store.add(new_job("a"), MANY)
        for _ in range(MAX_UNCLEAN_ENDS + 1):
            job = await claimed(store)
            assert (job.unclean_ends, job.attempts) == (0, 1)
            await store.release(job)
            await elapse(LEASE_S + 1)
        for _ in range(MAX_UNCLEAN_ENDS):
            await claimed(store)
            await elapse(LEASE_S + 1)
        for _ in range(2):
            job = await claimed(store)
            assert (job.is_given_up, job.unclean_ends, job.attempts) == (True, MAX_UNCLEAN_ENDS, MAX_UNCLEAN_ENDS)
            await store.release(job)

    async def test_suspects_are_left_to_others(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """A worker that executes a suspect claims no other suspect, but claims new and given-up runs."""
        for name in "ab":
            await store.add(new_job(name), MANY)
        await claimed(store)
        await elapse(LEASE_S + 1)
        again = await claimed(store)
        assert again.is_suspect
        await elapse(LEASE_S + 1)
        await claimed(store, "b")  # given up: "a"
        assert (await claimed(store, "b")).id == "b"
        await elapse(LEASE_S + 1)
        await store.add(new_job("c"), MANY)
        ids = []
        while job := await store.claim("worker", LEASE_S, leaves_suspects=True):
            ids.append(job.id)
        assert ids == ["a", "c"]
        assert (await claimed(store)).id == "b"

    async def test_a_worker_does_not_claim_its_own_run(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """If the clock was changed, the worker renews its lease and continues, unless another worker claims the run
        first.
        """
        for name in "ab":
            await store.add(new_job(name), MANY)
        one = await claimed(store, "one")
        await elapse(2 * LEASE_S)
        other = await store.claim("other", LEASE_S, held=[one.number])
        assert other is not None
        assert other.id == "b"
        assert await store.claim("other", LEASE_S, held=[one.number, other.number]) is None
        await store.renew(one, LEASE_S)
        assert await store.claim("third", LEASE_S) is None
        await elapse(2 * LEASE_S)
        assert (await claimed(store, "third")).id == "a"

    async def test_a_wrong_clock_blocks_nothing(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """A lease beyond its maximal length has expired, and a webhook beyond the longest delay is due.

        A clock step back of a few seconds expires no lease.
        """
        await store.add(new_job("a", webhook=HOOK), MANY)
        old = await claimed(store)
        await elapse(-2.0)
        assert await store.claim("early", LEASE_S) is None
        await elapse(-3600.0)
        new = await claimed(store, "new")
        assert await is_lost(store.renew(old, LEASE_S))
        await store.finish(new, "done", [event(1, "done")], PROGRESS)
        await elapse(-3 * DAY_S)
        assert await store.claim_webhook(LEASE_S) is not None

    async def test_a_released_run_is_queued_again(self, store: IResearchJobStore) -> None:
        """A stopping worker releases the run at once, and the attempt does not count."""
        await store.add(new_job("a"), MANY)
        await store.add(new_job("b"), MANY)
        await store.release(await claimed(store))
        again = await claimed(store, "other")
        assert (again.id, again.attempts) == ("a", 1)

    async def test_cancelled(self, store: IResearchJobStore) -> None:
        """A cancelled run ends with the given event, is not claimed, and its worker has lost it."""
        await store.add(new_job("a", webhook=HOOK), MANY)
        job = await claimed(store)
        await store.append(job, [event(1)], PROGRESS)
        assert await store.cancel("", "a", event(0, "failed", PROBLEM))
        assert await store.cancel("", "a", event(0, "failed", PROBLEM))
        page = await store.events("", "a", 1, 10)
        assert page is not None
        assert (page.events, page.is_last) == ((event(2, "failed", PROBLEM),), True)
        assert await is_lost(store.finish(job, "done", [event(2)], PROGRESS))
        assert await store.claim("other", LEASE_S) is None
        assert await store.claim_webhook(LEASE_S) is None

    async def test_cancelled_with_several_events(self, store: IResearchJobStore) -> None:
        """The events follow those of the run in order, and the last one ends it."""
        await store.add(new_job("a"), MANY)
        await store.append(await claimed(store), [event(1)], PROGRESS)
        assert await store.cancel("", "a", event(0, "verified"), event(0, "failed", PROBLEM))
        page = await store.events("", "a", 1, 10)
        assert page is not None
        assert (page.events, page.is_last) == ((event(2, "verified"), event(3, "failed", PROBLEM)), True)
        found = await store.get("", "a")
        assert found is not None
        assert (found.status, found.problem) == ("cancelled", {"code": "timeout"})

    async def test_an_ended_run_is_not_cancelled(self, store: IResearchJobStore) -> None:
        """A finished run is unchanged."""
        await store.add(new_job("a"), MANY)
        await store.finish(await claimed(store), "failed", [event(1, "failed", PROBLEM)], PROGRESS)
        assert await store.cancel("", "a", event(0, "failed", "{}"))
        found = await store.get("", "a")
        assert found is not None
        assert (found.status, found.problem) == ("failed", {"code": "timeout"})

    async def test_an_early_finish_is_requested(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """The worker of an open run, or of its next attempt, learns of the request when it renews its lease.

        A repeated request changes nothing. An ended run, an unknown run and a run of another owner are refused.
        """
        await store.add(new_job("a", "owner"), MANY)
        await store.add(new_job("b", "owner"), MANY)
        job, other = await claimed(store), await claimed(store)
        assert (job.is_finish_asked, await store.renew(job, LEASE_S)) == (False, False)
        for owner, name, is_noted in (
            ("other", "a", False),
            ("owner", "x", False),
            ("owner", "a", True),
            ("owner", "a", True),
        ):
            assert await store.ask_finish(owner, name) is is_noted
        assert await store.renew(job, LEASE_S)
        assert not await store.renew(other, LEASE_S)
        await elapse(LEASE_S + 1)
        again = await claimed(store, "new")
        assert (again.id, again.attempts, again.is_finish_asked) == ("a", 2, True)
        await store.release(again)
        again = await claimed(store, "newer")
        assert (again.id, again.is_finish_asked) == ("a", True)
        await store.finish(again, "failed", [event(1, "failed", PROBLEM)], PROGRESS)
        assert not await store.ask_finish("owner", "a")

    async def test_sources(self, store: IResearchJobStore) -> None:
        """The source texts are stored with the run, and a later attempt replaces them."""
        await store.add(new_job("a", "me"), MANY)
        job = await claimed(store)
        for text in ("old", "new é \u0000 😀"):
            sources_to_store = StoredSources(
                sources=(Source(index=1, title="t", url="https://example.org", text=text),)
            )
            await store.put_sources(job, sources_to_store)
        assert await store.sources("me", "a") == sources_to_store
        assert await store.sources("you", "a") is None

    async def test_first_attempts_come_before_retries(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """A hanging receiver does not delay messages to other receivers."""
        for name in "ab":
            await store.add(new_job(name, webhook=HOOK), MANY)
            await store.finish(await claimed(store), "done", [event(1, "done")], PROGRESS)
            if name == "a":
                assert await store.claim_webhook(LEASE_S) is not None
                await elapse(LEASE_S + 1)
        found = [await store.claim_webhook(LEASE_S) for _ in range(2)]
        assert [delivery and delivery.job.id for delivery in found] == ["b", "a"]

    async def test_a_webhook_is_delivered(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """The webhook is due when the run ends, and again after the delay of a failed attempt or after a crash, until
        it is settled.
        """
        await store.add(new_job("a", webhook=HOOK), MANY)
        job = await claimed(store)
        assert await store.claim_webhook(LEASE_S) is None
        await store.finish(job, "failed", [event(1, "failed", PROBLEM)], PROGRESS)
        first = await store.claim_webhook(LEASE_S)
        assert first is not None
        assert (first.url, first.attempt, first.job.id, first.job.status) == (HOOK, 1, "a", "failed")
        assert first.result["problem"] == {"code": "timeout"}
        assert await store.claim_webhook(LEASE_S) is None
        await elapse(LEASE_S + 1)  # the process of the first attempt has crashed
        second = await store.claim_webhook(LEASE_S)
        assert second is not None
        assert second.attempt == 2
        await store.settle_webhook(first, "failed")  # too late, so without effect
        await store.settle_webhook(second, "pending", LEASE_S * 2)
        await elapse(LEASE_S * 3 / 2)
        assert await store.claim_webhook(LEASE_S) is None
        await elapse(LEASE_S)
        third = await store.claim_webhook(LEASE_S)
        assert third is not None
        await store.settle_webhook(third, "delivered")
        await elapse(DAY_S)
        assert await store.claim_webhook(LEASE_S) is None
        found = await store.get("", "a")
        assert found is not None
        assert found.webhook is not None
        assert (found.webhook.status, found.webhook.attempts) == ("delivered", 3)

    async def test_old_researches_are_removed(self, store: IResearchJobStore, elapse: Elapse) -> None:
        """Runs that ended before the time to live are removed with their events and sources.

        Running and waiting runs are kept.
        """
        for name in "ab":
            await store.add(new_job(name), MANY)
        job = await claimed(store)
        await store.put_sources(job, StoredSources(sources=()))
        await store.finish(job, "failed", [event(1, "failed", PROBLEM)], PROGRESS)
        await elapse((TTL_DAYS - 1) * DAY_S)
        assert await store.clean() == 0
        await elapse(2 * DAY_S)
        assert await store.clean() == 1
        assert [job.id for job in await store.page("", 9)] == ["b"]
        assert await store.sources("", "a") is None
        assert await store.events("", "a", 0, 9) is None
