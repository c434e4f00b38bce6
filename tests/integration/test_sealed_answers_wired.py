"""Answers of every depth, sealed and checked on the wired platform.

Each verdict can be derived again, and no secret is included.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.support_model import FakeSupportModel
from tests.support.sealed_answers import SEAL_KEY, check_answer, make_seals

from modules.llm_platform import (
    ICitationJudge,
    ILLMProvider,
    ISupportModel,
    IWebSearchProvider,
    LLMPlatform,
    ResearchRequest,
    ResearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.source_dtos import Source, TextKind
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel
from modules.llm_platform.testing import FakeLLM, FakeWebSearch
from shared.config import Settings

RULES = "Employees may work remotely on two days a week if their manager agrees. The rules are from 2019."
TEXT = "Staff can do their jobs remotely with the consent of the manager [1]. The rules are from 2018 [1]."
SECRETS = {
    "LLM_API_KEY": "sk-of-the-operator-1234567890",
    "BRAVE_API_KEY": "brave-of-the-operator-1234567890",
    "LLM_PLATFORM_API_KEYS": "alice:alice-of-the-operator-1234567890",
    "SEAL_KEY": SEAL_KEY,
}
PAIRS = Path(__file__).resolve().parents[1] / "quality"
KINDS: tuple[TextKind, ...] = ("page", "snippet", "document")


def platform(overrides: dict[type[Any], object], **settings: Any) -> LLMPlatform:
    found = WebSearchResultItem(url="https://docs.test/rules", title="Rules", snippet=RULES)
    known = {ILLMProvider: FakeLLM([TEXT]), IWebSearchProvider: FakeWebSearch([found])}
    settings = {"STORE_TTL_DAYS": 0, "CITATION_JUDGE": "off", "CITATION_ENCODER": "auto", **settings}
    return build_platform(Settings(**settings), {**known, **overrides})


async def seal(wired: LLMPlatform, depth: str) -> tuple[ResearchResponse, bytes]:
    request = {"query": "May employees work remotely?", "depth": depth}
    answer = await wired.research.research(ResearchRequest.model_validate(request))
    return answer, wired.seals.seal(answer, await wired.seals.load_sources(answer))


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_answers_of_every_depth_are_derived_again(depth: str) -> None:
    """Another platform derives the same verdicts of the lexical check and the support model, offline."""
    async with platform({ISupportModel: FakeSupportModel(50.0)}) as wired:
        answer, data = await seal(wired, depth)
    assert {citation.checked_by for citation in answer.citations} == {"words", "encoder"}
    async with platform({ISupportModel: FakeSupportModel(50.0)}, LLM_PLATFORM_OFFLINE=True) as other:
        seal_opened, checked = await other.seals.check(data)
    assert [sentence.derived for sentence in checked.sentences] == ["same"] * 2
    assert (checked.sealed.is_same_checker, checked.sealed.is_same_page) == (True, True)
    assert seal_opened.answer.response.metadata.sent_to == answer.metadata.sent_to


async def test_verdicts_of_a_language_model_are_marked() -> None:
    """Verdicts of a language model cannot be derived again and are marked as such. The lexical verdicts below them can."""
    async with platform({ICitationJudge: FakeCitationJudge("partial")}, CITATION_JUDGE="all") as wired:
        _, data = await seal(wired, "shallow")
        _, checked = await wired.seals.check(data)
    assert [sentence.derived for sentence in checked.sentences] == ["not_derivable"] * 2


async def test_no_secret_of_the_settings_is_sealed() -> None:
    """A sealed answer contains no API key of an upstream or a client, and not the signing key."""
    async with platform({}, **SECRETS) as wired:
        _, data = await seal(wired, "shallow")
        opened, checked = await wired.seals.check(data)
    assert checked.sealed.signature == "valid"
    whole = opened.answer.model_dump_json() + opened.page + "".join(source.text for source in opened.sources)
    assert not [secret for secret in SECRETS.values() if secret.rpartition(":")[2] in whole]


@pytest.mark.parametrize("name", list(SECRETS))
async def test_a_text_with_a_secret_of_the_settings_is_not_sealed(name: str) -> None:
    """A document that contains a configured key is not sealed."""
    secret = SECRETS[name].rpartition(":")[2]
    source = Source(index=1, title="Rules", url="https://docs.test/rules", text=f"{RULES} The key is {secret}.")
    answer = await check_answer(TEXT, (source,))
    async with platform({}, **SECRETS) as wired:
        with pytest.raises(SealError, match="secret"):
            wired.seals.seal(answer, (source,))


@pytest.mark.parametrize("name", ["second_pairs", "unseen_pairs"])
async def test_verdicts_on_labelled_sentences_come_out_again(name: str) -> None:
    """Labelled sentences of many languages and kinds have the same verdicts again, by the lexical check and by the
    support model.
    """
    rows = [json.loads(line) for line in (PAIRS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    by_language = defaultdict(list)
    for row in rows:
        by_language[row.get("language", "en")].append(row)
    model, counts, checked_by = OnnxSupportModel(), Counter[str](), Counter[str]()
    for language, found in by_language.items():
        sources = tuple(
            Source(
                index=number,
                title="",
                url=f"https://a.example/{number}",
                text=row["source"],
                text_kind=KINDS[number % len(KINDS)],
            )
            for number, row in enumerate(found, 1)
        )
        text = "\n\n".join(f"{row['sentence'].rstrip('.')} [{number}]." for number, row in enumerate(found, 1))
        answer = await check_answer(text, sources, model, language)
        checked_by.update(citation.checked_by for citation in answer.citations)
        seals = make_seals(model)
        _, checked = await seals.check(seals.seal(answer, sources))
        counts.update(checked.counts)
    await model.aclose()
    assert (counts["different"], counts["not_derivable"]) == (0, 0)
    assert min(counts["same"], checked_by["words"], checked_by["encoder"]) > 10
