"""Sources are cut to a budget fairly, deterministically and at ends of sentences."""

from __future__ import annotations

import re
from functools import partial

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.llm.context_budget import (
    BRIEF_SHARE,
    ONE_STEP_SHARE,
    SMALL_BRIEF_TOKENS,
    SMALL_BUDGET_TOKENS,
    SMALL_ONE_STEP_TOKENS,
    SOURCES_BUDGET_TOKENS,
    fit_to_budget,
    fit_to_question,
)
from modules.llm_platform.domain.retrieval.excerpt import GAP
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.sentences import WIDE_STOPS, split_sentences
from modules.llm_platform.domain.text.tokens import count_tokens

LONG = "Every sentence of this long source has about the same length. " * 200
TEXTS = st.lists(st.text(alphabet="abz АЖя 中文字。 .!?\n19_é-ไท", max_size=200), max_size=6)
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
BUDGETS = st.integers(min_value=0, max_value=120)


def sources(*texts: str) -> list[Source]:
    return [
        Source(index=number, title=f"T{number}", url=f"https://example.org/{number}", text=text)
        for number, text in enumerate(texts, 1)
    ]


def tokens(packed_sources: tuple[Source, ...]) -> list[int]:
    return [count_tokens(source.text) for source in packed_sources]


@given(TEXTS, BUDGETS)
def test_never_over_budget_and_the_rest_is_reported(texts: list[str], budget: int) -> None:
    """The kept text fits the budget and consists of beginnings, and the number of cut tokens is exact."""
    given_sources = sources(*texts)
    packed = fit_to_budget(given_sources, budget)
    used = sum(tokens(packed.sources))
    assert used <= budget
    assert used + packed.truncated_tokens == sum(map(count_tokens, texts))
    assert [source.index for source in packed.sources] == [source.index for source in given_sources]
    for kept, whole in zip(packed.sources, given_sources, strict=True):
        assert whole.text.startswith(kept.text)


@given(TEXTS, BUDGETS)
def test_no_budget_is_unused_while_a_source_is_cut(texts: list[str], budget: int) -> None:
    """What is left over would not hold the next sentence of any source that was cut."""
    given_sources = sources(*texts)
    packed = fit_to_budget(given_sources, budget)
    left = budget - sum(tokens(packed.sources))
    for kept, whole in zip(packed.sources, given_sources, strict=True):
        following = next((end for _, end in split_sentences(whole.text) if end > len(kept.text)), None)
        if following is not None:
            assert count_tokens(whole.text[len(kept.text) : following]) > left


@given(TEXTS, BUDGETS)
def test_packing_is_deterministic(texts: list[str], budget: int) -> None:
    """The same sources and budget give the same cut: a cached answer and a fresh one saw the same."""
    assert fit_to_budget(sources(*texts), budget) == fit_to_budget(sources(*texts), budget)


def test_short_sources_stay_whole_and_long_ones_share_the_rest() -> None:
    """A long source does not push out a short one, and two equally long ones get equally much."""
    packed = fit_to_budget(sources(LONG, "A short one.", LONG), 400)
    first, short, second = packed.sources
    assert short.text == "A short one."
    assert (
        abs(count_tokens(first.text) - count_tokens(second.text))
        <= count_tokens("Every sentence of this long source has it. ") * 2
    )
    assert min(tokens(packed.sources)) > 0


def test_texts_are_cut_at_sentence_ends() -> None:
    """A text is cut after a full stop if a sentence fits."""
    packed = fit_to_budget(sources(LONG, LONG), 300)
    assert all(source.text.endswith("length.") for source in packed.sources)


def test_a_sentence_longer_than_its_share_is_cut_between_words() -> None:
    """Better half a sentence than nothing of a source."""
    packed = fit_to_budget(sources("word " * 500), 50)
    assert packed.sources[0].text.split() == ["word"] * 50
    assert packed.truncated_tokens == 450


def test_text_without_spaces_is_cut_within_its_share() -> None:
    """Chinese has no words to cut between: characters are what counts."""
    packed = fit_to_budget(sources("光合作用是植物利用阳光的过程" * 100), 60)
    assert count_tokens(packed.sources[0].text) == 60


def test_sources_within_the_budget_are_unchanged() -> None:
    """Below the budget the same objects are returned."""
    given_sources = sources("One.", "Two.")
    packed = fit_to_budget(given_sources)
    assert packed.sources == tuple(given_sources)
    assert packed.truncated_tokens == 0
    assert SOURCES_BUDGET_TOKENS == 4000


def is_in_a_word(text: str, at: int) -> bool:
    """Return whether a cut before the character `at` parts a word; scripts without blanks are cut anywhere."""
    if not 0 < at < len(text):
        return False
    before, behind = text[at - 1], text[at]
    if before.isspace() or before in WIDE_STOPS or UNSPACED_CHARACTER.match(before):
        return False
    return behind.islower() or (before.isalnum() and behind.isalnum() and not UNSPACED_CHARACTER.match(behind))


def is_passage(part: str, whole: str) -> bool:
    """Return whether the part is in the text without cut words at its ends."""
    starts = (found.start() for found in re.finditer(f"(?={re.escape(part)})", whole))
    return any(not is_in_a_word(whole, start) and not is_in_a_word(whole, start + len(part)) for start in starts)


@given(TEXTS, BUDGETS, st.text(alphabet="abz АЖя 中文。 19_é-ไท", max_size=40))
@example(texts=["1?", "1?1?1?", " 1?1??1?é"], budget=15, question="")
def test_passages_for_a_question_fit_the_budget(texts: list[str], budget: int, question: str) -> None:
    """For any question, the passages fit the budget in the order of their sources.

    Cut tokens are counted, and passages are verbatim without cut words.
    """
    given_sources = sources(*texts)
    packed = fit_to_question(given_sources, question, budget)
    used = sum(tokens(packed.sources))
    assert used <= budget
    assert used + packed.truncated_tokens == sum(map(count_tokens, texts))
    kept_numbers = [source.index for source in packed.sources]
    assert kept_numbers == sorted(kept_numbers)
    for kept in packed.sources:
        assert all(is_passage(part, given_sources[kept.index - 1].text) for part in kept.text.split(GAP))


def test_the_most_relevant_passage_is_kept() -> None:
    """A relevant passage at the end of a long source replaces its beginning."""
    text = f"{LONG}\n\nThe pump listens on port 4949.\n\n{LONG}"
    packed = fit_to_question(sources(LONG, text), "On which port does the pump listen?", 400)
    assert "port 4949" in packed.sources[1].text
    assert packed.truncated_tokens > 0


PUMP = "The pump of the north well listens on port 4949."
WATER = "The water of the well is cold, and the well is old. " * 20


def test_a_few_passages_are_enough_if_they_have_every_word_of_the_question() -> None:
    """The sources that have none of them are left out, and most of the budget stays unused."""
    given_sources = sources(LONG, f"{LONG}\n\n{PUMP}\n\n{LONG}", WATER, LONG)
    packed = fit_to_question(given_sources, "On which port does the pump of the north well listen?", 1000)
    assert PUMP in packed.sources[0].text
    assert [source.index for source in packed.sources if source.text in given_sources[0].text] == []
    assert sum(tokens(packed.sources)) <= 1000 * BRIEF_SHARE
    assert sum(tokens(packed.sources)) + packed.truncated_tokens == sum(count_tokens(one.text) for one in given_sources)


@for_each(
    "question",
    [
        "On which port does the pump of the south well listen?",  # no passage names the south
        "Which pump?",  # one word: any passage about pumps has it
    ],
)
def test_half_of_the_budget_is_used_if_the_best_passages_may_not_answer(question: str) -> None:
    """Passages with facts may share few words with the question, and the brief prompt has no room for them."""
    packed = fit_to_question(sources(LONG, f"{LONG}\n\n{PUMP}", WATER), question, 600)
    assert any(PUMP in source.text for source in packed.sources)
    assert 600 * BRIEF_SHARE < sum(tokens(packed.sources)) <= 600 * ONE_STEP_SHARE


@for_each(
    ("question", "most"),
    [
        ("On which port does the pump of the north well listen?", SMALL_BRIEF_TOKENS),
        ("On which port does the pump of the south well listen?", SMALL_ONE_STEP_TOKENS),
    ],
)
def test_a_small_budget_is_for_a_small_model_which_gets_fewer_passages(question: str, most: int) -> None:
    """More of them distract it. A larger budget is used in its full share."""
    given_sources = sources(LONG, f"{LONG}\n\n{PUMP}", WATER)
    packed = fit_to_question(given_sources, question, SMALL_BUDGET_TOKENS)
    assert any(PUMP in source.text for source in packed.sources)
    assert most / 2 < sum(tokens(packed.sources)) <= most
    assert sum(tokens(fit_to_question(given_sources, question, SMALL_BUDGET_TOKENS + 1).sources)) > most


def test_sources_that_have_no_word_of_the_question_share_the_budget() -> None:
    """A question in another language ranks no passage, so each source gets a share."""
    packed = fit_to_question(sources(LONG, LONG, WATER), "Où coule la rivière souterraine ?", 600)
    assert len(packed.sources) == 3
    assert sum(tokens(packed.sources)) > 600 * ONE_STEP_SHARE


def test_a_best_passage_longer_than_the_budget_is_cut() -> None:
    """A text without blanks is one passage, whatever its length: a part of it is better than a prompt without sources."""
    packed = fit_to_question(sources(f"port {'x19' * 2000}", LONG), "On which port does the pump listen?", 400)
    assert any(source.text for source in packed.sources)
    assert sum(tokens(packed.sources)) <= 400


def test_neighbouring_passages_stay_as_the_page_has_them() -> None:
    """Nothing is inserted between two passages that follow each other."""
    page = "\n".join(
        f"Valve {number} of the pump opens at {number} bar, and it closes again by itself." for number in range(9)
    )
    packed = fit_to_question(sources(page, LONG), "At how many bar does a valve open?", 600)
    assert packed.sources[0].text == page


def test_an_answer_of_several_searches_gets_all_sources() -> None:
    """It needs more than what has the words of the question."""
    given_sources = sources(LONG, f"{LONG}\n\n{PUMP}", WATER)
    question = "On which port does the pump of the north well listen?"
    assert len(fit_to_question(given_sources, question, 600, is_one_step=False).sources) == 3


def test_better_ranked_sources_get_more_room() -> None:
    """The second of two long sources gets about half of the first one's share."""
    first, second = tokens(fit_to_question(sources(LONG, LONG), "Why?", 1200).sources)
    assert 1.5 < first / second < 2.5


@for_each("unit", ["`", "![", "-", "[1", "\n", "字"])
def test_hostile_texts_take_linear_time(unit: str) -> None:
    """A page made to be slow to read is packed in a moment."""
    small, large = (sources(unit * (size // len(unit)), "Short.") for size in (20_000, 200_000))
    for fit in (fit_to_budget, partial(fit_to_question, question="What moves water?")):
        assert is_linear(lambda fit=fit: fit(small), lambda fit=fit: fit(large), 10)
