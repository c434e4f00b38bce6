"""The answer stage: its sources, its citations, and its fallbacks."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.rag_world import ROLES, SECRETS, SESSIONS, Indexed, RagWorld
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.rag import answering as limits
from modules.llm_platform.application.services.answer_service import MAX_QUESTION_CHARS, AnswerOptions
from modules.llm_platform.domain.concurrency.deadline import Deadline, set_deadline
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagCitation, RagQuestion
from modules.llm_platform.domain.exceptions import (
    LLMConfigError,
    LLMConnectionError,
    LLMProviderException,
    LLMTimeoutError,
    PageConnectionError,
    PageError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.testing import FakeLLM, sample_page
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true

QUESTION = "How long does a session token stay valid?"
GIVEN = ContextItem(doc_id="mine", snippet="In the test system a session token stays valid for a year.")
AT_ONCE_S = 20.0  # limit for what would otherwise wait for half a minute, on a busy machine
PAGE = "https://wiki.example.org/tokens"
CITED_SESSIONS = RagCitation(doc_id="sessions", title="Sessions", url="https://docs.example.org/sessions")
CITED_ROLES = RagCitation(doc_id="roles", title="Roles")


def sources_of(writer: FakeSynthesizer) -> list[str]:
    """Return the texts that the writer was given, in its order."""
    (call,) = writer.calls
    assert [source.index for source in call.sources] == list(range(1, len(call.sources) + 1))
    return [source.text for source in call.sources]


async def test_context_comes_first_and_the_index_fills_up() -> None:
    """The writer gets the given context first, and then passages of the index."""
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=writer).indexed()
    await world.answer(QUESTION, GIVEN)
    assert sources_of(writer) == [GIVEN.snippet, SESSIONS.texts[0], ROLES.texts[0]]


@for_each(("top_k", "found"), [(1, 0), (2, 1), (3, 2), (None, 1)])
async def test_it_fills_up_to_the_setting_and_no_further(top_k: int | None, found: int) -> None:
    """The limit is `top_k` of the question, else of the settings. If the context reaches it, the index is not searched."""
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=writer, options=AnswerOptions(top_k=2)).indexed()
    await world.answer(QUESTION, GIVEN, top_k=top_k)
    assert len(sources_of(writer)) == 1 + found
    assert bool(world.store.searches) is (found > 0)


async def test_more_context_than_the_setting_is_all_used() -> None:
    """The limit applies to the search, not to the given context."""
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=writer, options=AnswerOptions(top_k=1)).indexed()
    await world.answer(QUESTION, GIVEN, ContextItem(snippet="Another text."), ContextItem(snippet="A third one."))
    assert len(sources_of(writer)) == 3


async def test_no_document_comes_twice() -> None:
    """What the context has, by id or by address, is not added from the index, and makes no hole either."""
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=writer, options=AnswerOptions(top_k=2)).indexed()
    await world.answer(QUESTION, ContextItem(doc_id="sessions", snippet="Tokens are valid for a while."))
    assert sources_of(writer) == ["Tokens are valid for a while.", ROLES.texts[0]]
    again = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=again, pages={f"{SESSIONS.url}#top": "The page itself."}).indexed()
    await world.answer(QUESTION, ContextItem(url=f"{SESSIONS.url}#top"))
    assert sources_of(again) == ["The page itself.", ROLES.texts[0]]


async def test_it_answers_from_the_context_when_the_store_is_down() -> None:
    """With a context the index is optional. Its failure is reported once."""
    world = await RagWorld().indexed()
    world.store.error = VectorStoreError("the index cannot be reached: start it")
    answer = await world.answer(QUESTION, GIVEN)
    assert "a year [1]" in answer.answer
    assert answer.citations == (RagCitation(doc_id="mine"),)
    assert [(degradation.component, degradation.reason) for degradation in answer.degraded] == [
        ("index", "vector_store: the index cannot be reached: start it")
    ]


@for_each("error", [VectorStoreError("away"), VectorStoreConfigError("make it")])
@for_each("context", [(), (ContextItem(doc_id="sessions"),)])
async def test_an_unavailable_store_is_not_an_empty_answer(
    error: VectorStoreError | VectorStoreConfigError, context: tuple[ContextItem, ...]
) -> None:
    """Without a context a failed index is an error, because the answer is unknown."""
    world = await RagWorld().indexed()
    world.store.error = error
    with pytest.raises(type(error)) as raised:
        await world.answer(QUESTION, *context)
    assert raised.value is error


@pytest.mark.parametrize(
    ("question", "words"),
    [(QUESTION, "Nothing was found."), ("Wie lange gilt ein Token?", "Es wurde nichts gefunden.")],
)
async def test_nothing_to_answer_from_is_a_plain_answer(question: str, words: str) -> None:
    """Without context and hits, a fixed text in the question's language is returned, without a citation and without a
    model call.
    """
    llm = FakeLLM(["I make something up."])
    world = await RagWorld((), llm=llm).indexed()
    answer = await world.answer(question, ContextItem(snippet=" \n"), ContextItem())
    assert (answer.answer, answer.citations, answer.answered, answer.degraded) == (words, (), False, ())
    assert llm.requests == []


async def test_an_address_is_read_and_cited_as_it_was_given() -> None:
    """A context item with an address instead of words is read; its document has the page's title."""
    page = sample_page(f"{PAGE}/", "A session token of the wiki stays valid for two hours.", "The\n wiki")
    world = await RagWorld((), pages={PAGE: page}).indexed()
    answer = await world.answer(QUESTION, ContextItem(doc_id="w", url=PAGE))
    assert answer.citations == (RagCitation(doc_id="w", title="The wiki", url=PAGE),)
    assert "two hours [1]" in answer.answer


async def test_given_text_needs_no_reading() -> None:
    """If text is given with an address, the address is only cited."""
    world = await RagWorld(()).indexed()
    answer = await world.answer(QUESTION, ContextItem(snippet=GIVEN.snippet, url=PAGE))
    assert answer.citations == (RagCitation(url=PAGE),)
    assert world.reader.urls == []


async def test_unreadable_page_is_degraded_and_the_others_answer() -> None:
    """`degraded` names the host of the failed page, without its address."""
    world = await RagWorld(pages={PAGE: PageError("there is no text to be had")}).indexed()
    answer = await world.answer(QUESTION, ContextItem(url=PAGE))
    assert answer.citations == (CITED_SESSIONS,)
    assert [(degradation.component, degradation.reason) for degradation in answer.degraded] == [
        ("read/wiki.example.org", "page_error: there is no text to be had")
    ]


async def test_when_nothing_can_be_read_the_error_that_may_pass_is_raised() -> None:
    """A failure is never an empty answer; of several, one that is worth another try."""
    pages = {PAGE: PageError("no text"), f"{PAGE}/2": PageConnectionError("not reachable")}
    world = await RagWorld((), pages=pages).indexed()
    with pytest.raises(PageConnectionError):
        await world.answer(QUESTION, ContextItem(url=PAGE), ContextItem(url=f"{PAGE}/2"))
    with pytest.raises(PageError):
        await world.answer(QUESTION, ContextItem(url=PAGE))


@in_virtual_time
async def test_pages_are_read_side_by_side_a_bounded_number_of_them_each_once() -> None:
    """Concurrent reads and the number of pages are limited, and each page is read once. Omitted pages are reported."""
    urls = [f"{PAGE}/{number}" for number in range(limits.MAX_PAGES + 3)]
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(
        (), pages={url: f"Text of {url}" for url in urls}, page_delay_s=0.05, writer=writer
    ).indexed()
    asking = asyncio.create_task(world.answer(QUESTION, *(ContextItem(url=url) for url in [urls[0], *urls])))
    most = 0
    while not asking.done():
        most = max(most, world.reader.running)
        await asyncio.sleep(0.005)
    assert most == limits.MAX_CONCURRENT_READS
    assert world.reader.urls == urls[: limits.MAX_PAGES]
    assert len(sources_of(writer)) == limits.MAX_PAGES + 1
    assert limits.TOO_MANY_PAGES in [degradation.reason for degradation in asking.result().degraded]


@in_virtual_time
async def test_a_page_that_does_not_come_is_not_waited_for() -> None:
    """Pages have a share of the time; the rest is for the answer."""
    world = await RagWorld(pages={PAGE: "Late."}, page_delay_s=30, options=AnswerOptions(timeout_s=0.5)).indexed()
    answer = await world.answer(QUESTION, ContextItem(url=PAGE))
    assert asyncio.get_running_loop().time() <= 0.5
    assert answer.citations == (CITED_SESSIONS,)
    assert answer.degraded[0].reason.startswith("page_timeout: ")
    assert world.reader.running == 0


async def test_a_long_context_is_cut_and_said_so() -> None:
    """A message may contain thousands of pieces. The first ones are used."""
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=writer).indexed()
    answer = await world.answer(QUESTION, *(ContextItem(snippet=f"Text {n}.") for n in range(limits.MAX_PASSAGES + 1)))
    assert len(sources_of(writer)) == limits.MAX_PASSAGES
    assert limits.TOO_MANY_PASSAGES in [degradation.reason for degradation in answer.degraded]


async def test_ids_are_looked_up_for_title_and_address() -> None:
    """The index gives title and address of its documents.

    For other documents the given data is used, and an unsafe address is dropped.
    """
    world = await RagWorld(
        writer=FakeSynthesizer("In the test system a session token stays valid for a year [1][2][3].")
    ).indexed()
    answer = await world.answer(
        QUESTION,
        ContextItem(doc_id="sessions", snippet=GIVEN.snippet, url="https://elsewhere.example.org/"),
        ContextItem(doc_id="other", snippet=GIVEN.snippet, url="javascript:alert(1)"),
        ContextItem(doc_id="roles", snippet=GIVEN.snippet),
    )
    assert answer.citations == (CITED_SESSIONS, RagCitation(doc_id="other"), CITED_ROLES)


async def test_a_document_that_is_only_named_brings_its_text() -> None:
    """A document given only by its id is read from the index. An unknown id is reported."""
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=writer, options=AnswerOptions(top_k=1)).indexed()
    answer = await world.answer(QUESTION, ContextItem(doc_id="roles"), ContextItem(doc_id="unknown"))
    assert sources_of(writer) == [ROLES.texts[0]]
    assert limits.NOT_INDEXED in [degradation.reason for degradation in answer.degraded]


@pytest.mark.parametrize("snippet", [None, "What the asker says of it: a session token stays valid for an hour."])
async def test_filters_hide_other_documents_however_they_are_named(snippet: str | None) -> None:
    """A tenant that names a document of another tenant gets neither its text nor its title or address."""
    world = await RagWorld((SESSIONS, SECRETS)).indexed()
    asked = RagQuestion(
        question="How often is the session token of Umbrella rotated?",
        context=(ContextItem(doc_id="secrets", snippet=snippet),),
        filters={"tenant": ("acme",), "lang": ()},
    )
    told = (await world.answers.answer(asked)).model_dump_json()
    assert "every night" not in told
    assert "Umbrella" not in told.replace("Umbrella rotated", "")
    assert "umbrella.example" not in told


async def test_filters_let_own_documents_be_named() -> None:
    """The same document, asked for by whom it belongs to."""
    world = await RagWorld((SESSIONS, SECRETS)).indexed()
    answer = await world.answer(
        "How often is the session token rotated?", ContextItem(doc_id="secrets"), filters={"tenant": ("umbrella", "x")}
    )
    assert "every night [1]" in answer.answer
    assert [citation.title for citation in answer.citations] == ["Umbrella's session secrets"]


async def test_citations_are_those_of_supported_sentences() -> None:
    """Each cited document is listed once in the order of the text, if it supports its sentence.

    `[n]` refers to the n-th document.
    """
    text = (
        "Only the owner of an account may renew a session token [3]. The sky is made of green cheese [1]. "
        "A session token stays valid for thirty minutes after the last request [2][3][9]."
    )
    world = await RagWorld(llm=FakeLLM([text])).indexed()
    answer = await world.answer(QUESTION, GIVEN)
    assert answer.answer == (
        "Only the owner of an account may renew a session token [1]. The sky is made of green cheese. "
        "A session token stays valid for thirty minutes after the last request [2][1]."
    )
    assert answer.citations == (CITED_ROLES, CITED_SESSIONS)
    assert any(degradation.reason.startswith("unsupported: ") for degradation in answer.degraded)
    assert answer.synthesizer == "fake/fake-1"
    assert answer.spent.calls == 1


async def test_two_pieces_of_a_document_share_its_number() -> None:
    """The sender of two snippets of one document finds it once among the citations."""
    world = await RagWorld(
        (), writer=FakeSynthesizer("Apples are red and ripe in May [1]. Pears are green and ripe in June [2].")
    ).indexed()
    answer = await world.answer(
        "Which fruit is ripe?",
        ContextItem(doc_id="fruit", snippet="Apples are red and ripe in May."),
        ContextItem(doc_id="fruit", snippet="Pears are green and ripe in June."),
    )
    assert answer.answer == "Apples are red and ripe in May [1]. Pears are green and ripe in June [1]."
    assert answer.citations == (RagCitation(doc_id="fruit"),)


async def test_words_from_nowhere_are_used_and_not_cited() -> None:
    """A snippet without id and address is no document that anybody could look up."""
    world = await RagWorld(()).indexed()
    answer = await world.answer(QUESTION, ContextItem(snippet=GIVEN.snippet))
    assert answer.answered
    assert answer.answer == GIVEN.snippet
    assert answer.citations == ()


@pytest.mark.parametrize("error", [LLMConnectionError("not reachable"), LLMConfigError("set LLM_MODEL")])
async def test_a_model_that_fails_is_an_error(error: LLMConnectionError | LLMConfigError) -> None:
    """The sender of a request learns it and can ask again: quotes would be the answer for ever."""
    world = await RagWorld(llm=FakeLLM([error])).indexed()
    with pytest.raises(type(error)):
        await world.answer(QUESTION)


async def test_fallback_answers_with_quotes() -> None:
    """The answer consists of quotes, and says that the model failed."""
    world = await RagWorld(llm=FakeLLM([LLMConnectionError("not reachable")])).indexed()
    answer = await world.answers.answer(RagQuestion(question=QUESTION), use_fallback=True)
    assert answer.synthesizer == "extractive"
    assert "thirty minutes after the last request [1]" in answer.answer
    assert "The language model failed" in answer.answer
    assert answer.citations == (CITED_SESSIONS,)
    assert answer.spent.calls == 1


@pytest.mark.parametrize("use_fallback", [False, True])
async def test_a_model_that_is_late_is_not_waited_for(use_fallback: bool) -> None:
    """There is an error of the model's, or an answer without it, long before the model would have answered."""
    llm = FakeLLM(["Too late."], delay_s=30)
    world = await RagWorld(llm=llm).indexed()
    begun = asyncio.get_running_loop().time()
    set_deadline(Deadline(begun + 0.5))
    asked = world.answers.answer(RagQuestion(question=QUESTION), use_fallback=use_fallback)
    if use_fallback:
        assert (await asked).citations == (CITED_SESSIONS,)
    else:
        with pytest.raises(LLMTimeoutError):
            await asked
    assert asyncio.get_running_loop().time() < begun + AT_ONCE_S
    assert llm.running == 0


async def test_a_text_of_which_nothing_may_be_shown_is_no_answer() -> None:
    """The model is asked once more, then it has failed."""
    writer = FakeSynthesizer("[x]: https://evil.example/\n")
    world = await RagWorld(writer=writer).indexed()
    with pytest.raises(LLMProviderException):
        await world.answer(QUESTION)
    assert len(writer.calls) == 2


async def test_a_model_that_finds_no_answer_says_so() -> None:
    """`answered` is False. The model's text is kept above the closest passages."""
    world = await RagWorld(llm=FakeLLM(["NO_ANSWER The sources do not tell."])).indexed()
    answer = await world.answer(QUESTION)
    assert answer.answer.startswith(f"The sources do not tell.\n\n{get_messages('en').closest}\n\n- ")
    assert not answer.answered
    assert answer.citations == ()


async def test_the_closest_passages_cite_their_documents_on_request() -> None:
    """Each number below the refusal is one of `citations`, so that a reader sees which file the passage is from."""
    world = await RagWorld(llm=FakeLLM(["NO_ANSWER The sources do not tell."])).indexed()
    answer = await world.answers.answer(RagQuestion(question=QUESTION), use_fallback=True, cites_closest=True)
    _, closest = answer.answer.split(get_messages("en").closest)
    assert answer.citations
    assert {number for _, _, number in render_markers(closest)} == set(range(1, len(answer.citations) + 1))
    assert answer.citations[0].url == CITED_SESSIONS.url


async def test_the_language_is_the_questions_unless_one_is_asked_for() -> None:
    """The writer gets a language tag."""
    writer = FakeSynthesizer("Dreißig Minuten.")
    world = await RagWorld(writer=writer).indexed()
    await world.answer("Wie lange ist ein Token gültig?")
    await world.answer("Wie lange ist ein Token gültig?", language="pt_br")
    await world.answer("7?")
    assert [call.language for call in writer.calls] == ["de", "pt-BR", "en"]


async def test_a_question_as_long_as_a_message_is_cut_for_the_writer() -> None:
    """The index searches for the whole question, and the writer gets its beginning. The answer reports the cut."""
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld(writer=writer).indexed()
    answer = await world.answer(QUESTION + " Why?" * 40_000)
    (call,) = writer.calls
    assert len(call.question) == MAX_QUESTION_CHARS
    assert "question" in [degradation.component for degradation in answer.degraded]


async def test_cancelling_stops_everything() -> None:
    """A cancelled request reads no page and calls no model."""
    world = await RagWorld(pages={PAGE: "Late."}, page_delay_s=30).indexed()
    asking = asyncio.create_task(world.answer(QUESTION, ContextItem(url=PAGE)))
    assert await becomes_true(lambda: world.reader.running == 1, START_TIMEOUT_S)
    asking.cancel()
    await asyncio.wait([asking], timeout=AT_ONCE_S)
    assert asking.cancelled()
    assert world.reader.running == 0


@pytest.mark.parametrize("has_prose", [False, True])
async def test_rows_are_compared_over_all_rows_of_a_table(has_prose: bool) -> None:
    """The comparison uses all rows of the table, not only the found passages, of which the index returns at most two."""
    names = "| Site | Pumps |\n| --- | --- |\n"
    sites = ("Oslo", "Bonn", "Graz", "Lyon", "Porto", "Brno")
    parts = [f"{names}| {site} | {number} |\n\n" for number, site in enumerate(sites)]
    prose = "Every site has a plan for its pumps, which names who repairs them and how soon after a call. " * 2
    world = await RagWorld([Indexed("sites", "Sites", (*parts, prose) if has_prose else tuple(parts))]).indexed()
    answer = await world.answer("Which site has the most pumps?")
    assert "Highest “Pumps” of 6 rows" in answer.answer
    assert "| Brno | 5 [1] |" in answer.answer


FILLER = "The kitchen of this house is closed on Mondays, and in August the cook is away for two weeks of holidays. "


@for_each("repeats, has_all", [(2, True), (100, False)])
async def test_a_short_document_is_answered_from_as_a_whole(repeats: int, has_all: bool) -> None:
    """The sentence that answers may be in a passage that shares no word with the question."""
    validity, rest = SESSIONS.texts[0], (FILLER * repeats, "It ends earlier at night.")
    writer = FakeSynthesizer("Thirty minutes.")
    world = await RagWorld([Indexed("sessions", "Sessions", (validity, *rest))], writer=writer).indexed()
    await world.answer(QUESTION)
    (text,) = sources_of(writer)
    assert text.startswith(validity)
    assert all(part.strip() in text for part in rest) is has_all
