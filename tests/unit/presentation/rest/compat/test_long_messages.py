"""Last messages that are longer or shorter than a question, and long system messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.application.services.test_follow_ups import FIRST, NOISE, PUMPS
from tests.unit.application.services.test_research_service import Library, service
from tests.unit.domain.research.test_long_message import AGENT
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.request_dtos import MAX_INSTRUCTION_CHARS, MAX_STORED_TURNS, ShortMessage
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.presentation.rest.compat import chat_completions

Body = Mapping[str, Any]


def chat(model: str, *messages: str, **fields: Any) -> dict[str, Any]:
    """Return a conversation: the last message is of the user, the ones before it of the system."""
    *before, last = messages
    sent = [*({"role": "system", "content": text} for text in before), {"role": "user", "content": last}]
    return {"model": model, "messages": sent, **fields}


def response_input(*messages: str, **fields: Any) -> dict[str, Any]:
    *before, last = messages
    return {
        "model": "research-shallow",
        "input": last,
        **({"instructions": "\n".join(before)} if before else {}),
        **fields,
    }


DOORS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "openai": ("/v1/chat/completions", lambda *messages, **fields: chat("research-shallow", *messages, **fields)),
    "responses": ("/v1/responses", response_input),
    "perplexity": ("/perplexity/chat/completions", lambda *messages, **fields: chat("sonar", *messages, **fields)),
}
SEARCHES = {
    "/perplexity/search": "query",
    "/tavily/search": "query",
    "/searxng/search": "q",
    "/search": "q",
    "/open-webui/search": "query",
}
PLACES = {"openai": "messages.0.content", "responses": "input", "perplexity": "messages.0.content"}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def text_of(answer: Body) -> str:
    if "output" in answer:
        return str(answer["output"][-1]["content"][0]["text"])
    return str(answer["choices"][0]["message"]["content"])


async def post(client: httpx2.AsyncClient, door: str, *messages: str, **fields: Any) -> httpx2.Response:
    path, body = DOORS[door]
    return await client.post(path, json=body(*messages, **fields))


async def test_long_message_is_a_question_with_context(
    client: httpx2.AsyncClient, services: FakeServices, door: str
) -> None:
    """The message of an agent is answered; its question is searched, the whole of it is the context."""
    assert (await post(client, door, AGENT)).status_code == 200
    [request] = services.requests
    assert request.query.startswith("Compare the efficiency of air-source heat pumps")
    assert request.context == AGENT.strip()


async def test_long_system_message_is_continued_in_the_context(
    client: httpx2.AsyncClient, services: FakeServices, door: str
) -> None:
    """Text beyond the limit of the instructions is continued as context, so nothing is lost."""
    lines = [f"Rule {number}: write plainly." for number in range(MAX_INSTRUCTION_CHARS // 10)]
    assert (await post(client, door, "\n".join(lines), "What is tea?")).status_code == 200
    [request] = services.requests
    assert request.query == "What is tea?"
    assert [*request.instructions.splitlines(), *request.context.splitlines()] == lines


async def test_longest_message(client: httpx2.AsyncClient, services: FakeServices, door: str) -> None:
    """The longest message is accepted; one more is refused, and the error names where it was sent."""
    assert (await post(client, door, "word " * (MAX_MESSAGE_CHARS // 5))).status_code == 200
    assert (await post(client, door, "w" * 100_000, "What is tea?")).status_code == 200  # a system message is cut
    refused = await post(client, door, "w" * (MAX_MESSAGE_CHARS + 1))
    assert refused.status_code in (400, 422)
    error = refused.json()["error"]
    assert error["param"] == PLACES[door]
    assert str(MAX_MESSAGE_CHARS) in error["message"]


@for_each(
    "message, wishes, language",
    [("hi", None, "en"), ("OK", None, "en"), ("hi", "Bitte antworte kurz und auf Deutsch.", "de"), ("да", None, "ru")],
)
async def test_two_letters_have_no_language(
    real: httpx2.AsyncClient, message: str, wishes: str | None, language: str
) -> None:
    """The answer is in the language of the system prompt, else English; letters of one language alone are that language."""
    answer = await post(real, "openai", *([wishes] if wishes else []), message)
    assert answer.json()["llm_platform"]["metadata"]["language"] == language


@for_each("message", ["", "   ", "\u200b\u200b", "a\x00b"])
async def test_errors_name_what_the_client_sent(client: httpx2.AsyncClient, door: str, message: str) -> None:
    """Not the field of our request; a list of inputs by its place."""
    refused = await post(client, door, message)
    assert refused.json()["error"]["param"] == PLACES[door]
    turns = [{"role": "user", "content": "What is tea?"}, {"role": "assistant", "content": "A drink."}]
    listed = {
        "model": "research-shallow",
        "input": [*turns, {"role": "user", "content": message}],
        "instructions": "Be brief.",
    }
    assert (await client.post("/v1/responses", json=listed)).json()["error"]["param"] == "input.2.content"


@pytest.fixture
def library() -> Library:
    return Library([PUMPS, NOISE])


@pytest.fixture
async def real(library: Library) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the application with the real service of research runs."""
    services: Any = FakeServices()
    it = service(library, jobs=services.jobs)
    services.research, services.stream_research, services.load_earlier_turns = (
        it.research,
        it.stream,
        it.load_earlier_turns,
    )
    services.plan = it.plan
    async with app_client(services) as client:
        yield client


@for_each(
    "message, start",
    [
        ("hi", "Ask a short question"),
        ("ok", "Ask a short question"),
        ("?!", "Ask a short question"),
        ("你好", "请用"),
        ("да", "Задайте"),
    ],
)
async def test_message_too_short_to_search_is_answered_in_words(
    real: httpx2.AsyncClient, library: Library, door: str, message: str, start: str
) -> None:
    """200 without a search or a model, in the language of its script; as a stream too."""
    answer = (await post(real, door, message)).json()
    assert text_of(answer).startswith(start)
    assert answer["usage"]["total_tokens"] == 0
    streamed = await post(real, door, message, stream=True)
    assert streamed.status_code == 200
    assert start in streamed.text.encode().decode("unicode_escape", "ignore") or start in streamed.text
    assert library.asked == []


async def test_short_message_does_not_end_the_conversation(real: httpx2.AsyncClient, library: Library) -> None:
    """Messages after a short message are understood in the context of the earlier turns, if there are any."""
    first = (await post(real, "responses", FIRST)).json()["id"]
    thanks = (await post(real, "responses", "ok", previous_response_id=first)).json()["id"]
    answer = (await post(real, "responses", "How loud are they?", previous_response_id=thanks)).json()
    assert "heat pumps" in answer["llm_platform"]["metadata"]["understood_question"]
    hello = (await post(real, "responses", "hi")).json()["id"]
    assert (await post(real, "responses", FIRST, previous_response_id=hello)).status_code == 200


@for_each("streamed", [False, True])
@for_each("kind", ["json_object", "json_schema"])
async def test_message_too_short_for_a_schema_is_refused(
    real: httpx2.AsyncClient, door: str, kind: str, streamed: bool
) -> None:
    """There is nothing to put into it: the error names the message."""
    answer_format: dict[str, Any] = {"type": kind}
    if kind == "json_schema":
        named = {"name": "answer", "schema": {"type": "object"}}
        answer_format |= named if door == "responses" else {"json_schema": named}
    fields = {"text": {"format": answer_format}} if door == "responses" else {"response_format": answer_format}
    answer = await post(real, door, "hi", stream=streamed, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (422 if door == "perplexity" else 400, PLACES[door])
    assert "too short to fill a schema" in error["message"]


@for_each(
    ("path", "body", "status", "field"),
    [
        ("/v1/responses", {"model": "research-deep", "input": "hi", "background": True}, 400, "input"),
        ("/perplexity/v1/responses", {"effort": "low", "input": "hi", "background": True}, 422, "input"),
        ("/perplexity/async/chat/completions", {"request": chat("sonar", "hi")}, 422, "messages.0.content"),
    ],
)
async def test_message_too_short_for_the_background_is_refused(
    client: httpx2.AsyncClient, path: str, body: Body, status: int, field: str
) -> None:
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, field)
    assert "too short to research in the background" in answer.json()["error"]["message"]


async def test_research_route_keeps_its_limits(client: httpx2.AsyncClient) -> None:
    """A question that is too long is refused there, and a `context` is not."""
    for body, field in (
        ({"query": "hi"}, "query"),
        ({"query": "w" * (MAX_QUERY_CHARS + 1)}, "query"),
        ({"query": "What is tea?", "context": "w" * 32_001}, "context"),
        ({"query": "What is tea?", "context": "a\x00b"}, "context"),
        ({"query": "What is tea?", "context": 1}, "context"),
    ):
        refused = await client.post("/research", json=body)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["loc"] == ["body", field]
    assert (await client.post("/research", json={"query": "What is tea?", "context": "w" * 32_000})).status_code == 200


async def test_long_query_of_a_search(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The question in it is searched; for an answer of Tavily the rest is context."""
    for path, name in SEARCHES.items():
        assert (await client.post(path, json={name: AGENT})).status_code == 200
        assert services.requests[-1].query.startswith("Compare the efficiency")
    assert (await client.get("/searxng/search", params={"q": AGENT, "format": "json"})).status_code == 200
    assert services.requests[-1].query.startswith("Compare the efficiency")
    assert (await client.post("/tavily/search", json={"query": AGENT, "include_answer": True})).status_code == 200
    assert (services.requests[-1].context, len(services.requests[-1].query) <= MAX_QUERY_CHARS) == (AGENT.strip(), True)


def test_questions_are_looked_for_in_the_turns_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients send the whole conversation each time, so only the kept turns are searched for questions."""
    looked_at: list[str] = []
    monkeypatch.setattr(chat_completions, "find_question", lambda text: looked_at.append(text) or text)
    turns = [
        chat_completions.CompletionMessage(role=role, content=f"{role} {number}")
        for number in range(30)
        for role in ("user", "assistant", "assistant")
    ]
    question = chat_completions.CompletionMessage(role="user", content="What is tea?")
    history = chat_completions.research_request([*turns, question], "shallow").history
    assert [(turn.question, turn.answer) for turn in history] == [
        (f"user {number}", f"assistant {number}") for number in range(30 - MAX_STORED_TURNS, 30)
    ]
    assert len(looked_at) == MAX_STORED_TURNS


@for_each("path", [path for path in SEARCHES if path != "/search"])
async def test_errors_of_a_search_name_the_field(client: httpx2.AsyncClient, path: str) -> None:
    """Clients show nothing else of an error than its message."""
    refused = await client.post(path, json={SEARCHES[path]: "w" * (MAX_MESSAGE_CHARS + 1)})
    assert refused.status_code in (400, 422)
    body = refused.json()
    message = body["detail"] if path.startswith("/open-webui") else body.get("error") or body["detail"]["error"]
    text = message["message"] if isinstance(message, dict) else message
    assert text == f"{SEARCHES[path]}: must have at most {MAX_MESSAGE_CHARS} characters"


@for_each(
    ("path", "sent", "message"),
    [
        (
            "/perplexity/search",
            {"query": ["tea", "w" * (MAX_MESSAGE_CHARS + 1)]},
            f"query.1: must have at most {MAX_MESSAGE_CHARS} characters",
        ),
        ("/perplexity/search", {"query": []}, "query: must have at least 1 item"),
        ("/perplexity/search", {"query": 1}, "query: must be a valid string"),
        ("/perplexity/search", {"query": {"text": "tea"}}, "query: must be a valid string"),
        ("/tavily/extract", {"urls": "w" * 3000}, "urls: must have at most 2000 characters"),
        ("/tavily/extract", {"urls": ["https://example.org", 1]}, "urls.1: must be a valid string"),
    ],
)
async def test_one_or_several(client: httpx2.AsyncClient, path: str, sent: Body, message: str) -> None:
    """An error names the position in the request, and is not repeated for each type of the union."""
    body = (await client.post(path, json=sent)).json()
    assert (body.get("error") or {"message": body["detail"]["error"]})["message"] == message


async def test_short_query_with_an_answer(services: FakeServices) -> None:
    """Tavily's clients ask an answer to `hi` too: it has the results, and the words of a chat as the answer."""
    async with app_client(services) as client:
        found = (await client.post("/tavily/search", json={"query": "hi"})).json()["results"]
        answered = await client.post("/tavily/search", json={"query": "hi", "include_answer": True})
    assert answered.status_code == 200
    assert answered.json()["results"] == found
    assert isinstance(services.requests[-2], ShortMessage)
    assert answered.json()["answer"] == services.answer
