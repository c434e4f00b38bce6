"""The keyword score, and which results are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.dtos.report_dtos import Candidate, RankedCandidate, Score
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.domain.retrieval.ranking import average_criteria, pick_top, score_by_keywords, sort_best_first

QUESTION, DIRECTION = "How do solar sails work?", "Who builds solar sails?"


@for_each(
    ("criteria", "value"),
    [((7, 8, 6, 7, 8), 7.2), ((10,), 10.0), ((0, 0, 0), 0.0), ((7, 7, 7.5, 7.5), 7.3), ((1, 2, 2), 1.7)],
)
def test_the_mean_has_one_decimal(criteria: tuple[float, ...], value: float) -> None:
    """Halves go up, whatever the last bit of a float says."""
    assert average_criteria(criteria) == value


def scored(title: str, text: str, question: str = QUESTION, direction: str = DIRECTION, language: str = "en") -> float:
    return score_by_keywords(question, direction, title, text, language)


def test_a_result_for_question_and_direction_scores_best() -> None:
    """More words of the question and of the direction, in the title too, and something to read: a better score."""
    long_text = "Solar sails work by the pressure of light. NASA builds solar sails, and so does JAXA. " * 3
    order = [
        scored("Who builds solar sails", long_text),
        scored("Space news", long_text),
        scored("Solar sails", "A photo."),
        scored("Space news", "A sail for a boat."),
        scored("Tea", "How to make tea? How do you do?"),
    ]
    assert order == sorted(order, reverse=True)
    assert len(set(order)) == len(order)
    assert order[0] == 10.0
    assert order[-1] == 0.0


@for_each(
    ("language", "question", "title"),
    [
        ("ru", "Как летит солнечный парус?", "О солнечных парусах"),
        ("de", "Wie arbeiten Wärmepumpen im Winter?", "Wärmepumpe im Winter"),
        ("zh", "太阳帆如何工作？", "关于太阳帆的介绍"),
        ("en", "How are C++ templates compiled?", "Template compilation in C++"),
        ("ru", "Где используется Mixture of Tokens?", "Mixture of Tokens"),
        ("en", "What does asyncio.run_in_executor do?", "run in executor (asyncio)"),
    ],
)
def test_words_count_in_any_form_and_script(language: str, question: str, title: str) -> None:
    """Endings, joined names and scripts without blanks do not hide a word; function words do not count."""
    assert scored(title, "", question, question, language) >= 3.0
    assert scored("Bananas 香蕉 бананы", "", question, question, language) == 0.0


def test_a_question_of_function_words_uses_all_its_words() -> None:
    """`Who is who?` has no other words. A question of punctuation has none."""
    assert scored("Who is who in Norway", "", "Who is who?", "Who is who?") > 0
    assert scored("Anything", "at all", "🦀🦀", "🦀🦀") == 0.0


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=200), st.sampled_from(["en", "ru", "zh", "xx"]))
def test_every_score_is_between_0_and_10(question: str, title: str, text: str, language: str) -> None:
    """One decimal, for whatever words."""
    value = score_by_keywords(question, title, title, text, language)
    assert 0.0 <= value <= 10.0
    assert round(value, 1) == value


def test_scoring_takes_linear_time() -> None:
    """A report without a model scores some sixty snippets, and a provider may send long ones."""
    sentence = (
        "A common mistake when adopting solar sails is to optimise the average and to ignore the slowest one percent. "
    )
    short, long = sentence * 30, sentence * 300
    assert is_linear(
        lambda: [scored("Solar sails", short) for _ in range(5)],
        lambda: [scored("Solar sails", long) for _ in range(5)],
        10,
    )


# --- which results are kept ---------------------------------------------------------------------------------------------


def ranked(name: str, value: float, question: str = "a") -> RankedCandidate:
    item = WebSearchResultItem(title=name, url=f"https://example.org/{name}")
    return RankedCandidate(
        candidate=Candidate(item=item, question=question, queries=(question,)), score=Score(value=value, by="model")
    )


def names(chosen: list[RankedCandidate]) -> str:
    return " ".join(ranked.candidate.item.title for ranked in chosen)


ALL = [
    ranked("a1", 9),
    ranked("a2", 8.5),
    ranked("a3", 8),
    ranked("b1", 4, "b"),
    ranked("b2", 3, "b"),
    ranked("c1", 0.4, "c"),
]


@for_each(
    ("count", "questions", "expected"),
    [
        (3, ("a", "b", "c"), "a1 a2 b1"),
        (3, (), "a1 a2 a3"),
        (2, ("b", "a"), "a1 b1"),
        (1, ("a", "b"), "a1"),
        (4, ("a", "b", "c", "d"), "a1 a2 a3 b1"),
        (9, ("a", "b", "c"), "a1 a2 a3 b1 b2 c1"),
        (0, ("a",), ""),
    ],
)
def test_the_best_results_include_one_for_each_sub_question(
    count: int, questions: tuple[str, ...], expected: str
) -> None:
    """Best first; a sub-question without a usable result has no place kept for it."""
    assert names(pick_top(list(reversed(ALL)), count, questions)) == expected


def test_reserves_follow_the_first_results() -> None:
    """The first places hold one for each sub-question, all others follow, best first."""
    assert names(pick_top(ALL, len(ALL), ("a", "b", "c"), first=3)) == "a1 a2 b1 a3 b2 c1"
    assert names(pick_top(ALL, 4, ("a", "b"), first=2)) == "a1 b1 a2 a3"
    assert pick_top(ALL, len(ALL), ("a", "b"), first=99) == pick_top(ALL, len(ALL), ())


def test_of_equals_the_one_found_first_is_first() -> None:
    """The order is the same each time."""
    same = [ranked("one", 5), ranked("two", 5), ranked("three", 5)]
    assert names(sort_best_first(same)) == names(pick_top(same, 3, ("a",))) == "one two three"


@given(
    st.lists(st.tuples(st.integers(0, 10), st.sampled_from("abc")), max_size=25),
    st.integers(0, 30),
    st.integers(0, 30) | st.none(),
)
def test_every_result_is_picked_at_most_once(found: list[tuple[int, str]], count: int, first: int | None) -> None:
    """As many as there are and are wanted, none twice; with places for all, each sub-question with a usable result is there."""
    results = [ranked(str(number), value, question) for number, (value, question) in enumerate(found)]
    chosen = pick_top(results, count, "abc", first=first)
    assert len(chosen) == len(set(map(id, chosen))) == min(count, len(results))
    positions = count if first is None else min(first, count)
    if positions >= 3:
        usable = {question for value, question in found if value >= 1}
        assert usable <= {ranked.candidate.question for ranked in chosen[:positions]}
    if found and positions:
        assert chosen[0].score.value == max(value for value, _ in found)
