"""Verification of texts: pages are read within limits, and each sentence has the verdict of its sources."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from pydantic import ValidationError
from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.support_model import FakeSupportModel
from tests.support.cases import for_each
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.verification.events import SentenceVerified, SourcesNamed, TextVerified
from modules.llm_platform.application.verification.sentence_check import MAX_CITED_SOURCES, SentenceCheck
from modules.llm_platform.application.verification.source_reading import MAX_CONCURRENT_READS
from modules.llm_platform.application.verification.text_comparison import SENTENCE_BATCH_SIZE
from modules.llm_platform.application.verification.text_verification import VerificationOptions
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.concurrency.page_allowance import MAX_PAGES_PER_HOST
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, WorkStoppedError, run_stoppable
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.verification_dtos import (
    VerificationRequest,
    VerificationSource,
    VerifiedSentence,
    VerifiedText,
)
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.domain.exceptions import (
    LLMProviderException,
    PageBlockedError,
    PageConnectionError,
    PageError,
    PageNotFoundError,
    PageRequestError,
    PageTimeoutError,
    VerificationError,
    WebSearchConnectionError,
)
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing.page_reader import READ_AT, FakePageReader, PageOutcome, sample_page
from modules.llm_platform.testing.web_search import FakeWebSearch
from shared.exceptions import AppException

TOWER = (
    "The Eiffel Tower is 330 metres tall. It was completed in 1889. "
    "It is repainted every seven years with 60 tonnes of paint."
)
URL = "https://a.example/tower"


def service(
    pages: Mapping[str, PageOutcome],
    *,
    search: IWebSearchProvider | None = None,
    judge: ICitationJudge | None = None,
    delay_s: float = 0.0,
    timeout_s: float = 30.0,
) -> VerificationService:
    reader = FakePageReader(pages, delay_s=delay_s)
    return VerificationService(reader, search or FakeWebSearch(), judge, VerificationOptions(timeout_s=timeout_s))


def shown(text: str, verified: VerifiedText) -> list[tuple[str, str, bool]]:
    return [(text[found.start : found.end], found.verdict, found.is_cited) for found in verified.sentences]


async def test_each_sentence_has_the_verdict_of_its_sources() -> None:
    """A cited sentence is compared with its sources, and an uncited one with all sources.

    A question makes no statement.
    """
    text = (
        f"The tower is 330 metres tall ([A]({URL})). It was completed in 1899 [1]. It is repainted every seven years with 60 "
        f"tonnes of paint. Who built it? The moon is made of green cheese there.\n\n[1] Title {URL}\n"
    )
    verified = await service({URL: TOWER}).verify(text)
    assert shown(text, verified) == [
        ("The tower is 330 metres tall", "supported", True),
        ("It was completed in 1899", "unsupported", True),
        ("It is repainted every seven years with 60 tonnes of paint.", "supported", False),
        ("Who built it?", "unchecked", False),
        ("The moon is made of green cheese there.", "unsupported", False),
    ]
    difference = verified.sentences[1].difference
    assert difference is not None
    assert text[difference.claimed.start : difference.claimed.end] == "1899"
    assert TOWER[difference.found.start : difference.found.end] == "1889"
    assert verified.sentences[2].citations[0].cited_by == "platform"
    assert verified.counts.model_dump(exclude_defaults=True) == {
        "sentences": 5,
        "supported": 2,
        "unsupported": 2,
        "contradicted": 1,
        "absent": 1,
        "unchecked": 1,
        "uncited": 2,
        "sources": 1,
        "read": 1,
    }


@for_each(
    "error, state",
    [
        (PageNotFoundError(), "dead"),
        (PageConnectionError(), "dead"),
        (PageRequestError(), "refused"),
        (PageBlockedError(), "refused"),
        (PageTimeoutError(), "late"),
        (PageError(), "no_text"),
    ],
)
async def test_a_page_that_cannot_be_read_has_a_state_and_a_reason(error: PageError, state: str) -> None:
    """A sentence of such a page is unchecked, and the source says what happened."""
    verified = await service({URL: error}).verify(f"The tower is tall, as everybody knows {URL}")
    assert [(source.state, source.reason) for source in verified.sources] == [(state, error.message)]
    assert [sentence.verdict for sentence in verified.sentences] == ["unchecked"]


async def test_a_source_without_an_address_has_no_text() -> None:
    """A number that nothing lists, and an entry without an address, are sources that cannot be read."""
    verified = await service({}).verify("One is cited here [1]. Two is cited here [2].\n\nSources:\n1. Only a title\n")
    assert [(source.index, source.url, source.state) for source in verified.sources] == [
        (1, None, "no_text"),
        (2, None, "no_text"),
    ]


async def test_a_given_text_is_compared_as_it_is() -> None:
    """A source may bring its text: nothing is read then."""
    source = VerificationSource(index=4, text=TOWER, title="Leaflet")
    verified = await service({}).verify("The Eiffel Tower is 330 metres tall【4†leaflet】.", sources=[source])
    citation = verified.sentences[0].citations[0]
    assert (citation.verdict, citation.source_index, citation.checked_against) == ("supported", 4, "document")


async def test_pages_that_are_late_do_not_hold_up_the_answer() -> None:
    """After its share of the time the reading ends, and the sources that are missing are late."""
    verified = await service({URL: TOWER}, delay_s=60.0, timeout_s=1.0).verify(f"The tower is 330 metres tall. {URL}")
    assert verified.sources[0].state == "late"


async def test_an_address_is_read_once() -> None:
    """Sources with the same address share one read, whatever tracking parameters they have."""
    reader = _CountingReader()
    text = f"One is here [1]. Two is here [2].\n\n[1] {URL}\n[2] {URL}?utm_source=chatgpt.com\n"
    verified = await VerificationService(reader, FakeWebSearch()).verify(text)
    assert [source.state for source in verified.sources] == ["read", "read"]
    assert reader.count == 1


async def test_concurrent_reads_and_pages_of_one_host_are_limited() -> None:
    """A submitted text cannot make the platform flood a host with requests."""
    reader = _CountingReader()
    urls = [f"https://one.example/{number}" for number in range(MAX_PAGES_PER_HOST + 5)]
    verified = await VerificationService(reader, FakeWebSearch()).verify(
        "\n\n".join(f"It says so {url}" for url in urls)
    )
    assert reader.most <= MAX_CONCURRENT_READS
    assert reader.count == MAX_PAGES_PER_HOST
    assert verified.counts.refused == 5


@for_each(
    "text",
    [" ".join(f"[a](https://a{number}.example)" for number in range(5000))[:100_000], "It is so. " * 9_999],
)
async def test_texts_that_are_too_much_are_refused_before_anything_is_read(text: str) -> None:
    """A text with thousands of addresses or sentences gets an error that says what to do."""
    reader = _CountingReader()
    with pytest.raises(VerificationError, match="Split the text"):
        await VerificationService(reader, FakeWebSearch()).verify(text)
    assert reader.count == 0


def many_sources(count: int) -> list[VerificationSource]:
    return [VerificationSource(index=number, text=TOWER) for number in range(1, count + 1)]


@for_each(
    ("text", "sources", "message"),
    [
        (f"The tower is 330 metres tall [1-{MAX_CITED_SOURCES + 1}].", MAX_CITED_SOURCES + 1, "Cite fewer"),
        ("The tower is 330 metres tall [1-50]. " * 400, MAX_CITED_SOURCES, "Split the text"),
        ("The tower is 330 metres tall [1-50]. " * 100, MAX_CITED_SOURCES, "Split the text"),
        ("\n".join(["The tower is 330 metres tall."] * 100) + " [1-50]", MAX_CITED_SOURCES, "Split the text"),
    ],
)
async def test_texts_that_cite_too_much_are_refused_before_anything_is_compared(
    text: str, sources: int, message: str
) -> None:
    """`[1-50]` after each of 400 sentences would be 20,000 comparisons. The error states the limit."""
    with pytest.raises(VerificationError, match=message):
        await service({}).verify(text, sources=many_sources(sources))


async def test_the_most_that_a_sentence_may_cite_is_compared() -> None:
    """Fifty sources of one sentence have fifty citations."""
    verified = await service({}).verify("The tower is 330 metres tall [1-50].", sources=many_sources(MAX_CITED_SOURCES))
    assert len(verified.sentences[0].citations) == MAX_CITED_SOURCES


async def test_what_is_not_compared_in_time_is_unchecked_and_told() -> None:
    """After its share of the time nothing is compared any more, whatever stage it is in."""
    text = "The tower is 330 metres tall [1]. It was completed in 1889 [1].\n\nIt is repainted every seven years."
    verified = await service({}, timeout_s=1e-6).verify(text, sources=many_sources(1))
    assert {sentence.verdict for sentence in verified.sentences} == {"unchecked"}
    assert [entry.component for entry in verified.degraded] == ["citations"]
    assert verified.late_sentences == 3
    assert "late_sentences" not in verified.model_dump()


async def test_a_thread_ends_soon_after_its_caller_has_left() -> None:
    """A cancelled verification compares no further sentence, because running threads would delay the server's shutdown."""
    signal, compared = StopSignal(), 0
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def compare() -> None:
        nonlocal compared
        loop.call_soon_threadsafe(begun.set)
        while not signal.is_set:
            compared += 1

    task = asyncio.create_task(run_stoppable(signal, compare))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await loop.run_in_executor(None, lambda: None)
    with pytest.raises(WorkStoppedError):
        signal.check()


@for_each("text", ["", " \n ", "[](", "a\x00b", "a" * 100_001])
async def test_texts_without_words_or_of_more_than_the_limit_are_refused(text: str) -> None:
    """The request itself is checked first."""
    with pytest.raises(ValidationError):
        await service({}).verify(text)


async def test_sentences_are_sent_as_their_sources_are_read() -> None:
    """A sentence is sent before a slower page that it does not cite is read."""
    pages: dict[str, PageOutcome] = {URL: TOWER, "https://b.example/late": PageTimeoutError()}
    text = f"The Eiffel Tower is 330 metres tall {URL}.\n\nIt is late https://b.example/late.\n"
    request = VerificationRequest(text=text)
    kinds = [event.type async for event in service(pages).stream(request)]
    assert kinds[:2] == ["started", "sources"]
    assert kinds[-1] == "done"
    assert sorted(kinds[2:-1]) == ["read", "read", "sentence", "sentence"]
    found = [event async for event in service(pages).stream(request)]
    last = found[-1]
    assert isinstance(last, TextVerified)
    assert isinstance(found[1], SourcesNamed)
    sent = [event.sentence for event in found if isinstance(event, SentenceVerified)]
    assert sorted(sent, key=lambda sentence: sentence.start) == list(last.response.sentences)


async def test_sentences_without_support_are_searched_where_asked() -> None:
    """`find_sources` searches the web for them; the source that supports one is added under a new number."""
    search = FakeWebSearch([WebSearchResultItem(title="Tower", url=URL, snippet="")])
    text = "The Eiffel Tower is 330 metres tall. Nobody knows the number of its rivets in detail."
    without = await service({URL: TOWER}, search=search).verify(text)
    found = await service({URL: TOWER}, search=search).verify(text, find_sources=True)
    assert [sentence.verdict for sentence in without.sentences] == ["unchecked", "unchecked"]
    assert [sentence.verdict for sentence in found.sentences] == ["supported", "unsupported"]
    assert [(source.index, source.is_found) for source in found.sources] == [(1, True)]
    assert found.metadata.searches == 2


@in_virtual_time
async def test_searches_end_in_time_and_the_missing_ones_are_told() -> None:
    """A search engine that hangs delays no verdict beyond the time limit, and no sentence looks as if it had been searched."""
    search = FakeWebSearch([WebSearchResultItem(title="Tower", url=URL, snippet="")], delay_s=3600.0)
    text = " ".join(f"The tower number {number} has {number + 300} metres of iron." for number in range(9))
    verified = await service({URL: TOWER}, search=search, timeout_s=10.0).verify(text, find_sources=True)
    assert asyncio.get_running_loop().time() < 10.0
    assert search.running == 0
    (late,) = [entry for entry in verified.degraded if entry.component == search.name]
    assert late.reason.startswith("timeout: 9 sentences were not searched for")
    assert verified.metadata.searches == len(search.requests) == 3


@for_each("finds_sources", [False, True])
async def test_documents_of_the_operator_are_searched_without_being_asked_for(finds_sources: bool) -> None:
    """A text from these documents names no source. The web is searched only where the caller asks for it."""
    document = "doc:towers/eiffel.md"
    search = FakeWebSearch([WebSearchResultItem(title="Tower", url=document, snippet="")])
    options = VerificationOptions(searches_documents=True)
    verification = VerificationService(FakePageReader({document: TOWER}), search, options=options)
    verified = await verification.verify("The Eiffel Tower is 330 metres tall.", find_sources=finds_sources)
    assert verified.sentences[0].verdict == "supported"
    assert [(source.url, source.text_kind, source.is_found) for source in verified.sources] == [
        (document, "document", True)
    ]
    assert [request.sources for request in search.requests] == [
        ("web", "documents") if finds_sources else ("documents",)
    ]


@for_each(("url", "finding"), [("doc:towers/eiffel.md", "contradicts"), (URL, "absent")])
async def test_only_documents_of_the_operator_contradict_without_being_cited(url: str, finding: str) -> None:
    """A page that a web search finds may be about something else, so it only supports."""
    search = FakeWebSearch([WebSearchResultItem(title="Tower", url=url, snippet="")])
    options = VerificationOptions(searches_documents=url != URL)
    verification = VerificationService(FakePageReader({url: TOWER}), search, options=options)
    verified = await verification.verify("The Eiffel Tower is 400 metres tall.", find_sources=url == URL)
    (sentence,) = verified.sentences
    assert (sentence.verdict, sentence.finding) == ("unsupported", finding)
    assert [citation.finding for citation in sentence.citations] == (["contradicts"] if url != URL else [])


async def test_a_text_with_sources_is_compared_only_with_them() -> None:
    """This holds for sources named in the text and given by the caller.

    A contradicted sentence is not searched elsewhere.
    """
    search = FakeWebSearch([WebSearchResultItem(title="Tower", url="doc:eiffel.md", snippet="")])
    options = VerificationOptions(searches_documents=True)
    verification = VerificationService(FakePageReader({URL: TOWER}), search, options=options)
    named = await verification.verify(f"The Eiffel Tower is 400 metres tall {URL} . It is painted blue.")
    request = VerificationRequest(text="The Eiffel Tower is 400 metres tall.")
    given = await verification.run(request, given=[CitedSource(1, title="Tower", text=TOWER, is_numbered=False)])
    assert not search.requests
    assert named.counts.sources == given.counts.sources == 1


async def test_a_search_that_fails_degrades_the_answer() -> None:
    """The verdicts of the text's own sources are still useful."""
    search = FakeWebSearch(WebSearchConnectionError())
    verified = await service({URL: TOWER}, search=search).verify(f"It is 999 metres tall {URL}", find_sources=True)
    assert [entry.component for entry in verified.degraded] == [search.name]
    assert verified.counts.unsupported == 1


async def test_the_judge_decides_what_words_doubt() -> None:
    """A configured model is asked about doubted sentences, as in research."""
    judge = FakeCitationJudge("supported")
    text = f"Workers give the tower a fresh coat of colour at intervals of less than a decade {URL}"
    verified = await service({URL: TOWER}, judge=judge).verify(text)
    citation = verified.sentences[0].citations[0]
    assert (citation.verdict, citation.checked_by) == ("supported", "model")
    assert len(judge.calls) == 1
    assert verified.metadata.verdicts_changed == 1


async def test_a_support_model_decides_where_the_judge_fails() -> None:
    """Both kinds of citations: of the author, and found for a sentence without one."""
    text = (
        f"Workers give the tower a fresh coat of colour at intervals of less than a decade {URL} . The building of the Eiffel "
        "Tower had ended when 1889 was over."
    )
    judge = FakeCitationJudge(error=LLMProviderException("no route to the model"))
    verification = VerificationService(
        FakePageReader({URL: TOWER}), FakeWebSearch(), judge, support_model=FakeSupportModel(50.0)
    )
    verified = await verification.verify(text)
    assert [(found.verdict, found.citations[0].checked_by, found.is_cited) for found in verified.sentences] == [
        ("supported", "encoder", True),
        ("supported", "encoder", False),
    ]
    assert [entry.component for entry in verified.degraded] == [judge.name]


class _CountingReader(FakePageReader):
    """Counts its reads, and how many run at once."""

    def __init__(self) -> None:
        super().__init__({})
        self.count = self.most = self._running = 0

    async def read(self, url: str) -> Page:
        self.count += 1
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(0.001)
        self._running -= 1
        return sample_page(url, TOWER)


def _stored(text: str, citations: tuple[Citation, ...]) -> ResearchJobDetail:
    response = ResearchResponse(
        query="How tall is it?",
        depth="shallow",
        synthesis=text,
        citations=citations,
        sources=(SourceRef(index=1, title="Tower", url=URL),),
        metadata=ResearchMetadata(latency_ms=1),
    )
    return ResearchJobDetail(
        id="abc",
        status="done",
        query="How tall is it?",
        depth="shallow",
        created_at=READ_AT,
        finished_at=READ_AT,
        request=ResearchRequest(query="How tall is it?"),
        response=response,
    )


async def test_a_stored_answer_is_compared_with_the_current_pages() -> None:
    """Changed statements are reported with both quotes, and unchanged ones are not."""
    text = "The Eiffel Tower is 330 metres tall [1]. It was completed in 1889 [1]."
    before = (await service({URL: TOWER}).verify(f"{text}\n\n[1] {URL}")).sentences
    citations = tuple(citation for sentence in before for citation in sentence.citations)
    again = await service({URL: TOWER.replace("330", "324")}).verify_again(_stored(text, citations))
    [change] = again.changed
    assert (text[change.sentence.start : change.sentence.end], again.no_longer_hold) == (
        "The Eiffel Tower is 330 metres tall",
        1,
    )
    assert change.now is not None
    assert (change.was.quote, change.now.quote) == (
        "The Eiffel Tower is 330 metres tall.",
        "The Eiffel Tower is 324 metres tall.",
    )
    assert (again.answered_at, again.query) == (READ_AT, "How tall is it?")
    same = await service({URL: TOWER}).verify_again(_stored(text, citations))
    assert (same.changed, same.no_longer_hold) == ((), 0)
    gone = await service({URL: PageNotFoundError()}).verify_again(_stored(text, citations))
    assert (len(gone.changed), gone.no_longer_hold) == (2, 2)


async def test_other_requests_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sentences a text has, a few are sent at once."""
    made, most = 0, 0
    describe_sentence = SentenceCheck.describe_sentence

    def counted(self: SentenceCheck, position: int, *, has_no_text: bool = False) -> VerifiedSentence:
        nonlocal made
        made += 1
        return describe_sentence(self, position, has_no_text=has_no_text)

    async def tick() -> None:
        nonlocal made, most
        while True:
            most, made = max(most, made), 0
            await asyncio.sleep(0)

    monkeypatch.setattr(SentenceCheck, "describe_sentence", counted)
    ticking = asyncio.create_task(tick())
    found = await service({URL: TOWER}).verify(f"{'The Eiffel Tower is 330 metres tall. ' * 1000}\n\n{URL}")
    ticking.cancel()
    assert len(found.sentences) >= 1000
    assert most <= 2 * SENTENCE_BATCH_SIZE


@pytest.mark.parametrize(
    ("error", "state"),
    [(PageTimeoutError(), "late"), (PageBlockedError(), "refused"), (PageError(), "no_text")],
    ids=["late", "refused", "no_text"],
)
async def test_an_unread_page_is_no_change(error: AppException, state: str) -> None:
    """A slow or unavailable server is no change, so the owner of a watch is not notified."""
    text = "The Eiffel Tower is 330 metres tall [1]."
    before = (await service({URL: TOWER}).verify(f"{text}\n\n[1] {URL}")).sentences
    again = await service({URL: error}).verify_again(_stored(text, before[0].citations))
    assert (again.sources[0].state, again.changed, again.no_longer_hold) == (state, (), 0)


async def test_a_run_without_an_answer_cannot_be_verified() -> None:
    """It has failed, or is not done yet."""
    with pytest.raises(VerificationError, match="no answer"):
        await service({}).verify_again(_stored("", ()).model_copy(update={"response": None}))


async def test_a_citation_of_a_pdf_names_its_page() -> None:
    """The quote has its page number, and the source has its number of pages."""
    text = "Nothing is said here.\n\nThe Eiffel Tower is 330 metres tall."
    page = sample_page(URL, text).model_copy(update={"pages": ((0, 1), (23, 2))})
    verified = await service({URL: page}).verify(f"The Eiffel Tower is 330 metres tall {URL}")
    assert verified.sources[0].pages == 2
    assert verified.sentences[0].citations[0].page == 2
