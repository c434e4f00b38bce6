"""The hand-written reference pages agree with the code."""

from __future__ import annotations

import json
import re

from pydantic import BaseModel
from scripts import limit_column, quality
from tests.docs.pages import rows_in, rows_of, text_of
from tests.support.cases import for_each

from modules.llm_platform.application.research.events import EVENT_TYPES
from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.health_dtos import HealthReport
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.source_dtos import HeldSource
from modules.llm_platform.infrastructure.documents.folder import SUFFIXES
from modules.llm_platform.infrastructure.documents.json_lines import JSON_LINES
from modules.llm_platform.infrastructure.limits.upstream_states import MAX_CALLS_IN_FLIGHT
from modules.llm_platform.infrastructure.stores.database.migrations import LATEST
from modules.llm_platform.presentation.rest.chat_routes import ChatApiRequest, ChatApiResponse
from modules.llm_platform.presentation.rest.http import problems as rest_problems
from modules.llm_platform.presentation.rest.research_routes import ResearchApiRequest
from modules.llm_platform.presentation.rest.search_routes import WebSearchApiRequest, WebSearchApiResponse
from shared.exceptions import AppException

CRITERIA = "docs/reference/success-criteria.md"
FIGURES = {  # by row of the page: the figure that scripts/quality.py measures
    "all three verdicts": "three_class",
    "wrong sentences not called supported": "flagged",
    "of these, changed numbers and dates": "numbers",
    "of these, changed names and identifiers": "names",
    "sentences copied word for word called supported": "verbatim",
    "true sentences called supported": "supported",
}
HTTP, ERRORS = "docs/reference/http.md", "docs/reference/errors.md"
COMPATIBLE_APIS = "docs/reference/compatible-apis.md"
MODELS = (
    ResearchApiRequest,
    ResearchResponse,
    ResearchMetadata,
    PlanRequest,
    ResearchPlan,
    Sent,
    HeldSource,
    WebSearchApiRequest,
    WebSearchApiResponse,
    ChatApiRequest,
    ChatApiResponse,
    HealthReport,
)
ABSTRACT = {"LLMException", "RestError"}  # base classes that are never raised


def subclasses(module: object) -> list[type[AppException]]:
    found = [
        member for member in vars(module).values() if isinstance(member, type) and issubclass(member, AppException)
    ]
    return [error for error in found if error is not AppException and error.__name__ not in ABSTRACT]


def test_every_route_is_described() -> None:
    """The tables of routes list the same routes as OpenAPI."""
    paths = json.loads(text_of("docs/reference/openapi.json"))["paths"]
    listed = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    rows = [*rows_of(HTTP), *rows_of(COMPATIBLE_APIS)]
    cells = [row[0] for row in rows if re.match(r"`[A-Z]+ /", row[0])]
    assert {route for cell in cells for route in re.findall(r"`([^`]+)`", cell)} == listed


@for_each("model", MODELS)
def test_every_field_is_described(model: type[BaseModel]) -> None:
    """The page names each request and response field."""
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text_of(HTTP)))))
    fields = [name for name, field in model.model_fields.items() if not field.exclude]
    assert [name for name in fields if name not in named] == []


@for_each(("heading", "model"), limit_column.REQUESTS.items())
def test_every_field_of_a_request_has_its_row(heading: str, model: type[BaseModel]) -> None:
    """Each field has its own row, where `make docs` writes the limit. No other field has a row."""
    section = text_of(HTTP).partition(heading)[2].partition("\n## ")[0]
    tables = [part.partition("\n\n")[0] for part in section.split(limit_column.HEAD)[1:]]
    rows = [row[0].strip("`") for table in tables for row in rows_in(table)]
    assert sorted(rows) == sorted(model.model_json_schema()["properties"]), f"{HTTP}, {heading.strip()}"


def test_every_event_is_described_with_its_fields() -> None:
    """The table lists each event type once, in the order of a research run, with all its fields."""
    events = text_of(HTTP).partition("## Events")[2].partition("\n## ")[0]
    rows = {row[0].strip("`"): row[1] for row in rows_in(events)}
    assert [kind for kind in EVENT_TYPES if kind not in rows] == [], f"{HTTP}, Events: the table lacks these events"
    for kind, event in EVENT_TYPES.items():
        own = [name for name in event.model_fields if name not in ("type", "request_id")]
        missing = [name for name in own if f"`{name}`" not in rows[kind]]
        assert missing == [], f"{HTTP}, Events: the row of {kind} lacks these fields"


def test_every_error_has_its_line() -> None:
    """One row has the code, class and status of each error that users can get."""
    rows = rows_of(ERRORS)
    for error in subclasses(exceptions):
        status = f"{error.status_code}, retryable" if error.retryable else str(error.status_code)
        assert any(row[:3] == [f"`{error.code}`", f"`{error.__name__}`", status] for row in rows), error.__name__
    for error in subclasses(rest_problems):
        status = f"{error.status_code}, retryable" if error.retryable else str(error.status_code)
        assert any(row[:2] == [f"`{error.code}`", status] for row in rows), error.__name__


def test_no_line_speaks_of_an_error_that_is_gone() -> None:
    """Each error code on the page exists."""
    known = {error.code for error in (*subclasses(exceptions), *subclasses(rest_problems))}
    assert {row[0].strip("`") for row in rows_of(ERRORS) if row[0].startswith("`")} == known


def test_no_figure_of_the_citation_check_is_better_than_it_is() -> None:
    """The page's figures are measured again on the current pairs."""
    sets = quality.load()
    looked_at = [pair for name, pairs in sets.items() if name not in (quality.PAGES, *quality.BLIND) for pair in pairs]
    last = [sets[name] for name in (quality.LAST, quality.LAST_EDITED, quality.PAGES, quality.HELD_PAGES)]
    short = (looked_at, sets[quality.UNSEEN], sets[quality.DOCUMENTATION])
    measured = [quality.measure(pairs) for pairs in (*short, *last, sets[quality.DOCUMENTATION_PAGES])]
    claimed = {row[0]: [float(cell) for cell in row[1:]] for row in rows_of(CRITERIA) if row[0] in FIGURES}
    assert set(claimed) == set(FIGURES)
    for row, shares in claimed.items():
        for share, figures in zip(shares, measured, strict=True):
            assert round(getattr(figures, FIGURES[row]), 2) >= share, (row, figures)


@for_each(
    "page, sentence",
    [
        ("docs/howto/limits-and-budgets.md", f"gets at most {MAX_CALLS_IN_FLIGHT} calls at a time"),
        ("docs/howto/share-state-between-machines.md", f"the tables have version {LATEST} (before: none)"),
    ],
)
def test_numbers_of_the_code_are_told_as_they_are(page: str, sentence: str) -> None:
    """A page that repeats a number from the code has the current number."""
    assert sentence in text_of(page)


def test_streams_name_every_event() -> None:
    """OpenAPI lists the event types of a research run and has a schema for each one."""
    document = json.loads(text_of("docs/reference/openapi.json"))
    response = document["paths"]["/research"]["post"]["responses"]["200"]
    assert ", ".join(EVENT_TYPES) in response["description"]
    variants = response["content"]["text/event-stream"]["x-itemSchema"]["anyOf"]
    schemas = {
        variant["properties"]["event"]["const"]: variant["properties"]["data"]["contentSchema"]["$ref"].rpartition("/")[
            2
        ]
        for variant in variants[:-1]
    }
    assert schemas == {kind: event.__name__ for kind, event in EVENT_TYPES.items()}
    for kind, event in EVENT_TYPES.items():
        assert set(document["components"]["schemas"][schemas[kind]]["properties"]) == set(event.model_fields)


@for_each("page", ["docs/howto/documents.md", "docs/howto/index-documents.md"])
@for_each("suffix", [*SUFFIXES, *JSON_LINES])
def test_every_kind_of_file_is_named(page: str, suffix: str) -> None:
    """The pages about folders list every file type that is indexed."""
    assert f"`{suffix}`" in text_of(page)
