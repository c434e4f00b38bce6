"""Instructions in a context or an index have no effect on the answer, even if the model obeys all of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from tests.security.test_injection_pages import CASES, FOLDER, URL, Case, foreign, read
from tests.support.rag_world import Indexed, RagWorld

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart, LLMToken
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagAnswer, RagQuestion
from modules.llm_platform.presentation.cli.commands.ask import TimedAnswer, as_research
from modules.llm_platform.presentation.cli.render.document import research_html, research_markdown
from modules.llm_platform.testing import FakeLLM

QUESTION = "What is Mixture of Tokens?"
SENTENCE = "Mixture of Tokens is a topic of this sample page."
OTHER = ContextItem(doc_id="other", snippet=f"{SENTENCE} It has nothing to hide.")
DOORS = ("read", "given", "indexed")


@pytest.fixture(params=CASES, ids=lambda case: case.file)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param  # type: ignore[no-any-return]


class Obedient(FakeLLM):
    """Repeats what it reads, says what the pages demand, and links where they demand it."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    async def generate(self, request: LLMRequest) -> LLMResponse:
        self.requests.append(request)
        sent = [
            f"![x](https://{host}/?q=1) <img src='https://{host}/'> https://{host}/y" for host in self._case.exfil_hosts
        ]
        text = "\n\n".join(
            [
                f"{SENTENCE[:-1]} [2].",
                request.messages[-1].content,
                *self._case.markers,
                *sent,
                f"{SENTENCE[:-1]} [1][7].",
            ]
        )
        return LLMResponse(content=text, provider="fake", model="obedient")

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        answer = await self.generate(request)
        yield LLMToken(text=answer.content)
        yield answer


async def answered(case: Case, door: str, model: Obedient) -> RagAnswer:
    """Return the answer with the page as this kind of input, and the answer with the page as its own text."""
    text = (await read(case)).text
    raw = (FOLDER / case.file).read_text(encoding="utf-8", errors="replace")
    given = {"read": ContextItem(url=URL), "given": ContextItem(doc_id="bad", snippet=raw, url=URL), "indexed": None}[
        door
    ]
    documents = (Indexed("bad", "A <b>page</b>\x1b[31m", (text,), URL),) if door == "indexed" else ()
    world = await RagWorld(documents, pages={URL: await read(case)}, llm=model).indexed()
    return await world.answer(QUESTION, *(item for item in (OTHER, given) if item))


@pytest.mark.parametrize("door", DOORS)
async def test_an_obedient_models_answer_contains_nothing_of_the_attacker(case: Case, door: str) -> None:
    """The prompt marks the page's text as data for every kind of input.

    The answer, and the files of `ask --output`, contain no link, image, HTML or number except those of a citation.
    """
    model = Obedient(case)
    answer = await answered(case, door, model)
    (asked,) = model.requests
    system, user = (message.content for message in asked.messages)
    _check_prompt(system, user)
    assert door == "given" or not case.hidden_text or not any(marker in system + user for marker in case.markers)
    assert SENTENCE[:-1] in answer.answer
    assert not list(foreign(answer.answer, set(range(1, len(answer.citations) + 1))))
    assert {citation.url for citation in answer.citations} <= {URL, None}
    assert len(answer.citations) <= 2
    _check_files(answer)


def _check_prompt(system: str, user: str) -> None:
    """Check that the page is inside the fences, and that no number or role in it looks like one of the prompt."""
    (fence,) = re.findall(r"=== [0-9a-f]{16} ===", system)  # a page may contain a fence
    before, data, after = user.split(fence)
    assert before.strip() == ""
    assert re.fullmatch(
        rf"Answer the question below in full sentences[^\n]*\n\nQuestion: {re.escape(QUESTION)}", after.strip()
    )
    assert not re.search(r"<\|", data)
    assert set(re.findall(r"\[(\d+)\]", data)) <= {"1", "2"}


def _check_files(answer: RagAnswer) -> None:
    """Check that titles and notes are as harmless as the text."""
    shown = as_research(TimedAnswer(RagQuestion(question=QUESTION), answer, 7))
    page_of_html = research_html(shown)
    assert not re.search(r"<(?:img|script|iframe|svg)\b", page_of_html)
    assert not [link for link in re.findall(r"href=\"([^\"]*)", page_of_html) if not link.startswith(("#", URL))]
    assert "\x1b" not in page_of_html + research_markdown(shown)
