"""Error messages of all interfaces, HTTP and MCP. No message comes from the validation library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.presentation.rest.fake_platform import app_client

from modules.llm_platform.presentation.mcp.tools import TOOLS, Choices, InvalidArgumentsError
from modules.llm_platform.presentation.rest.http.responses import JSON

# Each worker collects the routes of this file, and reading the document costs less than writing it again.
DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "reference" / "openapi.json"
MARK = "zqxvmark"
ODD: tuple[Any, ...] = (
    None, True, 5, -1, 1.5, 10**30, "", "\u200b", MARK, MARK * 20_000, [], [None], [5], [True], [[5, 6]], [MARK], [{}],
    [{"role": MARK}], [{"type": MARK}], [{"role": "user", "content": 5}], [{"role": "user", "content": [5]}],
    [{"role": "user", "content": [{"type": MARK}]}], [{"type": "function", "function": 5}], {}, {MARK: MARK}, {"type": MARK},
    {"type": 5}, {"include_usage": MARK}, [MARK] * 3000,
)  # fmt: skip
# Names of types of pydantic and of Python, and the kinds of validators.
INTERNAL = re.compile(
    r"constrained-|function-(?:wrap|after|before|plain)|json-or-python|lax-or-strict|tagged-union|literal\[|tuple\[|list\["
    r"|dict\[|union|pydantic|\bNoneType\b|\bValue error\b|Input should|\bkwargs?\b|\bis-instance|_parsing|\btuple\b|\bdict\b",
    re.IGNORECASE,
)
TYPE_KEY = re.compile(r'"type":\s*"[a-z_]+"')  # the code of an error, which is documented as the library's


def operations() -> Iterator[tuple[str, str, dict[str, Any], list[str]]]:
    """Method, path, the example of a body and the names of its fields, of each route that needs a body."""
    document = json.loads(DOCUMENT.read_text("utf-8"))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {})
            content = body.get("content", {}).get(JSON)
            if content and body.get("required"):
                name = content["schema"]["$ref"].rpartition("/")[2]
                example = (
                    next(iter(content.get("examples", {}).values()), {}).get("value") or content.get("example") or {}
                )
                yield method, path, dict(example), list(document["components"]["schemas"][name]["properties"])


DOORS = list(operations())


def test_all_doors_are_tried() -> None:
    """Each interface is among them, and each has an example."""
    paths = {path for _, path, _, _ in DOORS}
    expected = {
        "/research",
        "/v1/embeddings",
        "/v1/responses",
        "/anthropic/v1/messages",
        "/tavily/search",
        "/open-webui/load",
    }
    assert expected <= paths
    assert all(example for _, _, example, _ in DOORS)


@pytest.mark.parametrize(("method", "path", "example", "fields"), DOORS, ids=[path for _, path, _, _ in DOORS])
async def test_no_message_has_internal_words(
    method: str, path: str, example: dict[str, Any], fields: list[str]
) -> None:
    """Any refused value has a message in the terms of the interface that does not contain the value."""
    async with app_client() as client:
        for field in fields:
            for value in ODD:
                answer = await client.request(
                    method, path.replace("{", "").replace("}", ""), json={**example, field: value}
                )
                assert answer.status_code < 500 or answer.status_code in (502, 503), (
                    field,
                    str(value)[:60],
                    answer.text[:300],
                )
                if answer.status_code in (400, 422):
                    words = TYPE_KEY.sub("", answer.text)
                    assert not (found := INTERNAL.search(words)), (field, str(value)[:60], found[0], words[:400])
                    assert MARK not in words, (field, str(value)[:60], words[:400])


@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_no_message_of_a_tool_has_internal_words(spec: Any) -> None:
    """MCP has the same words."""
    messages = [message_of(spec, {argument: value}) for argument in spec.parameters for value in ODD]
    assert any(messages)
    for message in messages:
        assert not (found := INTERNAL.search(message)), (found[0], message)
        assert MARK not in message


def message_of(spec: Any, arguments: dict[str, Any]) -> str:
    """Return the message of the error, or an empty string."""
    try:
        spec.parse(arguments, Choices())
    except InvalidArgumentsError as error:
        return error.message
    return ""
