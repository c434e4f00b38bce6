"""Laws of `difference`: a citation that doubts says which part of the sentence its source has otherwise."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.model_verdicts import apply_model_verdict
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source

PAGE = (
    "The bridge was opened in May 1937 after four years of work. Its main span is 1280 metres long. "
    "Joseph Strauss was the chief engineer of the bridge. The bridge is painted in International Orange. "
    "Pedestrians may not cross the bridge at night. The toll rose to 9 dollars in 2023. "
    "The crown costs £410 and each filling £65."
)


def checked(answer: str, text: str = PAGE) -> Citation:
    checker = CitationChecker([Source(index=1, title="Bridge", url="https://a.example/", text=text)], "en")
    return checker.check(answer).citations[0]


@for_each(
    "sentence, kind, claimed, found",
    [
        ("Its main span is 1380 metres long [1].", "number", "1380", "1280"),
        ("The *main span* is **1380** metres [long](https://x.example) &amp; straight [1].", "number", "1380", "1280"),
        ("The bridge was opened in May 1947 after four years of work [1].", "date", "1947", "1937"),
        ("The bridge was opened in June 1937 after four years of work [1].", "date", "June", "May"),
        ("The bridge was opened after five years of work [1].", "number", "five", "four"),
        ("Leon Strauss was the chief engineer of the bridge [1].", "name", "Leon", "Joseph"),
        ("Pedestrians may cross the bridge at night [1].", "negation", None, "not"),
        ("The toll rose to 9 euros in 2023 [1].", "number", "9 euros", "9 dollars"),
        ("The crown costs 410 euros [1].", "number", "410 euros", "£410"),
    ],
)
def test_the_part_that_differs_is_named(sentence: str, kind: str, claimed: str | None, found: str) -> None:
    """The two spans show what the sentence claims and what its source says instead."""
    answer = f"🙂 Before it. {sentence}"
    citation = checked(answer)
    difference = citation.difference
    assert citation.verdict == "unsupported"
    assert difference is not None
    assert difference.kind == kind
    assert claimed is None or answer[difference.claimed.start : difference.claimed.end] == claimed
    assert PAGE[difference.found.start : difference.found.end] == found


@for_each("sentence", ["Its main span is 1280 metres long [1].", "Cats sleep for most of the day [1]."])
def test_where_nothing_differs_nothing_is_named(sentence: str) -> None:
    """A supported sentence, and one that the source says nothing about, have no difference."""
    assert checked(sentence).difference is None


def test_a_model_that_supports_the_sentence_removes_the_difference() -> None:
    """What a model found to be the same in other words is not shown as a difference."""
    citation = checked("Pedestrians may cross the bridge at night [1].")
    assert apply_model_verdict(citation, "Pedestrians may cross", "supported").difference is None
    assert apply_model_verdict(citation, "Pedestrians may cross", "unsupported").difference == citation.difference


@for_each(
    ("sentence", "text"),
    [
        ("The Nordwind X2 weighs 40 tonnes [1].", "The Nordwind\n\nEmployees may work from home on two days."),
        ("Call `run_all` to start the pump [1].", "Call `run` to start the pump. It has no other options for that."),
    ],
)
def test_no_receipt_is_better_than_one_of_unrelated_words(sentence: str, text: str) -> None:
    """A name is compared with a name, and not with a whole sentence."""
    citation = checked(sentence, text)
    assert citation.verdict != "supported"
    assert (
        citation.difference is None
        or len(text[citation.difference.found.start : citation.difference.found.end].split()) <= 4
    )


@for_each(("text", "found"), [("The crown costs £5 and each filling £65.", None), ("The crown costs £65.", "65")])
def test_only_an_amount_stands_for_an_amount(text: str, found: str | None) -> None:
    """The words after the number of the source are no counterpart of a currency."""
    difference = checked("The crown costs four pounds [1].", text).difference
    assert (difference and text[difference.found.start : difference.found.end]) == found


def test_a_day_that_both_name_is_no_counterpart_of_another() -> None:
    """The sentence contradicts its source as a whole."""
    answer = "From May the practice will open on Saturdays instead of Wednesday evenings [1]."
    text = "From May our Saturday surgery will end. Instead, the practice will open until 8 pm on Wednesdays."
    citation = checked(answer, text)
    difference = citation.difference
    assert citation.finding == "contradicts"
    assert difference is not None
    assert (difference.claimed.start, difference.claimed.end) == (citation.start, citation.end)
    assert text[difference.found.start : difference.found.end] == citation.quote


def test_a_name_that_the_source_lacks_is_absent() -> None:
    """The source has no other name at this place, so it does not contradict the sentence."""
    citation = checked(
        'The document "rules.md" states the rules of travel [1].', "# Travel\n\nThe allowance is 28 euros."
    )
    assert (citation.verdict, citation.finding, citation.difference) == ("unsupported", "absent", None)


REVENUE = (
    "Halvorsen Marine reported revenue of 412 million kroner for the third quarter, up from 388 million a year earlier."
)


@for_each(
    "sentence, differs",
    [
        ("Sales rose by 24 million kroner compared with the same quarter of the previous year [1].", False),
        ("Halvorsen Marine reported revenue of 24 million kroner for the third quarter [1].", True),
        ("Revenue rose by 27 million kroner compared with the third quarter of the year before [1].", True),
        ("In the third quarter revenue rose by 25 million kroner [1].", True),
    ],
)
def test_a_number_that_two_others_differ_by_is_no_contradiction(sentence: str, differs: bool) -> None:
    """Where the sentence compares; a source need not have the difference in figures."""
    citation = checked(sentence, REVENUE)
    assert citation.verdict != "supported"
    assert (citation.difference is not None) is differs


def test_a_form_of_address_is_no_name() -> None:
    """The source names the whole person."""
    text = "Chief executive Tor Lie said he expects margins to recover in the spring; the finance chief gave no date."
    assert checked("Mr Lie thinks that profitability will improve in spring [1].", text).difference is None


@for_each(
    "answer, text, found",
    [
        (
            "`wait_time` limits an upload in bytes [1].",
            "Groß: `max_size` limits an upload in bytes. `wait_time` is a pause.",
            "max_size",
        ),
        (
            "`--drop` keeps all files [1].",
            "Weiß, groß: `--keep-all` keeps all files. `--drop` drops one file.",
            "keep-all",
        ),
    ],
)
def test_letters_that_fold_to_two_do_not_shift_the_difference(answer: str, text: str, found: str) -> None:
    """`ß` compares as `ss`."""
    difference = checked(answer, text).difference
    assert difference is not None
    assert text[difference.found.start : difference.found.end].lstrip("-") == found
