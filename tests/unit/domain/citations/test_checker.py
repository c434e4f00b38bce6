"""Each sentence of an answer is checked against each source that it cites."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.sentences import split_sentences

BRIDGE = (
    "The old bridge was built by Anna Holm in 1904. It is 120 metres long and has three arches. "
    "Cars are not allowed on it. The toll rose in May. Contact runs on `bridge.run()` every hour."
)
RIVER = "The river rises in the hills of Marlow. Salmon return to it in autumn."
SOURCES = [
    Source(index=1, title="The bridge", url="https://a.example/", text=BRIDGE),
    Source(index=4, title="The river", url="https://b.example/", text=RIVER),
    Source(index=7, title="Empty", url="https://c.example/", text=" "),
]
HOSTILE_SECONDS = 30.0  # quadratic time for 100,000 characters takes minutes


def check(answer: str, language: str = "en", sources: Sequence[Source] = SOURCES) -> CheckedAnswer:
    return CitationChecker(sources, language).check(answer)


def judged(sentence: str, text: str) -> Citation:
    """Return the citation of a sentence that cites one source with this text."""
    source = Source(index=1, title="", url="https://a.test/", text=text)
    return check(f"{sentence} [1]", sources=[source]).citations[0]


def verdict(sentence: str, text: str = BRIDGE, language: str = "en") -> str:
    sources = [Source(index=1, title="", url="https://a.example/", text=text)]
    return check(f"{sentence} [1]", language, sources).citations[0].verdict


@for_each(
    ("answer", "expected"),
    [
        ("The bridge is 120 metres long [1].", [("The bridge is 120 metres long", 1)]),
        ("The bridge is 120 metres long. [1]", [("The bridge is 120 metres long.", 1)]),
        ("The bridge is long.[1] Salmon return [4].", [("The bridge is long.", 1), ("Salmon return", 4)]),
        ("Long [1][4].", [("Long", 1), ("Long", 4)]),
        ("It is long [1], and salmon return [4].", [("It is long [1], and salmon return", n) for n in (1, 4)]),
        ("Anna Holm [1] built it. Salmon [4] return.", [("Anna Holm [1] built it.", 1), ("Salmon [4] return.", 4)]),
        ("[1] says so. [4] says that.", [("[1] says so.", 1), ("[4] says that.", 4)]),
        (
            "- three arches [1]\n- salmon return\n  in autumn [4]",
            [("three arches", 1), ("salmon return\n  in autumn", 4)],
        ),
        (
            "| a | b |\n|---|---|\n| arches. Three [1] | salmon [4] |",
            [("arches. Three [1] | salmon", n) for n in (1, 4)],
        ),
        ("三个拱[1]。河流。[4]", [("三个拱", 1), ("河流。", 4)]),
        ("Call `a. b[4]` now [1].", [("Call `a. b[4]` now", 1)]),
        (
            "**Long** [1] \u2014 see [here](https://a.example/x.y)",
            [("**Long** [1] \u2014 see [here](https://a.example/x.y)", 1)],
        ),
        ("# Title [1]\n\n```\ncode [1]\n```\n\nTitle [4]\n===\n", []),
        ("No source has the number [9].", []),
    ],
)
def test_which_sentence_cites_which_source(answer: str, expected: list[tuple[str, int]]) -> None:
    """A marker counts inside a sentence, at its end or after its full stop.

    List items and table rows count, headings and code do not.
    """
    citations = check(answer).citations
    assert [(answer[citation.start : citation.end], citation.source_index) for citation in citations] == expected


@for_each(
    ("answer", "expected"),
    [
        ("The bridge has three arches.\n\n[1]", [("The bridge has three arches.", 1)]),
        ("The bridge has three arches.\n\n[1]\n\nNobody knows the rest.", [("The bridge has three arches.", 1)]),
        ("The bridge has three arches.\n\nSources: [1]", [("The bridge has three arches.", 1)]),
        ("The bridge has three arches. (doc:bridge.md) [1]", [("The bridge has three arches.", 1)]),
        ("The bridge has three arches.\n\n(https://a.example/a_b?c=d) [1]", [("The bridge has three arches.", 1)]),
        ("The bridge has three arches. (Source: [1])", [("The bridge has three arches.", 1)]),
        (
            "It is 120 metres long.\n\nSalmon return in autumn.\n\n**Sources:** [1], [4].",
            [
                ("It is 120 metres long.", 1),
                ("Salmon return in autumn.", 4),
            ],
        ),
        (
            "- It has three arches\n- It is 120 metres long\n\n[1]",
            [
                ("It has three arches", 1),
                ("It is 120 metres long", 1),
            ],
        ),
        (
            "It is 120 metres long. Zebras graze at night. It has three arches [1].",
            [
                ("It is 120 metres long.", 1),
                ("It has three arches", 1),
            ],
        ),
        ("Zebras graze at night. Lions sleep by day.\n\n[1]", [("Lions sleep by day.", 1)]),
        ("# Title\n\n[1]", []),
    ],
)
def test_a_marker_on_its_own_line_or_after_an_address_cites_the_text_before_it(
    answer: str, expected: list[tuple[str, int]]
) -> None:
    """A marker on its own line cites everything before it, a list or a paragraph, that its source supports, or else the
    last sentence. The line `Sources:` is not a sentence.
    """
    checked = check(answer)
    assert [
        (answer[citation.start : citation.end], citation.source_index) for citation in checked.citations
    ] == expected
    assert {citation.cited_by for citation in checked.citations} <= {"model"}
    assert checked.cited == {index for _, index in expected} or not expected


def test_quotes_point_into_the_source() -> None:
    """The quote equals the source text at its offsets, and supports the sentence."""
    (citation,) = check("It has three arches and a length of 120 m [1].").citations
    assert BRIDGE[citation.quote_start : citation.quote_end] == citation.quote
    assert citation.quote == "It is 120 metres long and has three arches."
    assert citation.verdict == "supported"
    assert 0 < citation.score <= 1


def test_cited_are_the_sources_of_the_text() -> None:
    """The numbers of those sources that some sentence cites."""
    assert check("Long [1]. Salmon [4][9].").cited == {1, 4}


def test_only_an_empty_source_is_unchecked() -> None:
    """Where no text is held nothing can be said; everywhere else there is a verdict."""
    verdicts = {
        citation.source_index: citation.verdict for citation in check("Zebras graze at night [1][7].").citations
    }
    assert verdicts == {1: "unsupported", 7: "unchecked"}


@for_each(
    ("answer", "uncited"),
    [
        ("The bridge has three arches. Salmon return in autumn [4].", 1),
        ("Is it long enough for you?\n\nTwo things are known:\n\n# A heading of five words", 0),
        ("Yes indeed. Salmon return in autumn [4].", 0),
        ("YES", 1),
        ("No. Never.", 2),
        (get_messages("en").model_failed, 0),
        (get_messages("de").not_answered, 0),
    ],
)
def test_statements_without_a_source_are_counted(answer: str, uncited: int) -> None:
    """Questions, headings, lead-ins, short remarks and the platform's own sentences are not counted."""
    assert check(answer, "de" if "Quellen" in answer else "en").uncited_sentences == uncited


UNCITED = """## Owls and other hunters of the night 🦉

What is known about them today?

- **How they hear and see at night**
  - Salmon return in autumn [4].
  - **They** hear a `mouse` under deep snow.

| Bird | Weight | Prey in summer |
|---|---|---|
| Barn owl | 500 g | mice of the fields |
"""


def test_places_of_uncited_statements_are_code_points_of_the_answer() -> None:
    """Each position covers the whole sentence or row. Headings, questions and names of lists have none."""
    positions = check(UNCITED).uncited
    assert [UNCITED[start:end] for start, end in positions] == [
        "**They** hear a `mouse` under deep snow.",
        "Barn owl | 500 g | mice of the fields |",
    ]


@for_each(
    ("answer", "uncited"),
    [
        ("**How they hear and see at night**\n\n1. Salmon return in autumn [4].", 0),
        ("__How they hear and see at night__\n\n1. Salmon return in autumn [4].", 0),
        ("**They hear and see at night.**\n\n1. Salmon return in autumn [4].", 1),
        ("**They hear** and see at **night**\n\n1. Salmon return in autumn [4].", 1),
        ("**They hear and see at night**\n\nSalmon return in autumn [4].", 1),
        ("**They hear and see at night**", 1),
    ],
)
def test_only_bold_words_before_a_list_are_its_name(answer: str, uncited: int) -> None:
    assert check(answer).uncited_sentences == uncited


@for_each(
    ("sentence", "expected"),
    [
        ("Anna Holm built the old bridge in 1904.", "supported"),
        ("The old bridge dates from 1904 and was built by Anna Holm.", "supported"),
        ("The bridge has 3 arches and is 120 m long.", "supported"),
        ("The old bridge was built by Anna Holm in 1940.", "unsupported"),
        ("It is 210 metres long.", "unsupported"),
        ("The bridge has four arches.", "unsupported"),
        ("The old bridge was built by Peter Lund in 1904.", "unsupported"),
        ("Contact runs on `bridge.stop()` every hour.", "unsupported"),
        ("Cars are allowed on the bridge.", "unsupported"),
        ("The toll fell in May.", "unsupported"),
        ("The toll rose in March.", "unsupported"),
        ("It has three arches, and each of them was paid for by a rich merchant family.", "partial"),
        ("Zebras graze at night.", "unsupported"),
    ],
)
def test_one_changed_fact_makes_a_sentence_unsupported(sentence: str, expected: str) -> None:
    """Other words for the same are fine; another number, name, identifier, date or "not" is not; additions are partial."""
    assert verdict(sentence) == expected


@for_each(
    ("sentence", "text"),
    [
        ("A & B use <b> tags.", "A &amp; B use <b> tags. More."),
        ("It is what it is.", "So they say. It is what it is. And more."),
        ("`run()` opens **one** loop.", "run() opens one loop."),
        ("这座桥长一百米。", "桥很旧。这座桥长一百米。"),
        ("Die Brücke ist nicht lang.", "Die Brücke ist nicht lang. Sie ist alt."),
    ],
)
def test_copied_sentences_are_supported(sentence: str, text: str) -> None:
    """What the source says word for word is borne out, markup aside."""
    assert verdict(sentence, text) == "supported"


@for_each(
    ("sentence", "text", "expected"),
    [
        ("`run()` opens **one** loop.", "run() opens one loop.", True),
        ("The bridge is old.", "The old bridge is long.", False),
        ("| name | length |\n|---|---|\n| Old bridge | 120 metres", "Old bridge | 120 metres", True),
        ("| name | length |\n|---|---|\n| Old bridge | 130 metres", "Old bridge | 120 metres", False),
    ],
)
def test_a_copy_is_called_verbatim(sentence: str, text: str, expected: bool) -> None:
    """The field says it, so that no reader compares a score or the words again. A row is a copy if each of its cells is."""
    assert judged(sentence, text).is_verbatim == expected


def test_a_stored_citation_without_the_field_has_its_score() -> None:
    """Runs were stored before the field existed; copies alone had the score 1, but for those that were rounded."""
    stored = judged("The bridge is old.", "The bridge is old.").model_dump(exclude={"is_verbatim"})
    assert [Citation(**{**stored, "score": score}).is_verbatim for score in (1.0, 0.99)] == [True, False]


PIECES = (
    "bridge river not never 12 1,5 Anna Holm the of long rises falls without `run()` in May is was and but Salmon 3.5 %"
    " Brücke nicht мост не 桥很长 三个 asyncio.run WAL-mode can't"
)
WORDS = st.sampled_from(PIECES.split())
SENTENCE = st.lists(WORDS, min_size=1, max_size=12).map(lambda words: f"The {' '.join(words)} end.")


@given(st.lists(SENTENCE, min_size=1, max_size=6), st.sampled_from(["en", "de", "ru", "zh"]))
def test_no_sentence_of_a_source_is_flagged(sentences: list[str], language: str) -> None:
    """Whatever a source says, each of its sentences is supported by it."""
    text = " ".join(sentences)
    for start, end in split_sentences(text, language):
        assert verdict(text[start:end], text, language) == "supported"


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_gives_sound_citations(answer: str, text: str) -> None:
    """Offsets lie in the texts, quotes are slices, scores between 0 and 1, whatever the answer and the source hold."""
    shown = f"{answer}[1]"
    checked = check(shown, sources=[Source(index=1, title="", url="https://a.example/", text=text)])
    for citation in checked.citations:
        assert 0 <= citation.start <= citation.end <= len(shown)
        assert text[citation.quote_start : citation.quote_end] == citation.quote
        assert 0 <= citation.score <= 1


def test_checking_twice_gives_the_same() -> None:
    """Sources are prepared once and not changed by a check."""
    checker = CitationChecker(SOURCES, "en")
    answer = "Anna Holm built the bridge [1]. Salmon return to the river [4]."
    assert checker.check(answer) == checker.check(answer)


@for_each("part", ["[1]", "a [1]. ", "`", "| a [1] |\n", "- a [1]\n", "not ", "1 ", "不", "*", "[a](b ", "X, "])
def test_hostile_answers_take_linear_time(part: str) -> None:
    """100,000 characters of anything are checked at once."""
    begun = time.process_time()
    check(part * (100_000 // len(part)) + "[1]")
    assert time.process_time() - begun < HOSTILE_SECONDS


@for_each("part", ["not ", "1 ", "不", "a", "asyncio ", "x\n", "A ", "a_", "- \n", "1,"])
def test_hostile_sources_take_linear_time(part: str) -> None:
    """A source of 200,000 characters of anything does not hold a check up."""
    text = part * (200_000 // len(part))
    begun = time.process_time()
    check(
        "Asyncio is not 17 years old 不得使用 A WHO [1]. " * 20, sources=[Source(index=1, title="", url="u", text=text)]
    )
    assert time.process_time() - begun < HOSTILE_SECONDS


@for_each(
    ("sentence", "on_page", "on_excerpt"),
    [
        ("The harbour was widened by a firm from Oslo after the war.", "unsupported", "unchecked"),
        ("The old bridge was built by Anna Holm in 1934.", "unsupported", "unsupported"),
        ("The old bridge was built by Anna Holm in 1904.", "supported", "supported"),
    ],
)
def test_an_excerpt_that_does_not_say_a_sentence_leaves_it_unchecked(
    sentence: str, on_page: str, on_excerpt: str
) -> None:
    """The page may contain the statement. A different fact in the excerpt still refutes it."""
    page = Source(index=1, title="", url="https://a.example/", text=BRIDGE)
    for source, expected in ((page, on_page), (page.model_copy(update={"text_kind": "snippet"}), on_excerpt)):
        [citation] = check(f"{sentence} [1]", sources=[source]).citations
        assert (citation.verdict, citation.checked_against) == (expected, source.text_kind)


SLIDES = "# Plans\nThe new office opens on 4 May.\n## Ferry Mira\nIt was built in 1928 and repaired in 1970.\n# Third slide\n"


@for_each(
    "sentence, quote",
    [
        ("The new office opens on 4 May.", "The new office opens on 4 May."),
        ("The new office opens on 6 May.", "The new office opens on 4 May."),
        ("The ferry Mira was built in 1928.", "## Ferry Mira\nIt was built in 1928 and repaired in 1970."),
    ],
)
def test_a_heading_is_quoted_only_if_the_claim_has_a_word_of_it(sentence: str, quote: str) -> None:
    """The text below the heading is always compared together with it, and the quote is found at its offsets."""
    citation = judged(sentence, SLIDES)
    assert citation.quote == quote
    assert SLIDES[citation.quote_start : citation.quote_end] == quote


FAQ = """# Pool

**Can guests use the sauna?**
No.

### Can I pay by card?

Yes, in the kiosk.

### Can I park here?

No, but the garage opposite is free.

### May children swim alone?

That depends on their age.
"""


@for_each(
    ("sentence", "expected"),
    [
        ("Guests can use the sauna.", "unsupported"),
        ("Guests cannot use the sauna.", "supported"),
        ("You can pay by card in the kiosk.", "supported"),
        ("The garage opposite is free.", "supported"),
    ],
)
def test_a_question_and_its_reply_are_one_statement(sentence: str, expected: str) -> None:
    assert verdict(sentence, FAQ) == expected


def test_a_no_denies_what_was_asked() -> None:
    citation = judged("Guests can use the sauna.", FAQ)
    assert (citation.finding, citation.quote) == ("contradicts", "**Can guests use the sauna?**\nNo.")


@for_each(
    ("sentence", "text", "expected"),
    [
        ("Dogs are allowed.", "**Are dogs allowed?**\n\nNo.", "contradicts"),
        ("Dogs are allowed.", "Q: Are dogs allowed?\nA: No.", "contradicts"),
        ("I can bring my dog.", "Can't I bring my dog? No.", None),
        ("Parking is free.", "Isn't parking free? No.", None),
        ("Hunde sind erlaubt.", "Sind Hunde erlaubt? Nein.", None),
        ("Parken ist erlaubt.", "Ist Parken erlaubt? Nein, alles kostet 5 Euro.", None),
    ],
)
def test_only_a_clear_denial_contradicts(sentence: str, text: str, expected: str | None) -> None:
    """And an unclear one supports nothing."""
    language = "de" if "? Nein" in text else "en"
    source = Source(index=1, title="", url="https://a.test/", text=text)
    found = check(f"{sentence} [1]", language, [source]).citations[0]
    assert found.verdict != "supported"
    if expected:
        assert found.finding == expected


def test_a_question_of_the_source_may_be_repeated() -> None:
    assert verdict("Are dogs allowed?", "# Pool\n\nAre dogs allowed? No.") == "supported"


def test_a_reported_question_says_something() -> None:
    text = 'She asked, "Why did the bridge fail?" Nobody knew.'
    assert verdict("She asked why the bridge failed.", text) == "supported"


def test_a_question_without_a_yes_or_no_supports_nothing() -> None:
    """It says what is asked, not what is so."""
    assert verdict("Children may swim alone.", FAQ) != "supported"
    assert verdict("Do cats hunt at night?", "Do cats hunt at night? Many owners ask.") == "supported"
