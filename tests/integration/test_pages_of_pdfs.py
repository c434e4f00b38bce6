"""A citation of a PDF has its page number, from the file through the index to the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.infrastructure.parsing.pdf_samples import pdf

from modules.llm_platform import ResearchRequest, ResearchResponse
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagQuestion
from modules.llm_platform.infrastructure.documents import folder_state
from modules.llm_platform.infrastructure.index import payloads
from modules.llm_platform.presentation.cli.render import document
from shared.config import Settings

PAGES = [f"Chapter {number} tells of the weather in the valley of number {number}." for number in range(1, 15)]
FOUND = "The barn owl hunts mice and voles in the meadows at night."
QUESTION = "What does the barn owl hunt?"


def settings(folder: Path, **values: Any) -> Settings:
    documents = folder / "documents"
    documents.mkdir(exist_ok=True)
    (documents / "report.pdf").write_bytes(pdf(*PAGES, FOUND, "The last page tells of nothing else."))
    usual = {
        "DOCUMENTS_DIR": documents,
        "LLM_PLATFORM_DATA_DIR": folder / "data",
        "EMBEDDER": "none",
        "SEARCH_PROVIDERS": "documents",
    }
    return Settings(_env_file=None, **{**usual, **values})


async def asked(given: Settings) -> ResearchResponse:
    async with build_platform(given) as platform:
        return await platform.research.research(ResearchRequest(query=QUESTION, sources=("documents",)))


@pytest.mark.parametrize("address", [None, "https://files.example.org/"])
async def test_citation_names_the_page(tmp_path: Path, address: str | None) -> None:
    """The citation's address opens the page if the document has an address."""
    response = await asked(settings(tmp_path, DOCUMENTS_BASE_URL=address))
    citation = next(citation for citation in response.citations if FOUND.rstrip(".") in citation.quote)
    assert citation.page == 15
    assert citation.quote_url == (f"{address}report.pdf#page=15" if address else None)
    assert f"[{citation.source_index}], p. 15:" in document.research_markdown(response)
    assert ", p. 15" in document.research_html(response)
    assert "pages" not in response.raw_results[0].model_dump()  # type: ignore[index]


@pytest.mark.parametrize("is_named", [False, True], ids=["found", "named in the context"])
async def test_answer_of_the_index_names_the_page(tmp_path: Path, *, is_named: bool) -> None:
    """The worker and `ask` return the field `page` in citations."""
    given = settings(tmp_path)
    context = (ContextItem(doc_id="report.pdf"),) if is_named else ()
    async with build_platform(given) as platform:
        _ = [step async for step in platform.indexing.index([tmp_path / "documents"])]
        answer = await platform.answers.answer(RagQuestion(question=QUESTION, context=context), use_fallback=True)
    assert [(citation.doc_id, citation.page) for citation in answer.citations] == [("report.pdf", 15)]


async def test_document_of_an_older_version_has_no_page_until_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passages of an older version stay searchable. The next check of the folder reads PDFs again, and no other files."""
    given = settings(tmp_path)
    (tmp_path / "documents" / "notes.md").write_text("# Notes\n\nThe tawny owl hoots.\n")
    with monkeypatch.context() as older:
        older.setattr(folder_state, "WITH_PAGES", "")
        older.setattr(payloads, "make_passage_payload", _without_pages(payloads.make_passage_payload))
        response = await asked(given)
    assert {citation.page for citation in response.citations} == {None}
    response = await asked(given)
    assert 15 in {citation.page for citation in response.citations}


def _without_pages(payload_of: Any) -> Any:
    def older(passage: Any, position: int) -> dict[str, Any]:
        return {name: value for name, value in payload_of(passage, position).items() if name != "pages"}

    return older
