"""Answers that are sent again from their bytes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from modules.llm_platform.presentation.rest.http.repeated_answers import (
    MAX_KEY_BYTES,
    RepeatedAnswer,
    RepeatedAnswers,
    request_key,
)


@pytest.mark.parametrize(
    ("headers", "body"),
    [({}, b'{"query":"tea"}' + b" " * MAX_KEY_BYTES), ({b"accept": b"*/*," * MAX_KEY_BYTES}, b'{"query":"tea"}')],
)
def test_a_padded_request_is_not_stored(headers: dict[bytes, bytes], body: bytes) -> None:
    """The limit counts answers; a caller could fill the memory with one question in a megabyte of blanks, each time others."""
    answers: Any = RepeatedAnswers()
    answer: Any = RepeatedAnswer(cast("Any", None), cast("Any", None), (b"{}",))
    answers._add(request_key("/research", "", headers, body), answer)
    answers._add(request_key("/research", "", {}, b'{"query":"tea"}'), answer)
    assert [key[-1] for key in answers._answers] == [b'{"query":"tea"}']
    assert len(answers._answers) == 1
