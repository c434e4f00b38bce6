"""The bytes of a streamed answer become its pieces."""

from __future__ import annotations

import pytest
from tests.chat_server import DONE, chunk, completion, usage_chunk

from modules.llm_platform.infrastructure.llm import streaming
from modules.llm_platform.infrastructure.llm.streaming import Piece, ReportedError, StreamReader, UnreadableAnswer


def _pieces(*received: bytes) -> list[Piece]:
    reader = StreamReader()
    return [piece for part in received for piece in reader.feed(part)] + reader.end()


def _text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_a_stream_in_any_pieces() -> None:
    """Text, finish reason and usage are found wherever the bytes are cut."""
    whole = b": hello\n\n" + chunk("An ") + chunk("event") + chunk(finish="stop") + usage_chunk(3, 4) + DONE
    for cut in range(len(whole)):
        pieces = _pieces(whole[:cut], whole[cut:])
        assert _text(pieces) == "An event"
        assert pieces[-1] == Piece(prompt_tokens=3, completion_tokens=4)
        assert pieces[-2].finish_reason == "stop"


def test_done_is_the_end() -> None:
    """What follows [DONE] is not read; the reader says that it is done."""
    reader = StreamReader()
    assert not reader.feed(DONE + chunk("more"))
    assert reader.done
    assert not reader.end()


@pytest.mark.parametrize("blank", [b"", b" \r\n", b"\xef\xbb\xbf"])
def test_a_plain_body_is_understood(blank: bytes) -> None:
    """The first byte that is no blank tells whether a service streams."""
    assert _text(_pieces(blank, completion("All")[:9], completion("All")[9:])) == "All"
    assert _text(_pieces(blank, chunk("All"), DONE)) == "All"


def test_events_without_a_blank_line_between_them() -> None:
    """Services that forget it are read line by line."""
    assert _text(_pieces(chunk("a").rstrip() + b"\n" + chunk("b"), DONE)) == "ab"


def test_events_that_tell_nothing_are_left_out() -> None:
    """Null, numbers, text and chunks of other choices give no piece."""
    other = b'data: {"choices": [{"index": 1, "delta": {"content": "x"}}]}\n\n'
    assert not _pieces(
        b"data: null\n\n", b"data: 1\n\n", b"data:\n\n", b'data: "x"\n\n', b'data: {"choices": []}\n\n', other, DONE
    )


def test_half_an_event_at_the_end_is_left_out() -> None:
    """A line that was cut off is no broken JSON: the answer is judged by what came whole."""
    assert _text(_pieces(chunk("a"), chunk("b")[:-9])) == "a"


@pytest.mark.parametrize("received", [b"", b": only comments\n\n", b"not a stream at all"])
def test_a_stream_without_events_is_none(received: bytes) -> None:
    """Nothing said at all is no answer."""
    with pytest.raises(UnreadableAnswer, match="empty stream"):
        _pieces(received)


def test_broken_json_and_errors_are_told_apart() -> None:
    """A broken event is unreadable, an error event is the service's own report."""
    with pytest.raises(UnreadableAnswer, match="broken JSON"):
        _pieces(b"data: {broken\n\n")
    with pytest.raises(ReportedError):
        _pieces(b'data: {"error": {"message": "x"}}\n\n')


@pytest.mark.parametrize(("limit", "head"), [("MAX_STREAM_BYTES", b": "), ("MAX_BODY_BYTES", b"{")])
def test_both_ways_are_bounded(limit: str, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream has its limit, a plain body a smaller one."""
    monkeypatch.setattr(streaming, limit, 1000)
    reader = StreamReader()
    reader.feed(head)
    with pytest.raises(UnreadableAnswer, match="more bytes"):
        for _ in range(10):
            reader.feed(b"x" * 200)


def test_half_characters_of_two_chunks_reach_the_text() -> None:
    """A pair that was cut in two is not lost while decoding: it is joined where the text is read."""
    assert _text(_pieces(chunk("\ud83d"), chunk("\ude00"), DONE)) == "\ud83d\ude00"
