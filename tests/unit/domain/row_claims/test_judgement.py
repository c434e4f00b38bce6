"""Claims about the rows of a table are decided by the cells, and left open if it is not certain what they compare."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.read.sentences import read_answer
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source

MEMBERS = """# Rowing members

| Name | Age | Joined | Category | Annual fee | Outings | Paid |
|---|---|---|---|---|---|---|
| Margaret Olsen | 67 | 12 May 2003 | Veteran | £95.00 | 41 | yes |
| Tom Adeyemi | 16 | 3 September 2024 | Junior | £60.00 | 58 | no |
| Priya Raman | 34 | 21 January 2018 | Senior | £145.00 | 37 | yes |
| Judith Kessler | 71 | 30 March 1998 | Veteran | £95.00 | 19 | no |
| Owen Pritchard | 17 | 14 September 2023 | Junior | £60.00 | 44 | yes |
| Sofia Lindqvist | 45 | 9 June 2015 | Senior | £145.00 | | yes |
"""
FLATS = """| Adresse | Zimmer | Wohnfläche | Kaltmiete | Frei ab |
|---|---|---|---|---|
| Lindenstraße 12 | 3 | 78 m² | 1.250,00 € | 01.07.2024 |
| Goetheplatz 7 | 4 | 112 m² | 1.890,00 € | 15.08.2024 |
| Rosengasse 3 | 2 | 54,5 m² | 790,00 € | 01.06.2024 |
"""
ROTA = """| Name | Role | Monday | Tuesday | Wednesday | Hours |
|---|---|---|---|---|---|
| Amara Obi | Chef | 10-18 | off | 12-22 | 46 |
| Ravi Menon | Waiter | off | 11-17 | 11-17 | 30 |
| Omar Said | Bar | 17-23 | off | off | 26 |
| Nell Abbott | Bar | | 11-17 | off | |
"""


def check(claim: str, text: str = MEMBERS, language: str = "en", *, is_whole: bool = True) -> Citation:
    kind = "page" if is_whole else "document"
    source = Source(index=1, title="members", url="https://a.example/", text=text, text_kind=kind)  # type: ignore[arg-type]
    return CitationChecker([source], language).check(f"{claim.removesuffix('.')} [1].").citations[0]


@for_each(
    "claim",
    [
        "Tom Adeyemi is under 18.",
        "Sofia Lindqvist joined before 2018.",
        "Priya Raman pays more than £100 a year.",
        "Judith Kessler is older than Margaret Olsen.",
        "Owen Pritchard pays £85 less than Priya Raman.",
        "Tom Adeyemi has more outings than Owen Pritchard.",
        "Priya Raman joined after Sofia Lindqvist.",
        "Tom Adeyemi and Owen Pritchard pay the same annual fee.",
        "Judith Kessler is the oldest member.",
        "The highest annual fee is £145.00.",
        "Two members are under 18.",
        "The members under 18 are Tom Adeyemi and Owen Pritchard.",
        "Tom Adeyemi joined on 3 September 2024.",
    ],
)
def test_true_claims_about_rows_are_supported(claim: str) -> None:
    found = check(claim)
    assert found.verdict == "supported"
    assert not found.is_verbatim


@for_each(
    ("claim", "difference"),
    [
        ("Priya Raman is under 18.", ("18", "34")),
        ("Margaret Olsen joined after 2010.", ("2010", "12 May 2003")),
        ("Margaret Olsen is older than Judith Kessler.", ("older", "71")),
        ("Owen Pritchard pays £50 less than Priya Raman.", ("£50", "£145.00")),
        ("Margaret Olsen is the oldest member.", ("Margaret Olsen", "Judith Kessler")),
        ("The lowest annual fee is £95.00.", ("£95.00", "£60.00")),
        ("Tom Adeyemi joined on 4 September 2024.", ("4 September 2024", "3 September 2024")),
    ],
)
def test_false_claims_about_rows_show_the_cell(claim: str, difference: tuple[str, str]) -> None:
    found = check(claim)
    assert found.finding == "contradicts"
    assert found.difference is not None
    mine, theirs = found.difference.claimed, found.difference.found
    assert (claim[mine.start : mine.end], MEMBERS[theirs.start : theirs.end]) == difference


@for_each(
    "claim",
    [
        "Three members are under 18.",
        "Tom Adeyemi pays more than Owen Pritchard.",
        "Tom Adeyemi and Priya Raman pay the same annual fee.",
        "Owen Pritchard, Tom Adeyemi and Priya Raman are under 18.",
    ],
)
def test_other_false_claims_are_not_supported(claim: str) -> None:
    assert check(claim).verdict == "unsupported"


def test_a_list_that_lacks_a_row_is_partly_supported() -> None:
    assert check("The members under 46 are Tom Adeyemi, Priya Raman and Owen Pritchard.").verdict == "partial"


@for_each(
    "claim",
    [
        "Sofia Lindqvist has more outings than Judith Kessler.",  # her cell is empty
        "Tom Adeyemi is under 18 and plays the cello in an orchestra.",
        "Tom Adeyemi is taller than Owen Pritchard.",
        "Judith Kessler is the second oldest member.",
    ],
)
def test_what_the_cells_do_not_say_is_left_open(claim: str) -> None:
    """Shared words cannot support or refute it."""
    found = check(claim)
    assert found.verdict in ("partial", "unsupported")
    assert found.finding != "contradicts"


@for_each(
    "claim",
    [
        "Judith Kessler is the oldest member.",
        "Margaret Olsen is the oldest member.",
        "Two members are under 18.",
        "Four members are under 18.",
    ],
)
def test_all_rows_must_be_known_for_the_most_and_for_a_count(claim: str) -> None:
    """An excerpt may lack rows. Named rows are compared in an excerpt, too."""
    assert check(claim, is_whole=False).verdict not in ("supported", "contradicts")
    assert check("Judith Kessler is older than Margaret Olsen.", is_whole=False).verdict == "supported"


@for_each(
    ("claim", "verdict"),
    [
        ("Die Rosengasse 3 ist die günstigste Wohnung.", "supported"),
        ("Am Goetheplatz 7 ist die Kaltmiete höher als in der Lindenstraße 12.", "supported"),
        ("Die Kaltmiete am Goetheplatz 7 liegt 640 € über der in der Lindenstraße 12.", "supported"),
        ("Die Kaltmiete am Goetheplatz 7 liegt 540 € über der in der Lindenstraße 12.", "unsupported"),
        ("Lindenstraße 12 und Rosengasse 3 haben dieselbe Kaltmiete.", "unsupported"),
        ("Die Lindenstraße 12 ist vor dem 15. Juli 2024 frei.", "supported"),
        ("Die Lindenstraße 12 ist größer als das Goetheplatz 7.", "unsupported"),
    ],
)
def test_claims_in_german(claim: str, verdict: str) -> None:
    assert check(claim, FLATS, "de").verdict == verdict


@for_each(
    "claim",
    [
        "Tom Adeyemi is under 18 and pays £60.",
        "Tom Adeyemi is 16 years old and Priya Raman is 34 years old.",
        "Judith Kessler is the oldest member and joined in 1998.",
        "Priya Raman joined in 2018, while Sofia Lindqvist joined in 2015.",
    ],
)
def test_several_true_statements_are_supported(claim: str) -> None:
    assert check(claim).verdict == "supported"


@for_each(
    ("claim", "difference"),
    [
        ("Tom Adeyemi is under 18 and Priya Raman is over 60.", ("60", "34")),
        ("Tom Adeyemi pays £60, but Priya Raman pays £120.", ("£120", "£145.00")),
    ],
)
def test_a_wrong_statement_among_several_shows_the_cell(claim: str, difference: tuple[str, str]) -> None:
    found = check(claim)
    assert found.finding == "contradicts"
    assert found.difference is not None
    mine, theirs = found.difference.claimed, found.difference.found
    assert (claim[mine.start : mine.end], MEMBERS[theirs.start : theirs.end]) == difference


@for_each(
    "claim",
    [
        "Apart from Priya Raman, everybody pays less than £100.",
        "Priya Raman is 34 and has the fewest outings (19).",
        "Tom Adeyemi is 16 and the oldest member is 70.",
        "Margaret Olsen is older than Tom Adeyemi and pays less.",
        "Margaret Olsen pays more than Tom Adeyemi, but is cheaper.",
        "Only Owen Pritchard has paid.",
        "Owen Pritchard pays £60 a month.",
        "Tom Adeyemi's sister joined in 2024.",
    ],
)
def test_exceptions_and_other_subjects_are_left_open(claim: str) -> None:
    assert check(claim).verdict in ("partial", "unsupported")


@for_each(
    "claim",
    [
        "Judith Kessler is older than Margaret Olsen and pays more than Priya Raman.",
        "Tom Adeyemi is under 18 and Priya Raman is over 60.",
        "Priya Raman has not paid, but Tom Adeyemi has.",
        "Tom Adeyemi is a senior and Priya Raman a junior.",
        "Judith Kessler is the oldest member and joined in 2015.",
        "Sofia Lindqvist, who joined in 2019, is older than Priya Raman.",
        "At £60, Priya Raman pays more than Tom Adeyemi.",
        "The oldest member pays £71.",
        "Two members who joined in 2003 are under 18.",
        "More than three members are under 18.",
        "Margaret Olsen is a year older than Tom Adeyemi.",
        "Priya Raman pays more than Tom Adeyemi and Margaret Olsen combined.",
        "Margaret Olsen and Judith Kessler are tied for the highest annual fee.",
        "Judith Kessler is older than the oldest member.",
    ],
)
def test_what_a_claim_says_beside_a_comparison_is_not_confirmed(claim: str) -> None:
    """A second statement, a date, a sum, a bound or a number of another column."""
    assert check(claim).verdict in ("partial", "unsupported")


@for_each(
    "claim",
    [
        "Judith Kessler (71) is older than Margaret Olsen (67).",
        "Priya Raman pays £145, which is more than Tom Adeyemi.",
        "Margaret Olsen and Judith Kessler are over 60.",
    ],
)
def test_numbers_of_the_same_rows_are_confirmed(claim: str) -> None:
    assert check(claim).verdict == "supported"


def test_the_difference_is_in_the_row_that_is_wrong() -> None:
    found = check("Margaret Olsen and Tom Adeyemi are under 18.")
    assert found.difference is not None
    assert MEMBERS[found.difference.found.start : found.difference.found.end] == "67"
    assert found.quote.startswith("| Margaret Olsen")


@for_each("digit", ["፩", "²", "٣", "9" * 400, "½", "\x00"])
def test_no_digit_is_an_error(digit: str) -> None:
    for claim in (
        f"Judith Kessler is the {digit} oldest member.",
        f"{digit} members are under {digit}.",
        f"Tom is {digit} times as old.",
    ):
        assert check(claim).verdict


def test_a_long_claim_is_left_to_the_words() -> None:
    said = " ".join(["Judith Kessler is older than Margaret Olsen"] * 20)
    assert check(f"{said}.").score < 1


@for_each(
    ("claim", "verdict", "finding"),
    [
        ("Ravi is off on Monday.", "supported", None),
        ("On Wednesday Omar is off.", "supported", None),
        ("Ravi works from 11 to 17 on Tuesday.", "supported", None),
        ("Amara has Monday off.", "unsupported", "contradicts"),
        ("Ravi works from 11 to 18 on Tuesday.", "unsupported", "contradicts"),
        ("Ravi works on Monday.", "partial", None),
        ("Ravi is not off on Monday.", "partial", None),
        ("The waiter Omar is off on Tuesday.", "unsupported", "absent"),
        ("Ravi has the evening off on Tuesday.", "unsupported", "absent"),
        ("Amara is off the day after Monday.", "partial", None),
        ("It is false that Ravi is off on Monday.", "unsupported", "absent"),
        ("Ravi finishes at 17 on Tuesday after starting at 11.", "partial", None),
        ("Nell is off on Monday.", "partial", None),
        ("Ravi works in the bar on Monday.", "unsupported", "absent"),
    ],
)
def test_a_claim_about_one_of_several_like_columns_is_decided_by_its_cell(
    claim: str, verdict: str, finding: str | None
) -> None:
    """The other days have the same words. If the cell says "off" and the claim something else, the words cannot tell."""
    found = check(claim, ROTA)
    assert (found.verdict, found.finding) == (verdict, finding)


def test_a_table_supports_a_claim_without_one_of_its_words() -> None:
    """A sentence without a marker gets the marker of the table."""
    source = Source(index=1, title="x", url="https://a.example/", text=MEMBERS, text_kind="page")
    checker = CitationChecker([source], "en")
    (sentence,) = read_answer("Two are older than 64.", "en").sentences
    assert checker.find_source(sentence) == 1


@for_each(
    "claim",
    [
        "The annual fees are £600 in total.",
        "The total annual fee of Margaret Olsen and Judith Kessler is £190.",
        "The average age is 41.7.",
        "The average age is 41.67.",
        "The average age is 42.",
        "On average, a member pays an annual fee of £100.",
    ],
)
def test_sums_and_averages_are_computed(claim: str) -> None:
    found = check(claim)
    assert found.verdict == "supported"
    assert "Margaret Olsen" in found.quote
    assert "Judith Kessler" in found.quote


@for_each(
    "claim",
    [
        "The total annual fee of Ann and Ben is £190.",
        "The annual fees are about £600 in total.",
        "The annual fees are £620 in total.",
        "The annual fees are $600 in total.",
        "The average age is 41.2.",
        "The annual fees are over £500 in total.",
        "Margaret Olsen and Judith Kessler pay annual fees of £95 each, altogether.",
        "There are 6 members in total.",
    ],
)
def test_a_sum_refutes_nothing(claim: str) -> None:
    """Another number may be a limit, a share or a count."""
    assert check(claim).finding != "contradicts"


@for_each(
    ("claim", "verdict"),
    [
        ("Judith Kessler is older than average.", "supported"),
        ("Tom Adeyemi pays less than the average annual fee.", "supported"),
        ("Three members are older than average.", "supported"),
    ],
)
def test_claims_about_the_average_are_computed(claim: str, verdict: str) -> None:
    found = check(claim)
    assert (found.verdict, found.is_verbatim) == (verdict, False)


@for_each(
    "claim",
    ["Tom Adeyemi is older than average.", "Judith Kessler is older than the national average."],
)
def test_another_average_supports_nothing(claim: str) -> None:
    """The claim may mean another average, so it is not refuted either."""
    assert check(claim).verdict != "supported"
    assert check(claim).difference is None


def test_an_excerpt_of_a_table_has_no_sum() -> None:
    assert check("The annual fees are £600 in total.", is_whole=False).verdict != "supported"


ORDERS = """| Order | Customer | Item | Copies | Guarantee |
|---|---|---|---|---|
| 1012 | Quill Press | Slipcase | 40 | yes |
| 1013 | Camera club | Photo album | 6 | no |
| 1014 | Town archive | Cloth case | 120 | yes |
"""


def test_a_verb_like_the_name_of_a_number_column_names_no_number() -> None:
    assert check("Quill Press ordered 40 copies.", ORDERS).verdict == "supported"
    assert check("Quill Press ordered 41 copies.", ORDERS).finding == "contradicts"


def test_a_plural_names_its_row_and_a_no_contradicts() -> None:
    assert check("Photo albums have a guarantee.", ORDERS).finding == "contradicts"
    assert check("Cloth cases have a guarantee.", ORDERS).verdict == "supported"


def test_a_comparison_with_what_is_no_row_is_not_supported() -> None:
    assert check("A photo album is cheaper than a cloth binding.", ORDERS).verdict != "supported"
