"""The gateway forwards a model's answer unchanged, and adds how the conversation supports each sentence."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.chat_server import (
    DONE,
    EVENTS,
    ChatServer,
    Reply,
    answer,
    chunk,
    completion,
    error,
    stream,
    usage_chunk,
)
from tests.support.checked_gateway import be_patient

from modules.llm_platform.container import build_platform
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.compat import verified_answers
from modules.llm_platform.presentation.rest.http import sse
from modules.llm_platform.presentation.verification_text import ABSENT, CONTRADICTED
from shared.config import Settings

RECORDED = Path(__file__).parents[4] / "recordings" / "gateway"
KEY = "key-of-mine-1234"
URL = "https://nordwind.example/handbook"
GIVEN = f"[1] Nordwind handbook {URL}\nThe Nordwind heat pump weighs 142 kg. Its warranty lasts five years.\n\nWhat do you know?"
WRONG = "The Nordwind heat pump weighs 152 kg [1]."
RIGHT = "Its warranty lasts five years [1]."
EXTRA = "It is painted green."
TEXT = f"{WRONG} {RIGHT} {EXTRA}"
MARKED = f"{WRONG} {CONTRADICTED} {RIGHT} {EXTRA} {ABSENT}"
COUNTS = "supported=1, contradicts=1, absent=1, unchecked=0"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits, which have their own tests. A busy machine must not change verdicts."""
    be_patient(monkeypatch)
    monkeypatch.setattr(
        sse, "FIRST_EVENT_S", 60.0
    )  # A head that is sent early is a comment before the bytes of the service.


@asynccontextmanager
async def gateway(folder: Path, upstream: ChatServer, **values: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server with the real parts before a model service on loopback."""
    async with upstream.running():
        settings = Settings.without_environment(
            LLM_PLATFORM_DATA_DIR=folder,
            LLM_KIND="vllm",
            LLM_BASE_URL=upstream.url,
            LLM_API_KEY=KEY,
            LLM_MODEL="small",
            LLM_PLATFORM_OFFLINE=True,
            **values,
        )
        app = create_app(build_platform(settings), settings)
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=20) as client,
        ):
            yield client


def asked(content: str = GIVEN, **more: Any) -> dict[str, Any]:
    return {"model": "vllm/small", "messages": [{"role": "user", "content": content}]} | more


async def chat(client: httpx2.AsyncClient, mode: str | None = "annotate", **more: Any) -> httpx2.Response:
    return await client.post("/v1/chat/completions", json=asked(**more), headers={"X-Verify": mode} if mode else {})


def spoken(text: str, size: int = 4) -> list[bytes]:
    pieces = [chunk(text[at : at + size]) for at in range(0, len(text), size)]
    return [chunk("", role="assistant"), *pieces, chunk(finish="stop"), usage_chunk(9, 9), DONE]


def chunks(response: httpx2.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]


def joined(parts: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for part in parts for choice in part["choices"])


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("*.json")))
async def test_a_whole_answer_is_the_service_s_with_evidence_behind_its_last_field(tmp_path: Path, name: str) -> None:
    body = (RECORDED / name).read_bytes()
    async with gateway(tmp_path, ChatServer(Reply([body]))) as client:
        response = await chat(client, content="What do you know?")
    kept, added = body.rstrip()[:-1].rstrip(), response.content
    assert added.startswith(kept)
    if json.loads(body)["choices"][0]["message"]["content"]:
        assert list(response.json())[-2:] == ["evidence", "llm_platform"]
    else:
        assert added == body
    assert re.fullmatch(r"supported=0, contradicts=0, absent=0, unchecked=\d", response.headers["X-Evidence"])


@pytest.mark.parametrize("mode", ["annotate", "mark"])
@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("*.sse")))
async def test_a_stream_is_the_service_s_with_evidence_before_its_end(tmp_path: Path, name: str, mode: str) -> None:
    body = (RECORDED / name).read_bytes()
    before, done = body[: body.index(b"data: [DONE]")], body[body.index(b"data: [DONE]") :]
    async with gateway(tmp_path, ChatServer(Reply([body], content_type=EVENTS))) as client:
        response = await chat(client, mode, content="What do you know?", stream=True)
    assert response.content.startswith(before)
    assert response.content.endswith(done)
    added = response.content[len(before) : -len(done)]
    if "tools" in name:
        assert added == b""
    else:
        assert json.loads(added[6:])["evidence"] == []
        assert json.loads(added[6:])["llm_platform"]["evidence_counts"]["unchecked"] >= 1


async def test_off_is_the_default_and_the_same_as_without_a_gateway(tmp_path: Path) -> None:
    upstream = ChatServer(answer(completion(TEXT)))
    async with gateway(tmp_path, upstream) as client:
        silent, off = await chat(client, None), await chat(client, "off")
    assert "X-Evidence" not in {*silent.headers, *off.headers}
    for response in (silent, off):
        assert response.json()["choices"][0]["message"] == {"role": "assistant", "content": TEXT}
        assert response.json().keys() == {"id", "object", "created", "model", "choices", "usage"}
    assert upstream.asked[0].body == upstream.asked[1].body


async def test_the_setting_is_the_mode_of_a_request_without_the_header(tmp_path: Path) -> None:
    async with gateway(tmp_path, ChatServer(answer(completion(TEXT))), VERIFY="annotate") as client:
        assert (await chat(client, None)).headers["X-Evidence"] == COUNTS
        assert "X-Evidence" not in (await chat(client, "off")).headers
        refused = [await chat(client, "loud"), await chat(client, "loud", model="research-shallow")]
    for response in refused:
        assert response.status_code == 400
        assert response.json()["error"]["message"] == "X-Verify: must be one of off, annotate, mark"


async def test_annotations_evidence_and_counts_say_what_the_material_says(tmp_path: Path) -> None:
    async with gateway(tmp_path, ChatServer(answer(completion(TEXT)))) as client:
        response = await chat(client)
    body = response.json()
    assert response.headers["X-Evidence"] == COUNTS
    assert body["llm_platform"] == {
        "evidence_counts": {"supported": 1, "contradicts": 1, "absent": 1, "unchecked": 0},
        "degraded": [],
    }
    assert [(one["verdict"], one["finding"], one["source_index"], one["url"]) for one in body["evidence"]] == [
        ("unsupported", "contradicts", 1, URL),
        ("supported", None, 1, URL),
    ]
    wrong = body["evidence"][0]
    assert TEXT[wrong["start"] : wrong["end"]] == WRONG[:-5]
    claimed = wrong["difference"]["claimed"]
    assert TEXT[claimed["start"] : claimed["end"]] == "152"
    annotations = [one["url_citation"] for one in body["choices"][0]["message"]["annotations"]]
    assert [(one["url"], one["title"]) for one in annotations] == [(URL, "Nordwind handbook")] * 2


async def test_marks_stand_behind_their_sentences_and_offsets_count_them(tmp_path: Path) -> None:
    async with gateway(tmp_path, ChatServer(answer(completion(TEXT)))) as client:
        body = (await chat(client, "mark")).json()
    assert body["choices"][0]["message"]["content"] == MARKED
    right = body["evidence"][1]
    assert MARKED[right["start"] : right["end"]] == RIGHT[:-5]


@pytest.mark.parametrize("size", [1, 3, 7, 500])
async def test_a_stream_has_the_same_marks_wherever_its_tokens_end(tmp_path: Path, size: int) -> None:
    async with gateway(tmp_path, ChatServer(stream(*spoken(TEXT, size)))) as client:
        await chat(client, "mark", stream=True)  # The first answer of a process waits for the support model.
        response = await chat(client, "mark", stream=True)
    parts = chunks(response)
    assert joined(parts) == MARKED
    assert [one["finding"] for one in parts[-1]["evidence"]] == ["contradicts", None]
    assert MARKED[parts[-1]["evidence"][1]["start"] :].startswith(RIGHT[:10])


async def test_a_mark_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_answers, "MARK_WAIT_S", 0.0)
    async with gateway(tmp_path, ChatServer(stream(*spoken(TEXT)))) as client:
        parts = chunks(await chat(client, "mark", stream=True))
    assert joined(parts) == f"{TEXT} {ABSENT}"  # Behind the last sentence, where the answer has ended.
    assert [one["finding"] for one in parts[-1]["evidence"]] == ["contradicts", None]


async def test_lists_code_and_json_keep_their_form_in_the_mode_mark(tmp_path: Path) -> None:
    listed = f"Facts:\n\n- {WRONG}\n- {RIGHT}\n\n```\nweight = 152.0\nname = 'a. B.'\n```\n"
    async with gateway(tmp_path, ChatServer(stream(*spoken(listed)))) as client:
        await chat(client, "mark", stream=True)
        shown = joined(chunks(await chat(client, "mark", stream=True)))
        as_json = await chat(client, "mark", stream=True, response_format={"type": "json_object"})
    assert shown == listed.replace(WRONG, f"{WRONG} {CONTRADICTED}")
    assert joined(chunks(as_json)) == listed


async def test_responses_and_messages_have_evidence_where_their_clients_read_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, ChatServer(stream(*spoken(TEXT)))) as client:
        headers = {"X-Verify": "mark"}
        sent = {"model": "vllm/small", "input": GIVEN}
        await client.post("/v1/responses", json=sent, headers=headers)
        whole = await client.post("/v1/responses", json=sent, headers=headers)
        events = (await client.post("/v1/responses", json=sent | {"stream": True}, headers=headers)).text
        messages = asked(max_tokens=100)
        message = await client.post("/anthropic/v1/messages", json=messages, headers=headers)
        message_events = (
            await client.post("/anthropic/v1/messages", json=messages | {"stream": True}, headers=headers)
        ).text
    assert whole.headers["X-Evidence"] == message.headers["X-Evidence"] == COUNTS
    part = whole.json()["output"][0]["content"][0]
    assert part["text"] == MARKED
    assert [one["url"] for one in part["annotations"]] == [URL, URL]
    completed = json.loads(events.split("event: response.completed\ndata: ")[1])["response"]
    for body in (
        whole.json(),
        message.json(),
        completed,
        json.loads(message_events.split("event: message_delta\ndata: ")[1].splitlines()[0]),
    ):
        assert [one["finding"] for one in body["evidence"]] == ["contradicts", None]
    assert completed["output"][0]["content"][0]["text"] == MARKED
    block = message.json()["content"][0]
    assert block["text"] == MARKED
    assert [(one["url"], one["type"]) for one in block["citations"]] == [(URL, "web_search_result_location")]
    assert message_events.rstrip().endswith('data: {"type":"message_stop"}')


async def test_the_results_of_tools_are_material_and_calls_of_tools_are_none(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "How heavy is it?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path": "handbook.md"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "The Nordwind heat pump weighs 142 kg."},
    ]
    upstream = ChatServer(answer(completion("The Nordwind heat pump weighs 152 kg (handbook.md).")))
    async with gateway(tmp_path, upstream) as client:
        response = await client.post(
            "/v1/chat/completions", json={"model": "vllm/small", "messages": turns}, headers={"X-Verify": "annotate"}
        )
    assert response.headers["X-Evidence"] == "supported=0, contradicts=1, absent=0, unchecked=0"
    assert response.json()["evidence"][0]["title"] == "handbook.md"
    assert "annotations" not in response.json()["choices"][0]["message"]  # The source has no address.


async def test_no_mark_stands_behind_a_call_of_a_tool(tmp_path: Path) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    parts = [chunk(EXTRA), chunk(None, tool_calls=[call]), chunk(finish="tool_calls"), DONE]
    async with gateway(tmp_path, ChatServer(stream(*parts))) as client:
        response = await chat(client, "mark", stream=True, tools=tools)
    assert response.content.startswith(b"".join(parts[:-1]))
    assert chunks(response)[-1]["llm_platform"]["evidence_counts"]["absent"] == 1


async def test_an_address_that_was_not_given_is_unchecked_and_not_opened(tmp_path: Path) -> None:
    upstream = ChatServer(answer())
    async with gateway(tmp_path, upstream, READER_ALLOWED_HOSTS="127.0.0.1") as client:
        address = f"{upstream.url}/page"
        upstream.replies = [answer(completion(f"The Nordwind heat pump weighs 142 kg ([page]({address}))."))]
        response = await chat(client)
    assert response.headers["X-Evidence"] == "supported=0, contradicts=0, absent=0, unchecked=1"
    assert [one.method for one in upstream.asked] == ["POST"]


async def test_errors_of_the_service_are_mapped_as_ever(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    replies = [
        error(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}),
        stream(b"data: {broken\n\n", ending="end"),
        stream(chunk("It weighs"), b'data: {"error": {"message": "overloaded"}}\n\n'),
        stream(chunk("It weighs"), 0.05, ending="drop"),
    ]
    for reply in replies:
        async with gateway(tmp_path, ChatServer(reply)) as client:
            off = await chat(client, "off", stream=True)
            on = await chat(client, "annotate", stream=True)
        assert on.status_code == off.status_code
        assert '"error"' in on.text
        assert KEY not in on.text + off.text
        if on.status_code == 200:
            assert on.text.rstrip().endswith("data: [DONE]")
    assert KEY not in caplog.text
    assert GIVEN[:30] not in caplog.text


async def test_a_client_that_cuts_the_stream_stops_the_service(tmp_path: Path) -> None:
    for mode in ("annotate", "mark"):
        upstream = ChatServer(stream(*spoken(TEXT)[:12], ending="hang"))
        async with upstream.running():
            settings = Settings.without_environment(
                LLM_PLATFORM_DATA_DIR=tmp_path, LLM_KIND="vllm", LLM_BASE_URL=upstream.url, LLM_MODEL="small"
            )
            app = create_app(build_platform(settings), settings)
            async with app.router.lifespan_context(app):
                await _cut(app, asked(stream=True), mode)
                async with asyncio.timeout(5):
                    await upstream.gone.wait()


async def _cut(app: Any, body: dict[str, Any], mode: str) -> None:
    """Send a request, and disconnect after the first part of its answer."""
    has_part = asyncio.Event()
    received = iter([{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}])

    async def receive() -> Any:
        if (message := next(received, None)) is not None:
            return message
        await has_part.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if b"weighs" in message.get("body", b"") or message.get("body"):
            has_part.set()

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"x-verify", mode.encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 5),
        "server": ("localhost", 80),
    }
    async with asyncio.timeout(10):
        await app(scope, receive, send)


@pytest.mark.parametrize(
    "text",
    [
        "x " * 500_000,
        "[1-999] " * 20_000,
        "[" * 200_000,
        "(1) " * 50_000,
        "According to " * 50_000,
        "\u0000 a.\n" * 20_000,
    ],
)
async def test_a_hostile_answer_is_passed_on_and_costs_bounded_time(tmp_path: Path, text: str) -> None:
    body = completion(text)
    async with gateway(tmp_path, ChatServer(answer(body))) as client, asyncio.timeout(20):
        response = await chat(client)
    assert response.content.startswith(body.rstrip()[:-1])


async def test_a_long_conversation_and_deep_json_are_passed_on(tmp_path: Path) -> None:
    for given in ("word " * 200_000, '{"content": ' * 50_000, "<document>" * 90_000):
        async with gateway(tmp_path, ChatServer(answer(completion(TEXT)))) as client, asyncio.timeout(20):
            response = await chat(client, content=given)
        assert response.status_code == 200
        assert "X-Evidence" in response.headers


async def test_the_evidence_is_an_event_of_its_own_with_the_head_of_the_service(tmp_path: Path) -> None:
    bare = b"".join(spoken(TEXT, 500)[1:3])
    endings = {bare.rstrip(): b"\n\n", bare.rstrip() + b"\n": b"\n", bare + b": bye\n\n": b""}
    for body, added in endings.items():
        for mode in ("annotate", "mark"):
            async with gateway(tmp_path, ChatServer(stream(body, ending="end"))) as client:
                response = await chat(client, mode, stream=True)
            events = [event for event in response.content.split(b"\n\n") if b'"evidence"' in event]
            assert len(events) == 1
            assert events[0].startswith(b"data: {")
            assert json.loads(events[0][6:])["id"] == chunks(response)[0]["id"]
            if mode == "annotate":
                assert response.content.startswith(body + added + b"data: ")


async def test_half_a_surrogate_pair_in_an_id_or_a_title_ends_no_stream(tmp_path: Path) -> None:
    for mode in ("annotate", "mark"):
        said = r"The pump weighs 152 kg [5].\n\nSources:\n[5] \ud83d page https://x.example/a"
        event = f'{{"id":"\\ud800","choices":[{{"index":0,"delta":{{"content":"{said}"}},"finish_reason":null}}]}}'
        parts = [f"data: {event}\n\n".encode(), b'data: {"id":"\\ud800","choices":[]}\n\n', DONE]
        async with gateway(tmp_path, ChatServer(stream(*parts))) as client:
            response = await chat(client, mode, stream=True)
        assert response.content.endswith(DONE)
        assert '"error"' not in response.text
        assert "evidence" in chunks(response)[-1]


async def test_an_error_before_the_first_content_is_a_status(tmp_path: Path) -> None:
    late = b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'
    for first in (b": PROCESSING\n\n", chunk("", role="assistant")):
        async with gateway(tmp_path, ChatServer(stream(first, 0.05, late))) as client:
            off, on = await chat(client, "off", stream=True), await chat(client, stream=True)
        assert on.status_code == off.status_code >= 500


@pytest.mark.parametrize("known", ["[]", "null", "[ ]"])
async def test_an_empty_list_of_annotations_is_replaced(tmp_path: Path, known: str) -> None:
    body = completion(TEXT, annotations=[]).replace(b'"annotations": []', f'"annotations": {known}'.encode())
    assert known.encode() in body
    async with gateway(tmp_path, ChatServer(answer(body))) as client:
        response = await chat(client)
    assert response.content.count(b'"annotations"') == 1
    assert len(response.json()["choices"][0]["message"]["annotations"]) == 2


PUMP = "The Nordwind heat pump weighs 152 kg."


@pytest.mark.parametrize(
    ("said", "marked"),
    [
        (f"**{PUMP}** Next.\n", f"**{PUMP}** {CONTRADICTED} Next.\n"),
        (f"*{PUMP}* **It** stands.\n", f"*{PUMP}* {CONTRADICTED} **It** stands.\n"),
        (f"{PUMP}\r\nNext one.\r\n", f"{PUMP} {CONTRADICTED}\r\nNext one.\r\n"),
        (f"~~~\n{PUMP}\n~~~\n\nNext one.\n", None),
        (f"````\n```\n{PUMP}\n````\n\nNext one.\n", None),
        (f"Write `{PUMP} {PUMP}` here.\n", f"Write `{PUMP} {PUMP}` here. {CONTRADICTED}\n"),
        (f'{{"a": "{PUMP}", "b": "{PUMP} Next."}}', None),
        (f'\n["{PUMP} Next."]', None),
    ],
)
async def test_a_mark_breaks_no_form(tmp_path: Path, said: str, marked: str | None) -> None:
    upstream = ChatServer(answer(completion(said)))
    async with gateway(tmp_path, upstream) as client:
        shown = [(await chat(client, "mark")).json()["choices"][0]["message"]["content"]]
        for size in (7, 500):
            upstream.replies = [stream(*spoken(said, size))]
            shown.append(joined(chunks(await chat(client, "mark", stream=True))))
    expected = (marked or said).replace(ABSENT, "")
    assert [text.replace(f" {ABSENT}", "") for text in shown] == [expected] * 3
    assert marked or not any(ABSENT in text for text in shown if PUMP not in text.split(ABSENT)[0])


async def test_a_mark_stands_behind_the_target_of_a_link(tmp_path: Path) -> None:
    said = f"The Nordwind heat pump weighs [152 kg.]({URL}) Next one.\n"
    upstream = ChatServer(answer(completion(said)))
    async with gateway(tmp_path, upstream) as client:
        whole = (await chat(client, "mark")).json()["choices"][0]["message"]["content"]
        upstream.replies = [stream(*spoken(said))]
        streamed = joined(chunks(await chat(client, "mark", stream=True)))
    assert f"152 kg.]({URL}) {CONTRADICTED} Next" in whole
    assert streamed == whole


@pytest.mark.parametrize("size", [1, 7, 500])
async def test_a_mark_stands_inside_the_cell_of_a_table_or_nowhere(tmp_path: Path, size: int) -> None:
    table = f"| a | b |\n|---|---|\n| x | {PUMP} |\n\nIt ends here.\n"
    async with gateway(tmp_path, ChatServer(stream(*spoken(table, size)))) as client:
        shown = joined(chunks(await chat(client, "mark", stream=True)))
    assert all(line.endswith("|") for line in shown.splitlines() if line.startswith("|"))


async def test_a_mark_in_a_stream_does_not_contradict_the_evidence(tmp_path: Path) -> None:
    given = f"[1] Short\n{PUMP}\n\n[2] Handbook\nThe Nordwind heat pump weighs 142 kg.\n\nHow heavy?"
    said = "The Nordwind heat pump weighs 152 kg [2]. That is all.\n"
    async with gateway(tmp_path, ChatServer(stream(*spoken(said)))) as client:
        shown = joined(chunks(await chat(client, "mark", content=given, stream=True)))
    assert CONTRADICTED not in shown


async def test_a_chunk_waits_once_for_all_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_answers, "MARK_WAIT_S", 0.2)
    waits = []

    class Service:
        async def check_part(self, text: str, given: object) -> list[object]:
            waits.append(text)
            await asyncio.sleep(60)
            return []

    answer = verified_answers.VerifiedAnswer(Service(), "mark", asyncio.sleep(0))  # type: ignore[arg-type]
    async with asyncio.timeout(2):
        await answer.add("It is so.\n" * 100)
    assert waits
    answer._given.close()  # type: ignore[attr-defined]
