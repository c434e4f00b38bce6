"""The score of a citation is a probability. It also covers claims in other languages or units."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.alignment import prepare_source
from modules.llm_platform.domain.citations.compare.score import Features, compute_probability, load_score_weights
from modules.llm_platform.domain.citations.compare.verdicts import judge, score_support
from modules.llm_platform.domain.citations.read.claims import Claim
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source

BRIDGE = (
    "The old bridge was built by Anna Holm in 1904. It is 120 metres long and has three arches. IBM paid for it, "
    "and the town of Skagen sold 40 percent of its land."
)


def cite(answer: str, text: str = BRIDGE, language: str = "en") -> list[Citation]:
    source = Source(index=1, title="", url="https://example.org/", text=text)
    return list(CitationChecker([source], language).check(answer).citations)


SHARES = st.floats(0, 1)
COUNTS = st.floats(0, 5)


@given(st.builds(Features, SHARES, SHARES, COUNTS, COUNTS, COUNTS, st.sampled_from([0.0, 1.0])))
def test_any_features_give_a_probability(features: Features) -> None:
    """Between 0 and 1, and a word in the place of another one, or a name that the source lacks, never raises it."""
    score = compute_probability(features)
    assert 0 <= score <= 1
    assert compute_probability(features._replace(replaced=1.0)) <= score
    assert compute_probability(features._replace(missing_names=features.missing_names + 1)) <= score
    assert compute_probability(features._replace(missing_numbers=features.missing_numbers + 1)) <= score
    assert compute_probability(features._replace(grams=1.0, weakest_clause=1.0)) >= score


def test_the_verdict_follows_from_the_score() -> None:
    """Supported from `supported` on, partial from `partial` on; a changed fact has the score of changed facts at most."""
    fitted = load_score_weights()
    assert 0 < fitted.refuted < fitted.partial < fitted.supported < 1
    for sentence in ("The bridge has arches", "Anna built a town", "It was sold", "The old bridge was built in 1940"):
        (citation,) = cite(f"{sentence} [1].")
        if citation.verdict == "supported":
            assert citation.score >= fitted.supported
        else:
            assert citation.score <= fitted.supported


@for_each(
    ("sentence", "text", "expected"),
    [
        ("The way is 5 km long.", "The way is 5 kilometres long.", "supported"),
        ("The way is 5 kilometres long.", "The way is 5 km long.", "supported"),
        ("40 % of the land was sold.", "40 percent of the land was sold.", "supported"),
        ("It took 20 min to cross.", "It took 20 minutes to cross.", "supported"),
        ("The pass costs €5 a day.", "The pass costs 5 euros a day.", "supported"),
        ("The way is 5 miles long.", "The way is 5 kilometres long.", "unsupported"),
        ("It took 20 hours to cross.", "It took 20 minutes to cross.", "unsupported"),
        ("The pass costs €5 a day.", "The pass costs $5 a day.", "unsupported"),
        ("The way is 5 km long.", "The way is 5 km (3 miles) long.", "supported"),
    ],
)
def test_a_unit_may_be_abbreviated_but_not_changed(sentence: str, text: str, expected: str) -> None:
    """The same number with another writing of its unit is the same, with another unit it is changed."""
    assert cite(f"{sentence} [1]", text)[0].verdict == expected


@for_each(
    ("sentence", "language", "expected"),
    [
        ("Старый мост был построен Анной Холм в 1904 году и имеет три арки.", "ru", "unchecked"),
        ("Деньги на это дала компания IBM.", "ru", "unchecked"),
        ("这座桥建于1904年，有三个拱。", "zh", "unchecked"),
        ("بنت المهندسة الجسر القديم في عام 1904 وهو طويل.", "ar", "unchecked"),
        ("Die alte Brücke wurde gebaut und ist nicht für die Autos.", "de", "unchecked"),
        ("Старый мост был построен Анной Холм в 1940 году.", "ru", "unsupported"),
        ("Деньги на это дала компания SAP.", "ru", "unsupported"),
        ("这座桥建于1940年，有三个拱。", "zh", "unsupported"),
        ("Zebras graze at night.", "en", "unsupported"),
    ],
)
def test_words_of_another_language_are_not_compared(sentence: str, language: str, expected: str) -> None:
    """In another language than the source's, only figures and names can refute a sentence.

    Other sentences are unchecked.
    """
    assert cite(f"{sentence} [1]", language=language)[0].verdict == expected


@for_each(
    ("sentence", "finding"),
    [
        ("Der Eintritt in das Museum kostet 12 Euro, und Kinder zahlen nichts.", "absent"),
        ("Die Old Bridge von Anna Holm in Skagen ist aus dem Jahr 1940.", "contradicts"),
    ],
)
def test_a_figure_contradicts_across_languages_only_beside_the_same_words(sentence: str, finding: str) -> None:
    """A text in another language about something else has other figures, too."""
    assert cite(f"{sentence} [1]", language="de")[0].finding == finding


def test_may_and_march_are_months_where_they_are_names() -> None:
    """ "It may rain" names no other month than "in June"."""
    text = "Rain is likely in June on the coast and in the hills."
    assert cite("Rain may fall in the hills and on the coast [1].", text)[0].verdict == "supported"
    assert cite("Rain is likely in May on the coast and in the hills [1].", text)[0].verdict == "unsupported"


ROWS = "| bridge | built by | length |\n|---|---|---|\n"


@for_each(
    ("row", "expected"),
    [
        ("| Old bridge | Anna Holm | 120 metres [1] |", "supported"),
        ("| Old bridge | Peter Lund | 120 metres [1] |", "unsupported"),
        ("| Old bridge | Anna Holm | 210 metres [1] |", "unsupported"),
    ],
)
def test_a_table_row_is_checked_cell_by_cell(row: str, expected: str) -> None:
    """Each cell together with the heads of its row and its column; the row is as good as its worst cell."""
    assert cite(ROWS + row)[0].verdict == expected


def cells_of(answer: str, text: str = BRIDGE) -> list[list[tuple[str, str]]]:
    """Return the cells of each citation, as written in the answer, with their verdicts."""
    return [[(answer[cell.start : cell.end], cell.verdict) for cell in one.cells] for one in cite(answer, text)]


def test_each_cell_of_a_row_has_its_verdict() -> None:
    """Offsets cover the cell without its markers. A row that the source states in a sentence has no cells."""
    wrong, right = "| Old bridge | **Anna Holm** | 210 metres [1] |", "| Old bridge | Anna Holm | 120 metres [1] |"
    answer = f"🌉 Bridges:\n\n{ROWS}{wrong}\n{right}\n"
    assert cells_of(answer) == [
        [("**Anna Holm**", "supported"), ("210 metres", "unsupported")],
        [("Anna Holm", "supported"), ("120 metres", "supported")],
    ]
    assert cells_of(answer, f"{BRIDGE} Old bridge Anna Holm 120 metres.")[1] == []


def test_a_column_of_names_may_have_no_head() -> None:
    """An empty first head moves no cell below the head of another column."""
    answer = "|  | built by | length |\n|---|---|---|\n| Old bridge | Anna Holm | 210 metres [1] |\n"
    assert cells_of(answer) == [[("Anna Holm", "supported"), ("210 metres", "unsupported")]]
    no_name = "| bridge | built by | length |\n|---|---|---|\n|  | Anna Holm | 210 metres [1] |\n"
    assert cells_of(no_name) == [[("Anna Holm", "supported"), ("210 metres", "unsupported")]]


def test_a_bar_in_a_cell_ends_none() -> None:
    answer = ROWS + "| Old bridge | Anna \\| Holm | 210 metres [1] |\n"
    assert [text for text, _ in cells_of(answer)[0]] == ["Anna \\| Holm", "210 metres"]


def test_markers_in_several_cells_cite_their_own_cell() -> None:
    """A source that has one cell of a row is not to blame for the others."""
    rows = ROWS + "| Old bridge | Anna Holm [1] | 300 metres [2] |\n"
    texts = (BRIDGE, "It is 300 metres long.")
    sources = [Source(index=number, title="", url="u", text=text) for number, text in enumerate(texts, 1)]
    citations = CitationChecker(sources, "en").check(rows).citations
    assert [
        (citation.source_index, [rows[cell.start : cell.end] for cell in citation.cells]) for citation in citations
    ] == [
        (1, ["Anna Holm"]),
        (2, ["300 metres"]),
    ]
    assert citations[0].verdict == "supported"
    head = ROWS + "| Old bridge [1] | Peter Lund | 210 metres |\n"
    assert [verdict for _, verdict in cells_of(head)[0]] == ["unsupported", "unsupported"]


def test_a_cell_that_the_source_has_word_for_word_is_not_unsupported() -> None:
    """The heads may be in other words, which the cell is not to blame for."""
    rows = "| who | what they did for the project |\n|---|---|\n| Zed | the town of Skagen sold 40 percent of its land [1] |"
    assert cite(rows)[0].verdict in ("supported", "partial")


def test_a_token_of_a_model_is_no_copy() -> None:
    """A single letter occurs in every text, so it supports a sentence only if it is a sentence of the source."""
    assert cite("</s> [1]", "It's a long way to the sea.")[0].verdict != "supported"


@for_each(
    "sentence",
    [
        "The old bridge was built by Anna Holm in 1904.",
        "Anna Holm built the bridge in 1904.",
        "The bridge is 120 metres long.",
        "The bridge is 130 metres long.",
        "The bridge is not 120 metres long.",
        "Ole Hansen built the bridge in 1904.",
        "The town sold 40 percent of its land.",
        "Two thirds of the land were sold by IBM.",
        "Zebras graze at night.",
        "Мост имеет три арки.",
        "",
    ],
)
def test_support_is_the_score_of_what_is_called_supported(sentence: str) -> None:
    """A source of a sentence without a marker is found by the verdict that the sentence gets with one."""
    for text in (BRIDGE, "", "The bridge has three arches, and 1,904 people built it."):
        claim, source = (
            Claim(sentence, frozenset({"the", "was", "by"}), capitals_name=True),
            prepare_source(text, "", "en"),
        )
        judgement = judge(claim, source, "en")
        support = judgement.score if judgement.verdict == "supported" else 0.0
        assert score_support(claim, source, "en", 0.0) == support
        assert score_support(claim, source, "en", 0.9) == (support if support >= 0.9 else 0.0)
