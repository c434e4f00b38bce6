"""What a request id may be."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.callers.request_id import is_request_id, new_request_id


@for_each("text", ["a", "an id of 2026", "~" * 128])
def test_request_ids(text: str) -> None:
    """1 to 128 printable ASCII characters."""
    assert is_request_id(text)


def test_a_new_request_id_is_one() -> None:
    assert is_request_id(new_request_id())


@for_each("text", ["", "\0", "a\0b", "a\n", "a\tb", "\x7f", "é", "\ud800", "a" * 129])
def test_other_texts_are_no_request_ids(text: str) -> None:
    """Nothing that a store could refuse or change."""
    assert not is_request_id(text)
