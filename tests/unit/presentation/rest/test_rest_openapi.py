"""The OpenAPI document tells the truth: a tool that knows nothing else finds no answer that is not in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import negative_data_rejection, positive_data_acceptance
from scripts import openapi as script
from tests.unit.presentation.rest.fake_platform import Scripted, platform_of

from modules.llm_platform.presentation.rest.app import BODIES, create_app
from modules.llm_platform.presentation.rest.sites import OPEN_PATHS
from shared.config import Settings

EXAMPLES = 30
# Routes behind which no upstream can fail: a plan is made without a model where the model cannot make one.
ASK_NOBODY = ("/health", "/ready", "/research/plan", "/research/{request_id}/sources/{index}")

scripted = Scripted()
app = create_app(platform_of(scripted), Settings(_env_file=None))
schema = schemathesis.openapi.from_asgi("/openapi.json", app)
app.state.door.platform, app.state.door.draining = platform_of(scripted), False  # the tool starts no lifespan for a case


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_answers_are_as_described(case: schemathesis.Case) -> None:
    """Whatever the description allows or forbids: status, type, headers and shape of the answer are documented."""
    # What JSON Schema cannot say (a query of blanks, a language that is none) is refused though the schema allows it.
    excluded = [positive_data_acceptance]
    if has_blanks_around(case.body):  # they are taken away before a text is measured, which JSON Schema cannot say either
        excluded.append(negative_data_rejection)
    case.call_and_validate(excluded_checks=excluded)


def has_blanks_around(value: Any) -> bool:
    """Whether any text in it begins or ends with a blank."""
    if isinstance(value, dict):
        return any(map(has_blanks_around, value.values()))
    if isinstance(value, list):
        return any(map(has_blanks_around, value))
    return isinstance(value, str) and value != value.strip()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (value["$ref"],) if isinstance(value.get("$ref"), str) else ()
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_error_is_a_described_problem() -> None:
    """Each operation names the statuses it can answer with, each with its type; every reference leads somewhere."""
    described = json.loads(script.document())
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            statuses = set(operation["responses"])
            assert {"200", "403", "500", "503"} <= statuses
            assert ("401" in statuses) == ("421" in statuses) == (path not in OPEN_PATHS)
            assert ("413" in statuses) == ("415" in statuses) == (method == "post")
            assert ("502" in statuses) == (path not in ASK_NOBODY)
            for status, response in operation["responses"].items():
                assert ("application/problem+json" in response["content"]) == (status != "200")
    names = set(described["components"]["schemas"])
    assert {reference.rpartition("/")[2] for reference in references(described)} <= names
    assert {body.__name__ for body in BODIES} <= names


def test_what_is_not_there_yet_is_not_described() -> None:
    """No route, field or choice of a later version stands in the description."""
    described = json.loads(script.document())
    assert set(described["paths"]) == {
        "/research", "/research/plan", "/research/{request_id}/sources/{index}", "/search", "/llm-platform/web-search",
        "/llm-platform/chat", "/health", "/ready",
    }  # fmt: skip
    depth = described["components"]["schemas"]["ResearchApiRequest"]["properties"]["depth"]
    assert depth["enum"] == ["shallow", "deep", "report"]


def test_a_stale_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--check fails while the file is missing or old, and passes after it was written."""
    monkeypatch.setattr(script, "TARGET", tmp_path / "reference" / "openapi.json")
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    script.TARGET.write_text("{}")
    assert script.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().out


def test_the_description_needs_no_settings() -> None:
    """Two applications with different settings describe themselves alike, and the text is made once."""
    other = create_app(platform_of(Scripted()), Settings(_env_file=None, LLM_PLATFORM_API_KEYS="a-long-random-word"))
    assert other.openapi() == json.loads(script.document())
    assert other.openapi() is other.openapi()
