"""The page's suggested questions about the operator's documents are answered in every language of the page."""

import re
from pathlib import Path
from typing import Literal

from tests.support.cases import for_each

from modules.llm_platform import ResearchRequest
from modules.llm_platform.container import build_platform
from shared.config import Settings

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ROOT / "src/modules/llm_platform/presentation/rest/page/lang"
OFFERED = "What does “{title}” say?"
FOLDER = ROOT / "tests/quality/folder/files"  # fourteen files in three languages


def list_offered() -> list[str]:
    """Return the suggested question in each language of the page."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(LANGUAGES.glob("*.js"))]
    return [OFFERED, *(re.findall(rf'"{re.escape(OFFERED)}": "([^"]+)"', text)[0] for text in texts)]


@for_each("depth, step", [("shallow", 2), ("deep", 3)])
async def test_each_offered_question_is_answered_by_its_document(depth: Literal["shallow", "deep"], step: int) -> None:
    """Each document is asked for in every second or third language, so that each language asks for some of the documents."""
    offered, missed = list_offered(), []
    assert len(offered) == 6
    settings = Settings(DOCUMENTS_DIR=FOLDER, STORE_TTL_DAYS=0, ANSWER_ENCODER="off")
    async with build_platform(settings) as services:
        await services.research.research(
            ResearchRequest(query="What is there?", sources=("documents",))
        )  # indexes the documents
        titles = await services.document_titles(50)
        assert len(titles) == 14
        for place, title in enumerate(titles):
            for question in offered[place % step :: step]:
                asked = question.replace("{title}", title)
                answer = await services.research.research(
                    ResearchRequest(query=asked, depth=depth, sources=("documents",))
                )
                if not answer.citations or {source.title for source in answer.sources} != {title}:
                    missed.append(asked)
    assert not missed
