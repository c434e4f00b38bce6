"""presentation/cli/render/csl.py: the sources of an answer for programs that manage references."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.source_dtos import RawResult, SourceRef
from modules.llm_platform.presentation.cli.render.csl import render_csl_json

DAY = date(2026, 3, 14)
ENGLISH = "The event loop runs the callbacks that are ready, one after the other."
FIELDS = {"id", "type", "title", "URL", "DOI", "accessed", "issued", "language"}


def answer(*sources: SourceRef, raw: tuple[RawResult, ...] | None = (), **metadata: Any) -> ResearchResponse:
    return ResearchResponse(
        query="What is asyncio?",
        depth="report",
        synthesis="",
        sources=sources,
        raw_results=raw,
        metadata=ResearchMetadata(latency_ms=1, **metadata),
    )


def source(index: int = 1, title: str = "A page", url: str = "https://a.example/") -> SourceRef:
    return SourceRef(index=index, title=title, url=url)


def raw(published: str | None = None, content: str = ENGLISH) -> tuple[RawResult, ...]:
    return (RawResult(title="A page", url="https://a.example/", content=content, published=published),)


def items(response: ResearchResponse, accessed: date | None = DAY) -> list[dict[str, Any]]:
    return json.loads(render_csl_json(response, accessed))


def is_date(value: Any) -> bool:
    """Return a date variable of CSL-JSON: one list of one to three whole numbers."""
    return set(value) == {"date-parts"} and [len(part) in (1, 2, 3) for part in value["date-parts"]] == [True]


def check(item: dict[str, Any]) -> None:
    """What the schema of CSL-JSON asks of these fields."""
    assert set(item) <= FIELDS
    assert re.fullmatch(r"source-\d+", item["id"])
    assert item["type"] in ("webpage", "document", "article")
    assert all(isinstance(item[name], str) for name in ("title", "URL"))
    assert is_date(item["accessed"])
    assert "issued" not in item or is_date(item["issued"])


def test_source_has_all_known_fields() -> None:
    """Title, address, the day it was looked at, when it was published, its language."""
    assert items(answer(source(3), raw=raw("2024-05-01T10:00:00Z"))) == [
        {
            "id": "source-3",
            "type": "webpage",
            "title": "A page",
            "URL": "https://a.example/",
            "accessed": {"date-parts": [[2026, 3, 14]]},
            "issued": {"date-parts": [[2024, 5, 1]]},
            "language": "en",
        }
    ]


def test_sources_keep_their_numbers_and_order() -> None:
    """An answer that cites [2] and [7] has the items source-2 and source-7; one without sources has none."""
    assert [item["id"] for item in items(answer(source(2), source(7, url="doc:a.md")))] == ["source-2", "source-7"]
    assert items(answer()) == []


@for_each(
    ("published", "parts"),
    [
        ("2024", [2024]),
        ("2024-05", [2024, 5]),
        ("2024-05-01", [2024, 5, 1]),
        ("2024-05-01 10:00:00", [2024, 5, 1]),
        ("2024-07-22T00:00:00+08:00", [2024, 7, 22]),
    ],
)
def test_date_keeps_its_precision(published: str, parts: list[int]) -> None:
    """A year alone stays a year."""
    assert items(answer(source(), raw=raw(published)))[0]["issued"] == {"date-parts": [parts]}


@for_each("published", [None, "", "yesterday", "2024-13-01", "2024-02-30", "20240501", "2024-05-011", "0000"])
def test_invalid_date_is_left_out(published: str | None) -> None:
    """A reference with a made-up date is worse than one without."""
    assert "issued" not in items(answer(source(), raw=raw(published)))[0]


def test_no_date_or_language_without_raw_results() -> None:
    """The access date and the address are still included."""
    for response in (answer(source(), raw=None), answer(source(), raw=raw(content="")[:0])):
        assert set(items(response)[0]) == {"id", "type", "title", "URL", "accessed"}


def test_stored_report_is_accessed_when_it_was_finished() -> None:
    """A replay from the store does not make its sources newer."""
    stored = answer(source(), stored_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert items(stored, None)[0]["accessed"] == {"date-parts": [[2026, 1, 2]]}
    before = datetime.now(UTC).date()
    today = date(*items(answer(source()), None)[0]["accessed"]["date-parts"][0])
    assert before <= today <= datetime.now(UTC).date()


def test_source_without_title_is_named_by_its_url() -> None:
    """Programs that read the file refuse items without a title."""
    assert items(answer(source(title=" \n ")))[0]["title"] == "https://a.example/"


@given(st.text(), st.text(), st.text())
def test_hostile_text_keeps_the_json_valid(title: str, content: str, published: str) -> None:
    """Hostile text stays a string of one valid item without terminal control sequences."""
    text = render_csl_json(answer(source(title=title), raw=raw(published, content)), DAY)
    (item,) = json.loads(text)
    check(item)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@for_each(
    ("url", "kind"),
    [
        ("https://a.example/", "webpage"),
        ("https://a.example/notes.pdf?page=2", "document"),
        ("https://a.example/NOTES.PDF", "document"),
        ("https://a.example/read?file=notes.pdf", "webpage"),
        ("doc:notes/a.md", "document"),
        ("https://arxiv.org/abs/1706.03762v7", "article"),
        ("https://arxiv.org/pdf/hep-th/9901001", "article"),
        ("https://arxiv.org/list/cs.AI/recent", "webpage"),
        ("https://arxiv.org.example/abs/1706.03762", "webpage"),
        ("https://doi.org/10.1000/182", "document"),
        ("https://doi.org/the-identifier", "webpage"),
        ("https://[broken/abs/1706.03762", "webpage"),
    ],
)
def test_type_is_read_from_the_url(url: str, kind: str) -> None:
    """A file, a preprint, what has a DOI; all else is a page of the web, whatever its title promises."""
    (item,) = items(answer(source(url=url, title="An article in a journal")))
    check(item)
    assert item["type"] == kind


def test_result_of_the_documents_provider_is_a_document() -> None:
    """With DOCUMENTS_BASE_URL a file has a web address, so the provider decides the type."""
    found = (RawResult(title="Notes", url="https://a.example/", content=ENGLISH, source="documents"),)
    assert items(answer(source(), raw=found))[0]["type"] == "document"


@for_each(
    ("url", "doi"),
    [
        ("https://doi.org/10.1000/182", "10.1000/182"),
        ("http://dx.doi.org/10.1002/(SICI)1097-0258%2819980815%29", "10.1002/(SICI)1097-0258(19980815)"),
        ("https://a.example/doi/10.1000/182", None),
        ("https://doi.org/11.1000/182", None),
    ],
)
def test_doi_is_read_from_the_url(url: str, doi: str | None) -> None:
    """Elsewhere digits in an address may be anything."""
    assert items(answer(source(url=url)))[0].get("DOI") == doi
