"""The rules by which sentences are chosen, one at a time; whole answers are looked at in test_extraction_quality.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.conflicts import find_conflict
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.extraction import MAX_QUOTES, Extraction, extract
from modules.llm_platform.domain.own_words import own_words
from modules.llm_platform.domain.question import read_question
from modules.llm_platform.domain.quoting import set_answer
from modules.llm_platform.domain.readings import find_readings

TEXTS = st.lists(st.text(alphabet="abn .!?:\n-`#[]()1中。", max_size=150), max_size=4)


def sources(*texts: str, titles: tuple[str, ...] = ()) -> list[Source]:
    return [
        Source(index=number, title=titles[number - 1] if titles else "", url=f"https://example.org/{number}", text=text)
        for number, text in enumerate(texts, 1)
    ]


def chosen(question: str, *texts: str) -> list[str]:
    return [quote.sentence.text for quote in extract(read_question(question, "en"), sources(*texts)).quotes]


def extracted(question: str, *texts: str, titles: tuple[str, ...] = ()) -> Extraction:
    return extract(read_question(question, "en"), sources(*texts, titles=titles))


def test_sentences_stand_in_the_order_of_their_source() -> None:
    """Not the better one first: a text is read from its beginning."""
    assert chosen(
        "Which filters do pumps need?",
        "Old pumps need coarse filters. Rain fell. New pumps also need fine filters and a valve for the pressure.",
    ) == ["Old pumps need coarse filters.", "New pumps also need fine filters and a valve for the pressure."]


def test_three_good_sentences_are_enough() -> None:
    """However many fit, the answer stays short."""
    text = " ".join(
        f"Pumps of the {name} kind need filters against sand." for name in ("big", "old", "red", "wet", "new")
    )
    assert 0 < len(chosen("Which filters do pumps need?", text, text.replace("sand", "rust"))) <= MAX_QUOTES


def test_a_weaker_sentence_of_another_source_stays_out() -> None:
    """Below three quarters of the top score it only pads."""
    assert chosen(
        "How often must filters of garden pumps be cleaned?",
        "Filters of garden pumps must be cleaned every week.",
        "Pumps are sold in many shops.",
    ) == ["Filters of garden pumps must be cleaned every week."]


def test_what_hangs_on_an_unfit_sentence_stays_out() -> None:
    """`This` after a question has nothing to lean on."""
    assert chosen("Why do pumps rust?", "Do pumps rust? This happens because pumps rust in salt water.") == []


def test_a_colon_without_its_list_stays_out() -> None:
    """An announcement of something that is not quoted announces nothing."""
    assert chosen("Which parts has a pump?", "A pump has these parts:\n\n## Next chapter\n\nOther text.") == []


def test_long_code_is_not_quoted() -> None:
    """Neither is the sentence that announces it."""
    code = "\n".join(f"step_{number}()" for number in range(40))
    assert chosen("How do I start a pump?", f"Start the pump like this:\n\n```\n{code}\n```") == []


def test_a_repeated_statement_is_told_once() -> None:
    """The second source that says nearly the same adds nothing."""
    told = chosen(
        "How long do pumps run?",
        "Garden pumps run for ten years without a pause.",
        "Most garden pumps run for ten years without a pause.",
    )
    assert told == ["Garden pumps run for ten years without a pause."]


def test_the_rare_word_of_the_question_must_be_there() -> None:
    """What is said of another subject does not answer."""
    assert (
        chosen("What does a zeppelin weigh?", "A pump weighs nine kilograms.", "A horse weighs more than a pump.") == []
    )


def test_a_source_that_lacks_the_name_is_off_the_subject() -> None:
    """Another product's instructions do not answer for this one."""
    told = extracted(
        "How do I clean the filter of Aquaflux?",
        "Aquaflux has a steel filter that you clean with a brush.",
        "Clean the filter of this pump with warm water every week.",
    )
    assert [quote.source.index for quote in told.quotes] == [1]


@given(TEXTS, st.text(alphabet="abn ?", min_size=1, max_size=40))
def test_quotes_are_words_of_their_source(texts: list[str], question: str) -> None:
    """Whatever the sources: each quote names its own source, and no sentence is chosen twice."""
    quotes = extracted(question, *texts).quotes
    for quote in quotes:
        assert quote.source.text == texts[quote.source.index - 1]
        assert set(quote.sentence.text.split()[:1]) <= set(quote.source.text.replace("#", " ").split()) | {
            quote.sentence.text.split()[0]
        }
    assert len({id(quote.sentence) for quote in quotes}) == len(quotes)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("The bridge is 120 metres long.", "The bridge is 135 metres long.", True),
        ("The bridge was opened in 1932.", "The bridge was opened in 1934.", True),
        ("The bridge is open for heavy trucks.", "The bridge is not open for heavy trucks.", True),
        ("The bridge carried 100 cars in 1950.", "The bridge carried 900 cars in 1990.", False),
        ("Bridge 2.1 supports heavy trucks now.", "Bridge 2.2 supports heavy trucks now.", False),
        ("The bridge is 120 metres long.", "The bridge is 120 metres long.", False),
        ("The bridge is 120 metres long.", "A boat passed below the bridge 3 times.", False),
        ("The bridge has 4 lanes.", "The bridge has lanes.", False),
    ],
)
def test_sources_conflict_where_the_same_statement_has_other_numbers_or_a_not(
    one: str, other: str, expected: bool
) -> None:
    """Two times, two versions and two statements are no conflict."""
    found = find_conflict(extracted("How is the bridge?", one, other).candidates)
    assert bool(found) is expected


def test_one_source_does_not_conflict_with_itself() -> None:
    """Two figures in one text are about two things."""
    text = "The bridge is 120 metres long. The bridge is 135 metres long."
    assert find_conflict(extracted("How long is the bridge?", text).candidates) is None
    assert find_conflict([]) is None


@pytest.mark.parametrize(
    ("question", "titles", "expected"),
    [
        ("What is a jaguar?", ("Jaguar (animal)", "Jaguar (car)"), ["Jaguar (animal)", "Jaguar (car)"]),
        ("What is a jaguar?", ("Jaguar, the animal", "Jaguar, a car"), ["Jaguar, the animal", "Jaguar, a car"]),
        ("What is a jaguar?", ("Jaguar (animal)", "Jaguar (animal) - Wiki"), None),
        ("What is a jaguar?", ("Jaguar (animal)", "Jaguar"), None),
        ("Where does the jaguar sleep at night in winter?", ("Jaguar (animal)", "Jaguar (car)"), None),
        ("How do I?", ("Jaguar (animal)", "Jaguar (car)"), None),
    ],
)
def test_readings_are_seen_in_titles(question: str, titles: tuple[str, ...], expected: list[str] | None) -> None:
    """A short question with two kinds of thing behind its only word has two readings."""
    told = extracted(question, "A jaguar is a big cat of the woods.", "A jaguar is a fast British car.", titles=titles)
    found = find_readings(read_question(question, "en"), told.candidates)
    assert (found and [reading.title for reading in found.readings]) == expected


def test_the_limit_of_tokens_is_kept() -> None:
    """Later passages are left out; the first one is never cut in two."""
    question = read_question("How do pumps and filters work?", "en")
    told = extract(
        question,
        sources("Pumps work by pressing water through a pipe.", "Filters work by keeping sand out of the water."),
    )
    whole = set_answer(question, told, own_words("en"), 2048)
    short = set_answer(question, told, own_words("en"), 5)
    assert whole.count("[") == 2
    assert short.count("[") == 1
    assert whole.startswith(short)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Pumps press water!", "Pumps press water [1]!"),
        ('Bob said "pumps press water."', 'Bob said "pumps press water." [1]'),
        ("Pumps press water into a ...", "Pumps press water into a ... [1]"),
        ("- Pumps press water\n- Pumps press much air", "- Pumps press water [1]\n- Pumps press much air [1]"),
        ("Pumps press this:\n\n```\nwater\n```", "Pumps press this [1]:\n\n```\nwater\n```"),
        ("Pumps press this:\n\n~~~\n```\nwater\n~~~", "Pumps press this [1]:\n\n````\n```\nwater\n````"),
    ],
)
def test_markers_stand_before_the_full_stop(text: str, shown: str) -> None:
    """The sentence keeps its end, behind the marker; code keeps a fence that holds it."""
    question = read_question("What do pumps press?", "en")
    assert set_answer(question, extract(question, sources(text)), own_words("en"), 2048) == shown
