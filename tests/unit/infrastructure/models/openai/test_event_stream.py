"""The bytes of a streamed answer become its deltas."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each
from tests.support.chat_server import DONE, chunk, completion, usage_chunk

from modules.llm_platform.infrastructure.models.openai import event_stream
from modules.llm_platform.infrastructure.models.openai.deltas import Delta, InvalidAnswerError, ReportedError
from modules.llm_platform.infrastructure.models.openai.event_stream import StreamReader


def _deltas(*received: bytes) -> list[Delta]:
    reader = StreamReader()
    return [piece for part in received for piece in reader.feed(part)] + list(reader.end())


def _text(deltas: list[Delta]) -> str:
    return "".join(piece.text for piece in deltas)


def test_a_stream_is_parsed_at_any_chunk_boundary() -> None:
    """Text, finish reason and usage."""
    body = b": hello\n\n" + chunk("An ") + chunk("event") + chunk(finish="stop") + usage_chunk(3, 4) + DONE
    for cut in range(len(body)):
        deltas = _deltas(body[:cut], body[cut:])
        assert _text(deltas) == "An event"
        assert deltas[-1] == Delta(prompt_tokens=3, completion_tokens=4)
        assert deltas[-2].finish_reason == "stop"


def test_nothing_after_done_is_read() -> None:
    """`done` is set."""
    reader = StreamReader()
    assert not list(reader.feed(DONE + chunk("more")))
    assert reader.done
    assert not list(reader.end())


@for_each("blank", [b"", b" \r\n", b"\xef\xbb\xbf"])
def test_a_plain_body_is_accepted_as_a_stream(blank: bytes) -> None:
    """The first byte after white space decides."""
    assert _text(_deltas(blank, completion("All")[:9], completion("All")[9:])) == "All"
    assert _text(_deltas(blank, chunk("All"), DONE)) == "All"


def test_events_without_blank_lines_are_parsed() -> None:
    """Line by line."""
    assert _text(_deltas(chunk("a").rstrip() + b"\n" + chunk("b"), DONE)) == "ab"


def test_empty_events_are_dropped() -> None:
    """Null, numbers, text and chunks of unrequested choices are dropped."""
    other = b'data: {"choices": [{"index": 8, "delta": {"content": "x"}}, {"index": true}, {"index": -1}]}\n\n'
    assert not _deltas(
        b"data: null\n\n", b"data: 1\n\n", b"data:\n\n", b'data: "x"\n\n', b'data: {"choices": []}\n\n', other, DONE
    )


def test_an_incomplete_last_event_is_dropped() -> None:
    """The complete events decide."""
    assert _text(_deltas(chunk("a"), chunk("b")[:-9])) == "a"


@for_each("received", [b"", b": only comments\n\n", b"not a stream at all"])
def test_a_stream_without_events_is_invalid(received: bytes) -> None:
    """It is no answer."""
    with pytest.raises(InvalidAnswerError, match="empty stream"):
        _deltas(received)


def test_broken_json_and_reported_errors_differ() -> None:
    """InvalidAnswerError and ReportedError."""
    with pytest.raises(InvalidAnswerError, match="broken JSON"):
        _deltas(b"data: {broken\n\n")
    with pytest.raises(ReportedError):
        _deltas(b'data: {"error": {"message": "x"}}\n\n')


@pytest.mark.parametrize(("limit", "head"), [("MAX_STREAM_BYTES", b": "), ("MAX_BODY_BYTES", b"{")])
def test_streams_and_bodies_are_bounded(limit: str, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream by its limit, a plain body by a smaller one."""
    monkeypatch.setattr(event_stream, limit, 1000)
    reader = StreamReader()
    list(reader.feed(head))
    with pytest.raises(InvalidAnswerError, match="more bytes"):
        for _ in range(10):
            list(reader.feed(b"x" * 200))


def test_split_surrogate_pairs_are_joined() -> None:
    """When the text is read."""
    assert _text(_deltas(chunk("\ud83d"), chunk("\ude00"), DONE)) == "\ud83d\ude00"
