"""The OpenAPI document is complete: a schema-driven tool finds no response that it does not describe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import negative_data_rejection, positive_data_acceptance
from schemathesis.config import SchemathesisConfig
from schemathesis.python.asgi import shutdown_lifespans
from scripts import generated_files
from tests.support import fuzz
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client, platform_of

from modules.llm_platform.infrastructure.stores.watches.sqlite import SqliteWatchStore
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.compat.table import DIALECT_OF_PREFIX
from modules.llm_platform.presentation.rest.examples import EXAMPLES, add_examples
from modules.llm_platform.presentation.rest.http.access import PROBE_PATHS, get_first_segment
from shared.config import Settings

Node = dict[str, Any]

CASES = fuzz.chosen(2, 2000)  # cases of an operation, in each of the tool's ways to make them
DOCUMENT_ID = "urn:openapi"
MAX_REFUSAL_BYTES = 16_384
# Routes with input that call no upstream: a plan is made without a model where the model cannot make one.
BACKGROUND = (
    "/research/{request_id}",
    "/research/{request_id}/events",
    "/research/{request_id}/finish",
    "/research/{request_id}/sealed",
    "/research/threads/{request_id}",
)
# Path parameters that match no stored item.
STORED = ("{response_id}", "{api_request}", "{crawl_id}", "/tavily/research/{", "/verify/{", "{request_id}/verify")

schema = schemathesis.pytest.from_fixture(
    "described_schema"
)  # made when the test runs: it takes 13 s of each collection


@pytest.fixture
def described_schema(request: pytest.FixtureRequest) -> Iterator[schemathesis.BaseSchema]:
    request.node._nodeid = request.node.nodeid  # schemathesis 4.32 reads it from pytest 9.2, which calls it otherwise
    app = create_app(lambda: platform_of(FakeServices()), Settings(_env_file=None))  # each lifespan closes its platform
    # With a fixed seed the tool makes the same cases in each run of the suite, because it ignores `derandomize`.
    config = SchemathesisConfig(seed=fuzz.chance(0).getrandbits(64))
    found = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    yield found
    shutdown_lifespans()  # the tool would do so when Python exits, where a store has no thread left to close its file in


@schema.parametrize()
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
def test_responses_match_the_schema(case: schemathesis.Case) -> None:
    """Whatever the description allows or forbids: no server error; status, type, headers and shape are documented, and a
    refusal is short.
    """
    if not is_chosen(case):
        return
    # JSON Schema cannot express some refusals, such as a blank query or an unknown language.
    excluded = [positive_data_acceptance]
    # Blanks are taken away before a text is measured, and a string may stand for a number or for a list of sites: a schema
    # that said so would make clients of it worse.
    if has_blanks_around(case.body) or has_written_values(case.body):
        excluded.append(negative_data_rejection)
    answer = case.call_and_validate(excluded_checks=excluded)
    assert answer.status_code < 400 or len(answer.content) <= MAX_REFUSAL_BYTES


def is_chosen(case: schemathesis.Case) -> bool:
    """Return whether each run of the suite tries the case: a twelfth of the derived cases, because
    tests/e2e/hostile_doors.py also sends wrong values of each field. `make fuzz` tries all.
    """
    is_derived = case.meta is not None and case.meta.phase.name.value == "coverage"
    return fuzz.IS_LONG or not is_derived or crc32(repr((case.query, case.headers, case.body)).encode()) % 12 == 0


def has_blanks_around(value: Any) -> bool:
    """Return whether any text in it begins or ends with a blank."""
    if isinstance(value, dict):
        return any(map(has_blanks_around, value.values()))
    if isinstance(value, list):
        return any(map(has_blanks_around, value))
    return isinstance(value, str) and value != value.strip()


def has_written_values(value: Any) -> bool:
    """Return whether it has strings in the place of other values: empty ones, numbers, truth values, lists of sites."""
    if isinstance(value, dict):
        names_sites = [name for name in value if "domain" in name.lower() or name == "site"]
        has_list = any(isinstance(value[name], str) for name in names_sites)
        return has_list or any(map(has_written_values, value.values()))
    if isinstance(value, list):
        return any(map(has_written_values, value))
    return isinstance(value, str) and re.fullmatch(r"|[0-9.+-]+|true|false", value, re.IGNORECASE) is not None


@cache
def described() -> Node:
    """Return the document, which takes half a second to write. Nobody changes it."""
    return dict(generated_files.openapi())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (value["$ref"],) if isinstance(value.get("$ref"), str) else ()
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_all_error_statuses_are_documented() -> None:
    """Each operation names the statuses it can answer with, each with its type; every reference leads somewhere."""
    for path, operations in described()["paths"].items():
        for operation in operations.values():
            statuses = set(operation["responses"])
            assert {"403", "500", "503"} <= statuses
            assert statuses & {"200", "201", "202", "204"}
            assert ("401" in statuses) == (path not in PROBE_PATHS)
            assert "421" in statuses
            assert ("413" in statuses) == ("415" in statuses) == ("requestBody" in operation)
            # A plan without a model is one by rules.
            local = ("/research/plan", "/research/threads", "/watches")  # a watch is asked later
            asks_upstream = "requestBody" in operation and not path.startswith(local)
            assert "502" in statuses or not asks_upstream, f"{path} needs UPSTREAM_STATUSES in `responses`"
            for status, response in operation["responses"].items():
                if get_first_segment(path) in DIALECT_OF_PREFIX:  # these clients read a JSON format of their vendor
                    media_types = {
                        "application/json",
                        "text/event-stream",
                        "application/x-suggestions+json",
                        "text/plain",
                    }
                    assert set(response["content"]) <= media_types
                else:
                    assert ("application/problem+json" in response.get("content", {})) == (not status.startswith("2"))
    names = set(described()["components"]["schemas"])
    assert {reference.rpartition("/")[2] for reference in references(described())} <= names


def operations() -> Iterator[tuple[str, Node]]:
    for path, methods in described()["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


@cache
def registry() -> jsonschema_rs.Registry:
    return jsonschema_rs.Registry([(DOCUMENT_ID, described())], draft=jsonschema_rs.Draft202012)


def validator_of(schema: Node) -> jsonschema_rs.Draft202012Validator:
    """Return the validator of a schema inside the document, whose references lead into the document: the registry reads the
    document once for all of them.
    """
    absolute = json.loads(json.dumps(schema).replace('"#/', f'"{DOCUMENT_ID}#/'))
    return jsonschema_rs.Draft202012Validator(absolute, registry=registry())


@for_each(("name", "operation"), operations)
def test_every_route_has_valid_examples(name: str, operation: Node) -> None:
    """Every request, response and refusal has an example that is valid against its schema."""
    bodies = [*operation.get("requestBody", {}).get("content", {}).values()]
    bodies += [body for answer in operation["responses"].values() for body in answer.get("content", {}).values()]
    for body in bodies:
        if "schema" in body:
            validator_of(body["schema"]).validate(body["example"])
    for parameter in operation.get("parameters", ()):
        assert "example" in parameter or not parameter["required"]
        if "example" in parameter:
            validator_of(parameter["schema"]).validate(parameter["example"])
    assert operation.get("requestBody", {}).get("required", False) == bool(EXAMPLES[name].request)
    assert bool(operation.get("parameters")) == bool(EXAMPLES[name].parameters)


def test_the_routes_that_check_answers_name_the_header_of_the_mode_and_the_one_with_the_counts() -> None:
    checked = {
        name
        for name, operation in operations()
        if "X-Verify" in {parameter["name"] for parameter in operation.get("parameters", ())}
        and "X-Evidence" in operation["responses"]["200"]["headers"]
    }
    assert checked == {"post /v1/chat/completions", "post /v1/responses", "post /anthropic/v1/messages"}


@pytest.mark.parametrize("path", ["/research", "/llm-platform/chat"])
def test_stream_example_is_a_valid_stream(path: str) -> None:
    """Its frames are numbered events of the described types, the last of them done, and data is JSON of that type."""
    answer = dict(operations())[f"post {path}"]["responses"]["200"]
    stream = answer["content"]["text/event-stream"]
    frames = [
        dict(line.split(": ", 1) for line in event.splitlines()) for event in stream["example"].strip().split("\n\n")
    ]
    for number, frame in enumerate(frames, 1):
        validator_of(stream["x-itemSchema"]).validate(frame)
        assert frame["id"] == str(number)
        assert json.loads(frame["data"])["type"] == frame["event"]
        assert frame["event"] in answer["description"]
    assert frames[-1]["event"] == "done"
    assert json.loads(frames[-1]["data"])["response"] == answer["content"]["application/json"]["example"]


@pytest.mark.parametrize("kind", ["web_search_20250305", "custom", None])
def test_a_tool_of_anthropic_has_one_schema(kind: str | None) -> None:
    """Of `oneOf` exactly one fits: a web search is not also any other tool."""
    tools = described()["components"]["schemas"]["AnthropicMessagesRequest"]["properties"]["tools"]
    validator_of(tools).validate([{"type": kind, "name": "web_search"}])


def test_research_example_has_correct_offsets() -> None:
    """The offsets of the example point at the quoted text, as in a real answer."""
    answer = dict(operations())["post /research"]["responses"]["200"]["content"]["application/json"]["example"]
    (citation,), (source,), (raw,) = answer["citations"], answer["sources"], answer["raw_results"]
    assert raw["content"][citation["quote_start"] : citation["quote_end"]] == citation["quote"]
    assert answer["synthesis"][citation["start"] : citation["end"]] in citation["quote"]
    assert answer["synthesis"][citation["end"] :] == f" [{source['index']}]."
    assert citation["source_index"] == source["index"]


async def test_example_requests_are_accepted(tmp_path: Path) -> None:
    """A request copied from the page gets an answer and not a refusal."""
    services = FakeServices()
    services.watch_store = SqliteWatchStore(tmp_path / "watches.sqlite3")
    async with app_client(services) as client:
        for name, operation in operations():
            method, path = name.split(" ")
            parameters = {
                parameter["name"]: parameter["example"]
                for parameter in operation.get("parameters", ())
                if "example" in parameter
            }
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            url = path.format(**parameters)
            query = {parameter: value for parameter, value in parameters.items() if f"{{{parameter}}}" not in path}
            answer = await client.request(method, url, params=query, json=body)
            if "/sources/" in path or path.endswith("/evidence"):  # the research of the example was never made
                assert answer.json()["code"] == "source_not_held"
            elif path in BACKGROUND:
                assert answer.json()["code"] == "research_not_found"
            elif "{watch_id}" in path:
                assert answer.json()["code"] == "watch_not_found"
            elif name == "post /watches":
                assert answer.status_code == 201, answer.text
            elif any(name in path for name in STORED):
                assert answer.status_code == 404
            else:
                assert answer.status_code == 200, f"{name}: {answer.text}"


def test_only_existing_depths_are_documented() -> None:
    """The description names no depth of a later version."""
    depth = described()["components"]["schemas"]["ResearchApiRequest"]["properties"]["depth"]
    assert depth["enum"] == ["shallow", "deep", "report"]


def test_document_does_not_depend_on_settings() -> None:
    """Two applications with different settings describe themselves alike, and the text is made once."""
    other = create_app(
        platform_of(FakeServices()), Settings(_env_file=None, LLM_PLATFORM_API_KEYS="a-long-random-word")
    )
    assert other.openapi() == generated_files.openapi()
    assert other.openapi() is other.openapi()


def test_route_without_an_example_is_named() -> None:
    """The error says where the example of a new route belongs."""
    with pytest.raises(
        LookupError, match=r"GET /new needs an example: .* to EXAMPLES in .*examples, .* of its DIALECT"
    ):
        add_examples("get", "/new", {})


def nodes(value: Any) -> Iterator[Node]:
    """Yield every object of the document except examples."""
    if isinstance(value, dict):
        yield value
        for name, item in value.items():
            if name not in ("example", "examples"):
                yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def test_generators_of_clients_read_the_document() -> None:
    """The document avoids what OpenAPI 3.1 does not define and what generators refuse: enums of several types,
    parameters whose names collide in programs, and defaults that their schema refuses.
    """
    for node in nodes(described()):
        assert "itemSchema" not in node
        values = node.get("enum") if isinstance(node.get("enum"), list) else []
        assert len({type(value) for value in values or [] if value is not None}) <= 1, node
        if isinstance(node.get("default"), str) and isinstance(node.get("minLength"), int):
            assert len(node["default"]) >= node["minLength"], node
        parameters = node.get("parameters") if isinstance(node.get("parameters"), list) else []
        names = [re.sub(r"\W", "", parameter["name"]) for parameter in parameters or []]
        assert len(names) == len(set(names)), names


def test_operations_have_names_for_functions() -> None:
    """They are the method and the path in words, each once."""
    names = [operation["operationId"] for methods in described()["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"(?:get|post|patch|delete)_[a-z0-9_]+", name) and "__" not in name for name in names), (
        names
    )
    assert {"post_tavily_search", "get_research_by_request_id", "post_llm_platform_web_search"} <= set(names)
