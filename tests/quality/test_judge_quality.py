"""A model as judge of citations is measured on the labelled pairs, and lifts no changed fact however wrong it is."""

from __future__ import annotations

import pytest
from scripts import judge_quality, quality
from tests.fakes.citation_judge import FakeCitationJudge

from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, ModelVerdict

SETS = ("tuned on", "written last", "second author", "second author, later")
ALL_ENDS = ".!?。 "


@pytest.fixture(scope="module")
def sets() -> dict[str, list[quality.Pair]]:
    return quality.load()


async def test_a_judge_is_measured_on_the_same_pairs(sets: dict[str, list[quality.Pair]]) -> None:
    """One that knows the labels gets nearly all right; one that says nothing changes nothing, and is counted."""
    pairs = sets["second author"]
    labels = {pair.sentence.rstrip(ALL_ENDS): pair.label for pair in pairs}

    def knowing(claim: CitedClaim) -> ModelVerdict | None:
        return labels.get(claim.claim.rstrip(ALL_ENDS))  # type: ignore[return-value]

    by_words = quality.measure(pairs)
    best, missing = await judge_quality.measure_judge(FakeCitationJudge(knowing), pairs)
    assert best.pairs == by_words.pairs
    assert best.three_class > max(0.9, by_words.three_class)
    assert best.verbatim == by_words.verbatim
    assert missing < len(pairs) // 10
    silent, missing = await judge_quality.measure_judge(FakeCitationJudge(lambda claim: None), pairs)
    assert silent == by_words
    assert missing > 0


@pytest.mark.parametrize("name", SETS)
async def test_a_judge_that_believes_anything_lifts_no_changed_fact(
    sets: dict[str, list[quality.Pair]], name: str
) -> None:
    """Of changed numbers, dates and identifiers that the words flagged none is supported, though the judge says so of all."""
    facts = [pair for pair in sets[name] if pair.kind in (*quality.NUMBER_KINDS, "identifier")]
    by_words = quality.measure(facts)
    credulous, _ = await judge_quality.measure_judge(FakeCitationJudge("supported"), facts)
    assert (credulous.numbers, credulous.names) == (by_words.numbers, by_words.names)


async def test_without_a_model_a_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """What to set, and no call."""
    await judge_quality.main()
    assert capsys.readouterr().out.splitlines() == [judge_quality.NO_MODEL]
