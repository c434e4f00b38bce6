"""Searches and questions of the index."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import RagQuestion, RagSearch


@for_each(
    ("fields", "field"),
    [
        ({"text": "cats", "top_k": -1}, "top_k"),
        ({"text": "cats", "top_k": 0}, "top_k"),
        ({"text": "cats", "top_k": 1.5}, "top_k"),
        ({"text": ""}, "text"),
        ({"text": " \u200b "}, "text"),
        ({"text": "ca\0ts"}, "text"),
    ],
)
def test_wrong_field_is_refused_where_the_request_is_made(fields: dict[str, Any], field: str) -> None:
    """A search with it would find nothing, as if the index did not have the words."""
    others = {name: value for name, value in fields.items() if name != "text"}
    for kind, text_field in ((RagSearch, "query"), (RagQuestion, "question")):
        with pytest.raises(ValidationError) as raised:
            kind(**{text_field: fields["text"], **others})  # type: ignore[arg-type]
        assert [error["loc"] for error in raised.value.errors()] == [(text_field if field == "text" else field,)]


def test_text_may_be_long_and_has_no_blanks_around_it() -> None:
    """Only the message of Kafka limits its length."""
    long = "cats " * 100_000
    assert RagSearch(query=long, top_k=10**6).query == long.strip()
    assert RagQuestion(question=f" {long}").question == long.strip()
