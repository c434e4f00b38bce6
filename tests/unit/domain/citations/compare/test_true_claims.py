"""True sentences that look like contradictions, found by readers of the rules: none of them turns red."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import cite

FAIR = "Event: Spring fair\nDay: Saturday\nPlace: Mill Green"


@for_each(
    ("text", "sentence"),
    [
        (FAIR, "The event is on Saturday."),
        ("Budget: £4,000\nStatus: approved", "The budget is approved."),
        ("Project: New roof\nLead: Ann Lee\nBudget: £4,000", "The project is led by Ann Lee."),
        ("Chair: Ann Lee\nTreasurer: Bob Ray\nNote: Ann Lee thanked Bob Ray.", "The chair thanked Bob Ray."),
        ("Ann: Who brings tea?\nBob: I do.", "Bob will bring tea."),
    ],
)
def test_the_attributes_of_one_thing_are_no_rivals(text: str, sentence: str) -> None:
    assert cite(sentence, text).finding != "contradicts"


@for_each(
    ("text", "sentence", "language"),
    [
        ("Dogs are allowed everywhere except in the kitchen.", "Dogs are never allowed in the kitchen.", "en"),
        ("The office is open every day except Sundays.", "The office is never open on Sundays.", "en"),
        ("Parking costs £5 except for members.", "Members never pay for parking.", "en"),
        ("Das Büro ist täglich außer sonntags geöffnet.", "Das Büro ist sonntags nie geöffnet.", "de"),
        ("Ann denied that the roof leaked.", "Ann said the roof did not leak.", "en"),
        ("Nobody denies that the bridge is closed.", "The bridge is closed.", "en"),
        ("Cats may not stay, but dogs may.", "Dogs may stay.", "en"),
        ("It is not true that the roof leaked.", "It is a mistake that the roof leaked.", "en"),
    ],
)
def test_an_exception_and_a_denied_report_agree(text: str, sentence: str, language: str) -> None:
    assert cite(sentence, text, language).finding != "contradicts"


@for_each(
    ("text", "sentence", "language"),
    [
        ("There must be at least 8 people.", "There must not be fewer than 8 people.", "en"),
        ("No more than 8 people are allowed.", "More than 8 people are not allowed.", "en"),
        ("You may borrow at most 8 books.", "It is forbidden to borrow more than 8 books.", "en"),
        ("Es sind maximal 8 Personen erlaubt.", "Mehr als 8 Personen sind nicht erlaubt.", "de"),
        ("Book at least 3 days before the event.", "Book not later than 3 days before the event.", "en"),
        (
            "Der Kurs findet nur statt, wenn sich mindestens fünf Personen anmelden.",
            "Der Kurs fällt aus, wenn sich weniger als fünf Personen anmelden.",
            "de",
        ),
    ],
)
def test_a_limit_that_is_denied_or_turned_round_agrees(text: str, sentence: str, language: str) -> None:
    assert cite(sentence, text, language).finding != "contradicts"


@for_each(
    ("text", "sentence", "language"),
    [
        ("Parking costs £2 for each hour after the first.", "The first hour of parking is free.", "en"),
        ("The course costs £40; the unemployed pay nothing.", "The course is free for the unemployed.", "en"),
        (
            "Der Eintritt ins Museum kostet 8 Euro, der Garten ist frei.",
            "Der Eintritt in den Garten ist kostenlos.",
            "de",
        ),
        (
            "Der Antrag wurde mit 24 Stimmen ohne Gegenstimme angenommen.",
            "Der Antrag wurde einstimmig angenommen.",
            "de",
        ),
        ("Der Kurs fiel am 3. Mai aus; die Zahl stieg von 8 auf 12.", "Der Kurs fiel aus.", "de"),
        ("Profit increased from £2,000 to £3,000 despite a drop in sales.", "Sales dropped.", "en"),
        ("The rent increased from £700 to £750 in May.", "The rent was lower before May.", "en"),
        ("The shuttle goes from 8 to 11 every hour.", "The shuttle goes at 8.", "en"),
        ("The fee rises from £20 to £25 on 1 May; until then it is £20.", "The fee is still £20.", "en"),
        ("Der Vorstand gratulierte Hans Meier.", "Herrn Meier wurde gratuliert.", "de"),
    ],
)
def test_a_price_a_vote_or_a_change_of_something_else_agrees(text: str, sentence: str, language: str) -> None:
    assert cite(sentence, text, language).finding != "contradicts"


@for_each(
    ("text", "sentence"),
    [
        ("The minutes had an error: the wheel cost £1,140, not £1,410.", "The wheel cost £1,140."),
        (
            "Friday from 9:30 to 17:00, Saturday from 10:00. On Sundays the studio is closed.",
            "It closes at 17:00 on Fridays.",
        ),
        (
            "It costs £9 per child.\n\nWe go down to £8, that makes £208 for 26 children.",
            "It costs £208 for 26 children.",
        ),
        ("The new roof, which Ann had wanted to have for years, cost £4,000.", "The new roof cost £4,000."),
        ("Anyone who wants to vote must register by 3 May.", "Voters must register by 3 May."),
    ],
)
def test_a_number_a_day_or_a_wish_beside_it_changes_nothing(text: str, sentence: str) -> None:
    assert cite(sentence, text).finding != "contradicts"


@for_each(
    ("text", "sentence"),
    [
        ("All adults pay £12, all children £5.", "All children pay £12."),
        ("The bus costs £95 and the hotel £300, £395 in all.", "The bus costs £395."),
        ("The budget is £4,000 and the roof costs £500.", "The budget is £4,500."),
        (
            "Joan proposed to raise the fee from £38 to £45. After discussion the meeting agreed on £42 from May.",
            "The fee rises to £45.",
        ),
    ],
)
def test_false_claims_beside_them_are_not_supported(text: str, sentence: str) -> None:
    assert cite(sentence, text).verdict != "supported"
