"""The gateway forwards what a service sends in all its forms: reasoning inside the text, a plain object instead of a
stream, and unusual endings.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support import fuzz
from tests.support.chat_server import DONE, ChatServer, answer, chunk, completion, stream
from tests.support.checked_gateway import be_patient
from tests.support.growth import is_linear
from tests.unit.presentation.rest.compat.test_verifying_gateway import (
    COUNTS,
    MARKED,
    PUMP,
    RIGHT,
    TEXT,
    WRONG,
    chat,
    chunks,
    gateway,
    joined,
    spoken,
)

from modules.llm_platform.application.services.answer_check_service import AnswerEvidence
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse, LLMToken
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedSentence
from modules.llm_platform.domain.text.sentences import split_sentences
from modules.llm_platform.presentation.rest.compat import verified_answers
from modules.llm_platform.presentation.rest.compat.openai import relay
from modules.llm_platform.presentation.rest.http import sse
from modules.llm_platform.presentation.verification_text import CONTRADICTED

THOUGHT = "<think>The pump may weigh 999 kg. The handbook has another number, I think.</think>"
NUMBERS = {"supported": 1, "contradicts": 1, "absent": 1, "unchecked": 0}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits, which have their own tests."""
    be_patient(monkeypatch)
    monkeypatch.setattr(sse, "FIRST_EVENT_S", 60.0)


def evidence(response: httpx2.Response) -> dict[str, Any]:
    """Return the evidence chunk, and check that it precedes `[DONE]` if the service sends it."""
    [found] = [part for part in chunks(response) if "evidence" in part]
    if "[DONE]" in response.text:
        assert response.text.index('"evidence"') < response.text.index("[DONE]")
    return found


@pytest.mark.parametrize("mode", ["annotate", "mark"])
async def test_reasoning_in_a_whole_answer_is_neither_checked_nor_marked(tmp_path: Path, mode: str) -> None:
    for before, behind in ((THOUGHT, ""), (f"\n{THOUGHT}\n\n", ""), ("", f" {THOUGHT}"), ("Hm, 999 kg.</think>", "")):
        async with gateway(tmp_path, ChatServer(answer(completion(f"{before}{TEXT}{behind}")))) as client:
            response = await chat(client, mode)
        assert response.headers["X-Evidence"] == COUNTS
        said = response.json()["choices"][0]["message"]["content"]
        assert said.replace(f" {CONTRADICTED}", "").replace(" **○ not found**", "") == f"{before}{TEXT}{behind}"
        assert said.startswith(before)
        right = response.json()["evidence"][1]
        assert said[right["start"] : right["end"]] == RIGHT[:-5]


@pytest.mark.parametrize("mode", ["annotate", "mark"])
@pytest.mark.parametrize("size", [1, 3, 7, 500])
async def test_reasoning_in_a_stream_passes_as_it_is(tmp_path: Path, size: int, mode: str) -> None:
    async with gateway(tmp_path, ChatServer(stream(*spoken(f"{THOUGHT}\n\n{TEXT}", size)))) as client:
        response = await chat(client, mode, stream=True)
    shown = joined(chunks(response))
    assert shown == f"{THOUGHT}\n\n{TEXT if mode == 'annotate' else MARKED}"
    found = evidence(response)
    assert found["llm_platform"]["evidence_counts"] == NUMBERS
    right = found["evidence"][1]
    assert shown[right["start"] : right["end"]] == RIGHT[:-5]


@pytest.mark.parametrize("mode", ["annotate", "mark"])
@pytest.mark.parametrize("size", [1, 3, 7, 500])
async def test_reasoning_whose_beginning_stands_in_the_prompt_counts_for_offsets_alone(
    tmp_path: Path, size: int, mode: str
) -> None:
    """If the opening tag of the reasoning is in the prompt, a stream in the mode `mark` cannot take back marks before
    the closing tag. They count for the offsets, too.
    """
    said = f"{PUMP} Hm.\n</think>\n{PUMP}</think>{TEXT}"
    async with gateway(tmp_path, ChatServer(stream(*spoken(said, size)))) as client:
        response = await chat(client, mode, stream=True)
    shown = joined(chunks(response))
    assert shown.endswith(f"</think>{TEXT if mode == 'annotate' else MARKED}")
    assert shown.replace(f" {CONTRADICTED}", "").replace(" **○ not found**", "") == said
    found = evidence(response)
    assert found["llm_platform"]["evidence_counts"] == NUMBERS
    right = found["evidence"][1]
    assert shown[right["start"] : right["end"]] == RIGHT[:-5]


async def test_text_that_is_taken_back_is_not_kept() -> None:
    """A stream may take its text back a hundred thousand times: only the number of its characters is needed."""
    written = verified_answers.VerifiedAnswer(None, "mark", None)  # type: ignore[arg-type]
    for _ in range(100):
        await written.add("a b </think>")
    assert (written._parts, written._reasoning) == ([], [(0, "a b </think>")])


async def test_an_answer_of_reasoning_alone_has_no_evidence(tmp_path: Path) -> None:
    for mode in ("annotate", "mark"):
        parts = spoken("<think>The pump weighs 999 kg. It is gr")
        async with gateway(tmp_path, ChatServer(stream(*parts))) as client:
            assert (await chat(client, mode, stream=True)).content == b"".join(parts)


async def test_the_sign_of_a_tag_is_not_held_back(tmp_path: Path) -> None:
    parts = [chunk("It is <"), chunk("th"), chunk("e one. It <thin"), chunk(finish="stop"), DONE]
    async with gateway(tmp_path, ChatServer(stream(*parts))) as client:
        response = await chat(client, "mark", stream=True)
    assert [joined([part]).replace(" **○ not found**", "") for part in chunks(response)][:3] == [
        "It is <",
        "th",
        "e one. It <thin",
    ]


@pytest.mark.parametrize("mode", ["annotate", "mark"])
async def test_one_object_in_place_of_a_stream_comes_as_one_chunk_with_all_its_fields(
    tmp_path: Path, mode: str
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    body = completion(
        TEXT, usage={"prompt_tokens": 9, "completion_tokens": 9}, reasoning_content="Hm.", tool_calls=[call]
    )
    async with gateway(tmp_path, ChatServer(answer(body))) as client:
        response = await chat(client, mode, stream=True)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    first, *_ = chunks(response)
    sent = json.loads(body)
    message = sent["choices"][0].pop("message") | {"tool_calls": [{"index": 0, **call}]}
    assert first["object"] == "chat.completion.chunk"
    assert first["usage"] == sent["usage"]
    shown = first["choices"][0].pop("delta")
    assert first["choices"] == sent["choices"]
    assert shown == message | {"content": TEXT if mode == "annotate" else MARKED}
    assert evidence(response)["llm_platform"]["evidence_counts"] == NUMBERS
    assert response.content.endswith(DONE)


def event(text: str = TEXT, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "c", "choices": [choice], **more}).encode()


END = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


@pytest.mark.parametrize("mode", ["annotate", "mark"])
@pytest.mark.parametrize(
    "end",
    [
        b"\r\rdata: [DONE]\r\r",
        b"\r\n\r\ndata:[DONE]\r\n\r\n",
        b"\n\nevent: end\nid: 7\ndata: [DONE]\n\n",
        b"\n\ndata: [DONE]\n\n: bye\n\n",
        b"\n\ndata: [DONE]",
    ],
)
async def test_the_evidence_stands_before_the_event_of_the_end(tmp_path: Path, end: bytes, mode: str) -> None:
    blank = end[: -len(end.lstrip())]
    async with gateway(tmp_path, ChatServer(stream(event(RIGHT) + blank + END + end))) as client:
        response = await chat(client, mode, stream=True)
    before, _, behind = response.content.partition(b'data: {"id":"c","choices":[{"index":0,"delta":{"annotations"')
    assert before == event(RIGHT) + blank + END + blank
    assert behind.partition(b"\n\n")[2] == end.lstrip()


@pytest.mark.parametrize("mode", ["annotate", "mark"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
async def test_a_complete_answer_of_a_service_without_an_end_event_gets_one(
    tmp_path: Path, end: bytes, mode: str
) -> None:
    """OpenAI's clients wait for `[DONE]`. Without an evidence chunk, `[DONE]` follows the bytes of the service."""
    for text in (RIGHT, "<think>Hm.</think>"):
        async with gateway(tmp_path, ChatServer(stream(event(text) + b"\n\n" + END + end))) as client:
            response = await chat(client, mode, stream=True)
        assert response.content.startswith(event(text) + b"\n\n" + END)
        assert response.content.endswith(b"\n\n" + DONE)
        assert response.content.count(b"[DONE]") == 1


async def test_a_mark_changes_nothing_but_the_text_of_its_chunk(tmp_path: Path) -> None:
    body = (
        b'data:{"x":1E400, "n":-1e-07,"choices":[{"delta":{"r":1.50,"content":"%s Next."} , "index":0}],'
        b'"s":"\xe2\x80\xa8\\u00e9"}\n\n'
    )
    async with gateway(tmp_path, ChatServer(stream(body % PUMP.encode(), END + b"\n\n", DONE))) as client:
        response = await chat(client, "mark", stream=True)
    assert response.content.startswith(body % f"{PUMP} {CONTRADICTED}".encode())


async def test_a_mark_stands_in_an_event_of_several_lines(tmp_path: Path) -> None:
    lines = [b'data: {"choices":[{"delta":', b'data: {"content":"%s Next."}}],' % PUMP.encode(), b'data: "x":1E400}']
    body = b"event: chunk\r\n" + b"\r\n".join(lines) + b"\r\n\r\n"
    async with gateway(tmp_path, ChatServer(stream(body, END + b"\n\n", DONE))) as client:
        response = await chat(client, "mark", stream=True)
    marked = f"{PUMP} {CONTRADICTED} Next.".encode()
    assert response.content.startswith(
        b'event: chunk\r\ndata: {"choices":[{"delta": {"content":"' + marked + b'"}}], "x":1E400}\r\n\r\n'
    )


def test_an_event_of_many_lines_costs_little() -> None:
    class Models:
        """A service that sends one event."""

        def __init__(self, lines: int) -> None:
            self.raw = b"data: 1\n" * lines + b"\n"

        async def stream(self, prompt: object) -> AsyncIterator[LLMToken | LLMResponse]:
            yield LLMToken(text="", raw=self.raw)
            yield LLMResponse(content="", provider="vllm", model="small")

    async def pass_on(lines: int) -> None:
        written = verified_answers.VerifiedAnswer(None, "mark", None)  # type: ignore[arg-type]
        models = Models(lines)
        events = relay._relay_events(models, None, written, "1")  # type: ignore[arg-type]
        assert b"".join([part.raw async for part in events if isinstance(part, relay.RelayedPart)]) == models.raw + DONE

    assert is_linear(lambda: asyncio.run(pass_on(5000)), lambda: asyncio.run(pass_on(200_000)), 40)


async def test_the_choice_with_index_0_is_checked_at_any_position(tmp_path: Path) -> None:
    first = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    second = {"index": 1, "message": {"role": "assistant", "content": "Second."}, "finish_reason": "stop"}
    body = json.dumps({"id": "c", "choices": [second, first]}).encode()
    async with gateway(tmp_path, ChatServer(answer(body))) as client:
        shown = (await chat(client, "mark", n=2)).json()["choices"]
    assert shown[0] == second
    assert shown[1]["message"]["content"] == MARKED
    assert shown[1]["message"]["annotations"]


@pytest.mark.parametrize("mode", ["annotate", "mark"])
async def test_text_completions_and_lists_of_parts_are_checked_in_their_form(tmp_path: Path, mode: str) -> None:
    shown = MARKED if mode == "mark" else TEXT

    def of(text: str) -> list[dict[str, Any]]:
        return [
            {"index": 0, "text": text, "finish_reason": None},
            {"index": 0, "delta": {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": text}]}},
        ]

    for number, choice in enumerate(of(TEXT)):
        said = b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"
        parts = [said, END.replace(b'"delta":{}', b'"text":""' if number == 0 else b'"delta":{}') + b"\n\n", DONE]
        whole = json.loads(json.dumps(choice).replace('"delta"', '"message"')) | {"finish_reason": "stop"}
        async with gateway(tmp_path, ChatServer(stream(*parts))) as client:
            response = await chat(client, mode, stream=True)
            last = evidence(response)
            assert last["llm_platform"]["evidence_counts"] == NUMBERS
            assert ("text" in last["choices"][0], "delta" in last["choices"][0]) == (number == 0, number == 1)
        async with gateway(tmp_path, ChatServer(answer(json.dumps({"choices": [whole]}).encode()))) as client:
            complete = (await chat(client, mode)).json()
        assert complete["llm_platform"]["evidence_counts"] == NUMBERS
        found = complete["choices"][0]
        assert (found["text"] if "text" in found else found["message"]["content"][1]["text"]) == shown


PIECES = (
    *("<think>", "</think>", "</thi", "<", "<b>", "`", "```", "\n", "\r\n", " ", "\u2028", "- a", "| a | b |", " [1]"),
    *("It is green. ", "The pump is heavy.", "[x.](http://a.b)"),
)


async def test_marks_are_all_that_is_added_wherever_tokens_end() -> None:
    """Every sentence has a mark or none, and the offsets point at it in the text that the client gets."""

    def find(text: str) -> tuple[VerifiedSentence, ...]:
        spans = split_sentences(text)
        return tuple(VerifiedSentence(start=a, end=b, verdict="unsupported", is_cited=False) for a, b in spans)

    class Service:
        async def check_part(self, text: str, given: object) -> Sequence[VerifiedSentence]:
            return find(text)

        async def check(self, text: str, given: object) -> AnswerEvidence:
            return AnswerEvidence(sentences=find(text))

    async def show(said: str, size: int) -> None:
        written = verified_answers.VerifiedAnswer(Service(), "mark", None)  # type: ignore[arg-type]
        shown = "".join([await written.add(said[at : at + size]) for at in range(0, len(said), size)])
        shown += await written.finish()
        assert re.sub(r" ?\*\*○ not found\*\* ?", "", shown).replace(" ", "") == said.replace(" ", "")
        answer = "".join(written._parts)
        sentences = find(answer) if any(map(str.isalnum, answer)) else ()
        for before, sentence in zip(sentences, written.evidence.sentences, strict=True):
            first, last = answer[before.start], answer[before.end - 1]
            assert (shown[sentence.start], shown[sentence.end - 1]) == (first, last)

    await show("<\n\r\nThe pump is heavy.\n", 1)  # The sign may begin a tag, so it is sent with the next lines.
    chance = fuzz.chance(49)
    for _ in range(fuzz.chosen(1000, 20_000)):
        said = "".join(chance.choices(PIECES, k=chance.randint(1, 14)))
        await show(said, chance.choice((1, 2, 3, 5, 9, 50)))


async def test_a_mark_never_parts_a_line_end(tmp_path: Path) -> None:
    async with gateway(tmp_path, ChatServer(stream(*spoken(f"{PUMP}\r\nNext one.\r\n", 1)))) as client:
        shown = joined(chunks(await chat(client, "mark", stream=True)))
    assert shown.replace(" **○ not found**", "") == f"{PUMP} {CONTRADICTED}\r\nNext one.\r\n"


async def test_a_long_line_costs_time_in_proportion_to_its_length() -> None:
    class Service:
        async def check_part(self, text: str, given: object) -> list[object]:
            raise AssertionError("a long line has marks at its end alone")

    written = verified_answers.VerifiedAnswer(Service(), "mark", None)  # type: ignore[arg-type]
    for _ in range(2000):
        assert await written.add("word " * 100) == "word " * 100
    assert len(written._line) < 2 * verified_answers.MAX_LINE_CHARS


async def test_keep_alive_comments_precede_the_bytes_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that is sent early contains a comment, which clients ignore. All later bytes are those of the service."""
    monkeypatch.setattr(sse, "FIRST_EVENT_S", 0.0)
    parts = spoken(WRONG)
    async with gateway(tmp_path, ChatServer(stream(*parts))) as client:
        response = await chat(client, stream=True)
    assert response.content.startswith(sse.HEARTBEAT + b"".join(parts[:-1]))


async def test_an_event_without_an_end_waits_for_its_end(tmp_path: Path) -> None:
    async with gateway(tmp_path, ChatServer(stream(event() + b"\n\n" + END))) as client:
        sent: list[bytes] = []
        encode = relay.RelayStream.encode

        def note(self: relay.RelayStream, part: Any) -> bytes:
            sent.append(encode(self, part))
            return sent[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(relay.RelayStream, "encode", note)
            await chat(client, stream=True)
    assert all(part.endswith(b"\n\n") for part in sent if part)
    assert any(END + b"\n\n" in part for part in sent)
