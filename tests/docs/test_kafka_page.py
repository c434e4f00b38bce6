"""The page about the Kafka contract agrees with the code."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

from tests.docs.pages import text_of
from tests.support.cases import for_each

from modules.llm_platform.presentation.kafka.contract.outcomes import OUTCOME_TOO_LARGE, REUSED_HEADER, ErrorCode
from modules.llm_platform.presentation.kafka.contract.requests import (
    KAFKA_FILTER_VALUES,
    KAFKA_ID_CHARS,
    MAX_CONTEXT_ITEMS,
    MAX_FILTERS,
    REASON_TEXTS,
    RequestError,
    parse_request,
)
from modules.llm_platform.presentation.kafka.contract.schemas import schemas
from modules.llm_platform.presentation.kafka.contract.strict_json import JSON_DEPTH
from modules.llm_platform.presentation.kafka.worker.handler import RETRY_WAITS_S

PAGE = text_of("docs/reference/kafka.md")
EXAMPLES: list[dict[str, Any]] = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
REQUESTS = [example for example in EXAMPLES if "query" in example or "question" in example]


def names(schema: Any) -> set[str]:
    """Return every field that a schema names, at any depth."""
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", ()))
    return own.union(*(names(inner) for part in schema.values() if isinstance(part, dict) for inner in part.values()))


@for_each("topic", sorted(schemas()))
def test_every_topic_and_field_is_on_the_page(topic: str) -> None:
    """The page names each topic and field, and links to each topic's schema."""
    assert f"`{topic}`" in PAGE
    assert f"(schemas/{topic}.schema.json)" in PAGE
    assert sorted(name for name in names(schemas()[topic]) if not re.search(rf"\b{name}\b", PAGE)) == []


@for_each("word", [*get_args(ErrorCode), *REASON_TEXTS, OUTCOME_TOO_LARGE.details["reason"], "degraded"])
def test_every_code_and_reason_is_on_the_page(word: str) -> None:
    """Readers find an explanation of every word that they meet in an outcome."""
    assert f"`{word}`" in PAGE


def test_the_figures_are_those_of_the_code() -> None:
    """The page shows the current limits and waits."""
    waits = [f"{wait:g}" for wait in RETRY_WAITS_S]
    for words in (
        f"1 to {KAFKA_ID_CHARS} characters",
        f"at most {MAX_FILTERS} fields of {KAFKA_FILTER_VALUES} values",
        f"at most {MAX_CONTEXT_ITEMS} pieces",
        f"more than {JSON_DEPTH} levels",
        f"waits of about {', '.join(waits[:-1])} and {waits[-1]} seconds",
        f"`{REUSED_HEADER}: true`",
    ):
        assert words in PAGE


def test_the_requests_shown_are_good() -> None:
    """The worker accepts the requests on the page."""
    assert len(REQUESTS) == 2
    for example in REQUESTS:
        message = parse_request("search" if "query" in example else "answer", json.dumps(example).encode(), 10_000)
        assert not isinstance(message.content, RequestError)
