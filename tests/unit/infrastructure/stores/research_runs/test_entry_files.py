"""The file of an entry: what was written is read, and nothing else."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.infrastructure.stores.research_runs.entry_files import (
    ENTRY_HEAD_BYTES,
    DamagedEntryError,
    EntryHeader,
    EntryLocation,
    OtherFormatError,
    read_header,
    seal,
    unseal,
)

MADE = datetime(2026, 11, 20, 12, 0, 0, 250_000, tzinfo=UTC)
HEAD = EntryHeader(EntryLocation("docs", "a-topic-0123456789", "k1"), "А topic, \"value\": {'x'}?", MADE.timestamp())
VALUE = '{"text":"ünï","sha256":"no","list":[1,2]}'.encode()
ENTRY = seal(HEAD, VALUE)


def resealed(text: str) -> bytes:
    """Return an entry with these words before the seal, and a seal that is right."""
    body = text.encode()
    return body + b',"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'


def test_written_entry_is_read() -> None:
    """Header and value are unchanged, and the date is exact to the microsecond."""
    assert unseal(ENTRY) == (HEAD, VALUE)
    assert unseal(ENTRY)[0].made == MADE


def test_any_tool_can_read_it() -> None:
    """It is one object of JSON, in the order that the documentation shows."""
    told = json.loads(ENTRY)
    assert list(told) == ["format", "stage", "key", "topic", "query", "made_at", "value", "sha256"]
    assert told["value"]["text"] == "ünï"
    assert (told["format"], told["made_at"]) == (1, "2026-11-20T12:00:00.250000+00:00")


@given(
    st.text(st.characters(), max_size=500),
    st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=4),
    st.integers(0, 200_000_000_000).map(lambda milliseconds: milliseconds / 1000),
)
def test_any_question_and_value(query: str, value: dict[str, object], made_at: float) -> None:
    """Any content is kept, even content that looks like the file's own marks."""
    head = EntryHeader(EntryLocation("answers", "t", "k"), query, made_at)
    data = seal(head, json.dumps(value).encode())
    read, text = unseal(data)
    assert (read.location, read.query, json.loads(text)) == (head.location, query, value)
    assert read_header(data[:ENTRY_HEAD_BYTES]) == read


@given(st.integers(0, len(ENTRY) * 8 - 1))
def test_a_flipped_bit_is_seen(bit: int) -> None:
    """Wherever it is: in the head, in the value, in the seal. In the number of the format it makes another format."""
    data = bytearray(ENTRY)
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises((DamagedEntryError, OtherFormatError)):
        unseal(bytes(data))


@example(ENTRY.index(b","))
@given(st.integers(0, len(ENTRY) - 1))
def test_a_cut_is_seen(length: int) -> None:
    """A file that ends too early is no entry, and no entry of another format, wherever it ends."""
    with pytest.raises(DamagedEntryError):
        unseal(ENTRY[:length])


@given(st.binary(max_size=300))
def test_other_bytes_are_damaged_or_of_another_format(data: bytes) -> None:
    """No bytes raise anything else."""
    for read in (unseal, read_header):
        with pytest.raises((DamagedEntryError, OtherFormatError)):
            read(data)


@for_each(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"format":',
        b'{"format":1,',
        ENTRY + b"\n",
        b" " + ENTRY,
        resealed('{"format":1,"stage":"docs","value":{}'),
        resealed('{"format":1,"stage":"docs","key":"k","topic":"t","query":"q","made_at":"yesterday","value":{}'),
        resealed(
            '{"format":1,"stage":"docs","key":"k","topic":"t","query":"q","made_at":"2026-01-01T00:00:00","value":{}'
        ),
        resealed(
            '{"format":1,"stage":"docs","key":"k","topic":"t","query":"q","made_at":"0001-01-01T00:00:00+00:00","value":1'
        ),
        resealed('{"format":1,"stage":"docs","key":"k","topic":"t","query":"q","made_at":7,"value":{}'),
        resealed('{"format":1,' + "[" * 100_000),
    ],
)
def test_damages(data: bytes) -> None:
    """Also with a seal that is right."""
    with pytest.raises(DamagedEntryError):
        unseal(data)


@for_each("data", [b'{"format":2,"anything":1}', b'{"format":10,', b'{"format":0,"x"'])
def test_other_formats_are_known_as_such(data: bytes) -> None:
    """What another version wrote is not damaged."""
    for read in (unseal, read_header):
        with pytest.raises(OtherFormatError):
            read(data)
