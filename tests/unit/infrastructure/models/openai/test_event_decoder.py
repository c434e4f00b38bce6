"""Server-sent events are independent of the chunks of their bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.infrastructure.models.openai.event_stream import EventDecoder


def _events(*pieces: bytes) -> list[bytes]:
    decoder = EventDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish()


@for_each(
    ("received", "events"),
    [
        (b"", []),
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": a comment\n\ndata: a\n\n", [b"a"]),
        (b"id: 1\nevent: x\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data: a", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"data\n\n", []),
        (b"\n\n\r\n\n", []),
    ],
)
def test_events_are_decoded_by_the_standard(received: bytes, events: list[bytes]) -> None:
    """LF, CR and CRLF end lines; comments and other fields are ignored; the last event needs no blank line."""
    assert _events(received) == events
    assert _events(*(received[i : i + 1] for i in range(len(received)))) == events
    for cut in range(len(received)):
        assert _events(received[:cut], received[cut:]) == events


@given(st.lists(st.sampled_from([b"data: ", b"data:", b"x", b"\n", b"\r", b"\r\n", b":", b" "]), max_size=15))
def test_chunk_boundaries_do_not_matter(pieces: list[bytes]) -> None:
    """However the bytes are split, the events are the same."""
    assert _events(*pieces) == _events(b"".join(pieces))


def test_a_long_line_in_small_chunks_takes_linear_time() -> None:
    """It is not copied for every chunk."""
    decoder = EventDecoder()
    decoder.feed(b"data: ")
    for _ in range(300_000):
        decoder.feed(b"x")
    assert len(decoder.feed(b"\n\n")[0]) == 300_000
