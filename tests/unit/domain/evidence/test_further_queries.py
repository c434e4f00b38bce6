"""What a further round searches for, and which sentences answer a question together."""

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.evidence.ledger import (
    LedgerBuilder,
    LedgerRow,
    describe_missing_words,
    list_evidence_quotes,
    locate_quotes,
    pick_queries,
)
from modules.llm_platform.domain.evidence.sentence_matches import list_names

QUESTION = "Which waterfall is in the country where the Bubye River is found?"
RIVER = Source(index=1, title="Bubye River", url="https://river.example/", text="The Bubye River is found in Zimbabwe.")
OTHER = Source(
    index=2, title="Salz", url="https://salz.example/", text="The Salz is a river of Hesse, a state of Germany."
)
FALLS = Source(
    index=3,
    title="Victoria Falls",
    url="https://falls.example/",
    text="Victoria Falls is a waterfall in the country Zimbabwe.",
)


def row_of(question: str, *sources: Source) -> LedgerRow:
    return LedgerBuilder([question], "en").build_rows(sources, {})[0]


def test_a_query_follows_a_name_that_the_question_lacks_with_the_words_that_its_passage_leaves_open() -> None:
    """The bridge is asked for first, without the words that its passage has already."""
    read = row_of(QUESTION, RIVER, OTHER)
    first = pick_queries([read], (), 4)[0]
    assert first.text.startswith("Zimbabwe")
    assert "waterfall" in first.text
    assert "bubye" not in first.text.casefold()
    assert "waterfall" in describe_missing_words([read])


def test_a_query_that_was_asked_is_not_asked_again() -> None:
    """Queries are equal when their words are, whatever their case and signs."""
    read = row_of(QUESTION, RIVER)
    first = pick_queries([read], (), 1)[0]
    assert first.key not in {query.key for query in pick_queries([read], {first.key}, 10)}


def test_an_answer_takes_the_sentence_of_the_bridge_and_then_the_one_that_it_leads_to() -> None:
    """Both are verbatim, at their offsets, in this order."""
    read = row_of(QUESTION, OTHER, RIVER, FALLS)
    quotes = locate_quotes([read.row], [OTHER, RIVER, FALLS])[0].quotes[:2]
    assert [quote.text for quote in quotes] == [RIVER.text, FALLS.text]
    assert [(quote.start, quote.end) for quote in quotes] == [(0, len(RIVER.text)), (0, len(FALLS.text))]
    assert read.row.is_chain
    assert (read.row.state, read.row.coverage) == ("answered", 1.0)
    assert [quote.source.index for quote in list_evidence_quotes([read.row], [FALLS, RIVER])][:2] == [1, 3]


def test_an_answered_row_has_no_queries() -> None:
    """A single sentence with all words of the question answers it."""
    read = row_of(
        "How many litres does the Meridian pump move?",
        RIVER.model_copy(update={"text": "The Meridian pump can move 48 litres each minute."}),
    )
    assert (read.row.state, read.queries, read.row.needs) == ("answered", (), ("number",))


def test_sources_with_different_figures_cause_a_neutral_query() -> None:
    """The query contains neither figure, so that it favours none."""
    texts = ("The Meridian bridge is 480 metres long in total.", "The Meridian bridge is 512 metres long in total.")
    sources = [
        Source(index=n, title="Bridge", url=f"https://{n}.example/", text=text) for n, text in enumerate(texts, 1)
    ]
    read = row_of("How long is the Meridian bridge?", *sources)
    assert read.row.state == "disagree"
    assert {quote.url for quote in read.row.quotes[:2]} == {source.url for source in sources}
    query = pick_queries([read], (), 1)[0].text
    assert "Meridian bridge" in query
    assert not any(char.isdigit() for char in query)


def test_unrelated_figures_are_no_conflict() -> None:
    """Reports of two years have different figures. Only a question for a figure or a definition makes this a conflict."""
    texts = ("The Meridian bridge cost 480 lives in total.", "The Meridian bridge cost 512 lives in total.")
    sources = [
        Source(index=n, title="Bridge", url=f"https://{n}.example/", text=text) for n, text in enumerate(texts, 1)
    ]
    assert row_of("Meridian bridge", *sources).row.state == "answered"
    assert row_of("How many lives did the Meridian bridge cost?", *sources).row.state == "disagree"


def test_rows_are_the_same_however_the_sources_come() -> None:
    """What was read before is not read again, and counts with the ranks and weights of now."""
    builder = LedgerBuilder([QUESTION], "en")
    builder.build_rows([RIVER], {})
    builder.build_rows([FALLS, RIVER], {})
    assert builder.build_rows([OTHER, RIVER, FALLS], {}) == (row_of(QUESTION, OTHER, RIVER, FALLS),)


def test_the_place_of_a_quote_is_the_one_in_the_text_that_the_answer_has() -> None:
    """A page that was read after its excerpt moves the quote; one whose source the answer leaves out has no place."""
    row = row_of(QUESTION, RIVER, FALLS).row
    page = RIVER.model_copy(update={"text": f"About the river. {RIVER.text}"})
    first, second = locate_quotes([row], [page])[0].quotes[:2]
    assert page.text[first.start : first.end] == first.text == RIVER.text
    assert (second.text, second.start, second.end) == (FALLS.text, 0, 0)


def test_names_are_capitalised_words_and_identifiers_without_function_words() -> None:
    """A name that begins a sentence loses its article."""
    names = list_names("The University of Oslo and Ada Moor use the valve XR-200, built in the Harz.")
    assert names == ["University of Oslo and Ada Moor", "XR-200", "Harz"]


def test_a_capital_at_the_beginning_of_a_row_is_no_name_to_search_for() -> None:
    """What the question leaves open is a time of day: `Yes 1 30` and `Below 1 30` are no words to search for."""
    text = "| Entrance | Museum opens |\n|---|---|\n| Yes | 9:30 |\n\nBelow the entrance the museum of Ada Moor opens late."
    hall = Source(index=1, title="Museum entrance", url="https://museum.example/", text=text)
    queries = [
        query.text for query in pick_queries([row_of("Which museum entrance opens late at 1:30?", hall)], (), 10)
    ]
    assert [query for query in queries if query.startswith(("Yes", "Below"))] == []
    assert any(query.startswith("Ada Moor") for query in queries)
