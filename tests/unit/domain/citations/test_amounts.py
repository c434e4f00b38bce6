"""An amount of a claim is found if the source has it in another unit."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.citations.test_checker import judged, verdict

from modules.llm_platform.domain.citations.read.amounts import list_amounts, use_units


@for_each(
    ("text", "size"),
    [
        ("24 months", 24),
        ("twenty-four months", 24),
        ("two years", 24),
        ("half a year", 6),
        ("halbes Jahr", 6),
        ("a decade", 120),
        ("a fortnight", 20_160),
        ("14-day", 20_160),
        ("zwei Wochen", 20_160),
        ("an hour and a half", 90),
        ("one and a half hours", 90),
        ("1½ hours", 90),
        ("2.5 km", 2500),
        ("500 g", 0.5),
        ("half a litre", 0.5),
        ("5 p.m.", 1020),
        ("17:00", 1020),
        ("17 Uhr", 1020),
        ("12:15 am", 15),
        ("£410", 410),
        ("1.500,50 €", 1500.5),
        ("410 pounds", 410),
        ("$1.5 million", 1_500_000),
        ("1.5 million dollars", 1_500_000),
    ],
)
def test_an_amount_is_read_in_figures_and_words(text: str, size: float) -> None:
    assert [(amount.size, text[amount.start : amount.end]) for amount in list_amounts(f"{text},")] == [(size, text)]


@for_each(
    "text",
    ["a man", "at 17", "three g", "1:30:20", "12 members", "5 feet", "5 °C", "chapter 2 m", "£5m", "A$5", "US$ 5"],
)
def test_what_is_not_converted_is_no_amount(text: str) -> None:
    assert [amount for amount in list_amounts(text) if amount.dimension != "m"] == []


@for_each(
    "text",
    [
        "2 hours and 30 minutes", "two years and six months", "2 years, 6 months", "1 h 30", "1 Std. 30 Min.", "1 kg 200 g",
        "dos años y medio", "three quarters of an hour", "twice a year", "once a week", "five a day",
        "vingt et un jours", "treinta y un días", "two dozen days", "5 km2", "1960s", "a second opinion", "8 Uhr 30",
        "from 10 to 12 p.m.",
    ],
)  # fmt: skip
def test_a_part_of_an_amount_and_a_rate_are_no_amounts(text: str) -> None:
    """The first number alone would be another amount: two hours are no two and a half."""
    assert list_amounts(f"It is {text}.") == []


def test_each_price_is_an_amount_of_its_own() -> None:
    """Two prices side by side are no compound amount, and the period after a price is none at all."""
    text = "It is £12 an hour, £410 and £65."
    assert [text[amount.start : amount.end] for amount in list_amounts(text)] == ["£12", "£410", "£65"]


def test_all_amounts_of_a_long_text_are_read() -> None:
    assert len(list_amounts("\n".join(f"Room {number} is 5 metres long." for number in range(200)))) == 200


@for_each(
    ("claim", "text", "written"),
    [
        ("It runs two years.", "It runs 24 months.", "It runs 24 months."),
        ("It runs three years.", "It runs 24 months.", "It runs three years."),
        ("It runs two years.", "It runs 2 years, or 24 months.", "It runs two years."),
        (
            "It takes 90 minutes and weighs 1 kg.",
            "1,000 g, an hour and a half",
            "It takes an hour and a half and weighs 1,000 g.",
        ),
    ],
)
def test_a_claim_takes_the_units_of_the_source(claim: str, text: str, written: str) -> None:
    assert use_units(claim, list_amounts(text), text) == written


@for_each(
    ("sentence", "text"),
    [
        ("The lease runs for two years.", "The lease runs for 24 months."),
        ("The pool is 2.5 km away.", "The pool is 2,500 metres away."),
        ("The film is 120 minutes long.", "The film is two hours long."),
        ("Die Frist beträgt zwei Wochen.", "Die Frist beträgt 14 Tage."),
        ("The bar opens at 5 pm.", "The bar opens at 17:00."),
        ("The bar opens at 17:00.", "The bar opens at 5 p.m. and closes at 8."),
        ("Die Bar öffnet um 17 Uhr.", "Die Bar öffnet um 17:00 Uhr."),
        ("The crown costs 410 pounds.", "The crown costs £410 and each filling £65."),
        ("The crown costs £410.", "The crown costs 410 pounds and each filling 65 pounds."),
        ("Die Krone kostet 410 Euro.", "Die Krone kostet 410 € und jede Füllung 65 €."),
    ],
)
def test_an_equal_amount_supports(sentence: str, text: str) -> None:
    assert verdict(sentence, text) == "supported"


@for_each(
    ("sentence", "text"),
    [
        ("The lease runs for three years.", "The lease runs for 24 months."),
        ("The bar opens at 6 p.m.", "The bar opens at 17:00."),
        ("The bar opens at 5 a.m.", "The bar opens at 17:00."),
        ("The pool is 2.5 km away.", "The school is 2,500 metres away and the pool 900."),
        ("The crown costs 65 pounds.", "The crown costs £410 and each filling £65."),
        ("The crown costs 410 euros.", "The crown costs £410 and each filling £65."),
    ],
)
def test_another_amount_or_subject_does_not(sentence: str, text: str) -> None:
    assert judged(sentence, text).verdict != "supported"
