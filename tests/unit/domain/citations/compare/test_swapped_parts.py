"""A claim that copies its source and swaps two parts says the opposite."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.contradictions import assert_contradicted, cite
from tests.support.growth import is_linear

FILLINGS = "Fillings are guaranteed for two years, crowns for five, provided that you come for a check-up once a year."
BLOOD = "Dear Mr Hay, all is well again. Your blood sugar was raised at first, and normal at the end."
PARTS = "Mrs Trimble is played by Gwen, the lodger by Rashid, the daughter by Cleo."
BUSES = "Before working days the last buses leave the market at 1.15, at weekends at 4.45."
FIREWALL = "Connect the cable: first the power, then the computer."
MITES = "Against the mites I used formic acid in August and oxalic acid at Christmas."
POOLS = "The big pool is kept at 26 degrees, the toddlers' pool at 31."
HELP = "Help came from Hamburg, which sent grain, and from the king of Denmark, who gave 10,000 thalers."
TISCH = "Gerd Stoll leitet die Freizeit am Samstag, Milan Petrov die Jugend."
MACHINE = "Fillings of the machine are changed on Mondays, filters on Fridays."
CHORALE = "Les adultes paient 130 euros par an, les étudiants 65 euros."


@for_each(
    ("text", "sentence", "claimed", "found", "language"),
    [
        (FILLINGS, "Crowns are guaranteed for two years, fillings for five.", "Crowns", "Fillings", "en"),
        (BLOOD, "Your blood sugar was normal at first, and raised at the end.", "normal", "raised", "en"),
        (PARTS, "Mrs Trimble is played by Cleo, the lodger by Rashid, the daughter by Gwen.", "Cleo", "Gwen", "en"),
        (BUSES, "Before working days the last buses leave the market at 4.45, at weekends at 1.15.", "4.45", "1.15", "en"),
        (FIREWALL, "Connect first the computer, then the power.", "computer", "power", "en"),
        (MITES, "Against the mites I used oxalic acid in August and formic acid at Christmas.", "oxalic", "formic", "en"),
        (TISCH, "Milan Petrov leitet die Freizeit am Samstag, Gerd Stoll die Jugend.", "Milan Petrov", "Gerd Stoll", "de"),
        (MACHINE, "Filters of the machine are changed on Mondays, fillings on Fridays.", "Filters", "Fillings", "en"),
        (CHORALE, "Les étudiants paient 130 euros par an, les adultes 65 euros.", "étudiants", "adultes", "fr"),
    ],
)  # fmt: skip
def test_an_swap_is_contradicted_by_the_source(
    text: str, sentence: str, claimed: str, found: str, language: str
) -> None:
    assert_contradicted(sentence, text, language, claimed=claimed, found=found)


@for_each(
    ("text", "sentence"),
    [
        (FILLINGS, "Crowns are guaranteed for five years, fillings for two."),
        (PARTS, "The daughter is played by Cleo, the lodger by Rashid, Mrs Trimble by Gwen."),
        (POOLS, "The toddlers' pool is kept at 31 degrees, the big pool at 26."),
        (MITES, "I used oxalic acid at Christmas and formic acid in August against the mites."),
        (BUSES, "At weekends the last buses leave the market at 4.45, before working days at 1.15."),
        ("Tom Hale hit Ann Lee in the garden.", "Ann Lee was hit by Tom Hale in the garden."),
        ("It is reset every six weeks, on a Monday, by Ann.", "It is reset by Ann on a Monday every six weeks."),
        ("The flag of the club is red, green and blue.", "The flag of the club is blue, green and red."),
        ("Last year the shop made 88,400 pounds.", "The 88,400 pounds were made by the shop last year."),
    ],
)  # fmt: skip
def test_another_order_is_no_contradiction(text: str, sentence: str) -> None:
    """What belongs together moves together, and the passive voice turns a sentence around."""
    assert cite(sentence, text).finding != "contradicts"


@for_each(
    ("text", "sentence", "language"),
    [
        ("Ann Lee met Ben Hay in Rome last week.", "Ben Hay met Ann Lee in Rome last week.", "en"),
        ("Team captain remains Kane in this season.", "Kane remains team captain in this season.", "en"),
        ("Gestern eröffnete Anna die Messe in Bonn.", "Anna eröffnete gestern die Messe in Bonn.", "de"),
        ("Bayern spielt am Samstag gegen Dortmund.", "Dortmund spielt am Samstag gegen Bayern.", "de"),
        ("Ayer inauguró Ana la feria de Madrid.", "Ana inauguró ayer la feria de Madrid.", "es"),
        ("Ben is three years, two months and five days younger than Ann.",
         "Ann is three years, two months and five days older than Ben.", "en"),
        ("The flag is red / white / blue.", "The flag is blue / white / red.", "en"),
        ("De vlag van de club in Gent is rood, wit en blauw.", "De vlag van de club in Gent is blauw, wit en rood.", "nl"),
        ("Wasser und Öl mischen sich nie.", "Öl und Wasser mischen sich nie.", "en"),
        ("Po miesiącu nowy dom odwiedza wolontariuszka Ola, a potem Jan.",
         "Po miesiącu wolontariuszka Ola odwiedza nowy dom, a potem Jan.", "pl"),
    ],
)  # fmt: skip
def test_the_order_within_a_clause_contradicts_nothing(text: str, sentence: str, language: str) -> None:
    assert cite(sentence, text, language).finding != "contradicts"


@for_each(
    ("text", "sentence", "claimed", "found", "language"),
    [
        ("The week has 36 hours instead of 38, at the same pay.", "The week has 38 hours instead of 36.", "38", "36", "en"),
        ("Dogs may stay outdoors but not in the barn.", "Dogs may stay in the barn but not outdoors.", "barn", "outdoors", "en"),
        ("Boys gained more weight than girls.", "Girls gained more weight than boys.", "Girls", "Boys", "en"),
        ("Der Kurs in Bonn kostet jetzt 40 statt 60 Euro.", "Der Kurs in Bonn kostet jetzt 60 statt 40 Euro.", "60", "40", "de"),
    ],
)  # fmt: skip
def test_an_swap_around_a_word_that_points_one_way_is_contradicted(
    text: str, sentence: str, claimed: str, found: str, language: str
) -> None:
    """ "Instead", "than" and "but not" say something else if the parts around them change places."""
    assert_contradicted(sentence, text, language, claimed=claimed, found=found)


@for_each(
    ("text", "sentence"),
    [
        ("The flat in Oak Street is small but cheap.", "The flat in Oak Street is cheap but small."),
        ("Small but cheap rooms have no bath.", "Cheap but small rooms have no bath."),
        ("The hotel is not cheap but clean.", "The hotel is clean but not cheap."),
        ("Not only nurses but also doctors joined the strike.", "Not only doctors but also nurses joined the strike."),
        ("The law allows bicycles but not scooters.", "The law bans scooters but not bicycles."),
        (
            "On Monday more than 50 flights were cancelled in Texas.",
            "In Texas more than 50 flights were cancelled on Monday.",
        ),
        (
            "Online more than 8,000 people watched it on Saturday.",
            "On Saturday more than 8,000 people watched it online.",
        ),
        ("In May, the shop opened without permission in Lyon.", "In Lyon, the shop opened without permission in May."),
        (
            "The tower was painted before the clock was repaired.",
            "Before the clock was repaired, the tower was painted.",
        ),
        ("Fly-tipping fell to 1,866 cases from 2,240.", "Fly-tipping fell from 2,240 cases to 1,866."),
    ],
)
def test_parts_that_keep_their_word_contradict_nothing(text: str, sentence: str) -> None:
    assert cite(sentence, text).finding != "contradicts"


@for_each(
    ("text", "sentence"),
    [
        ("Google bought YouTube in October 2006.", "YouTube bought Google in October 2006."),
        ("The dog bit the postman in Oak Street.", "The postman bit the dog in Oak Street."),
    ],
)
def test_an_swap_within_a_clause_is_never_supported(text: str, sentence: str) -> None:
    assert cite(sentence, text).verdict != "supported"


@for_each("oddity", ["Use ½ cup. ", "Use 5 ㎏ at 20 ℃. ", "№ 7. ", "Fu\u0308llungen für Zähne. "])
def test_words_that_folding_splits_or_joins_are_read(oddity: str) -> None:
    """`½` becomes two words, and a letter with a combining sign becomes one letter."""
    text, claim = "Fillings last two years, crowns five.", "Fillings last five years, crowns two."
    for source, sentence in ((oddity + text, claim), (text, oddity + claim), (oddity + text, oddity + claim)):
        difference = cite(sentence, source).difference
        assert difference is None or source[difference.found.start : difference.found.end] == "two"


def test_another_sentence_may_say_what_the_claim_says() -> None:
    both = (
        f"{FILLINGS} Until 2019 it was the other way around: crowns were guaranteed for two years, fillings for five."
    )
    assert cite("Crowns were guaranteed for two years, fillings for five.", both).finding != "contradicts"


NAMES = ["Ann", "Ben", "Cleo", "Dan"]
ITEMS = ["tables", "chairs", "lamps", "cups"]


@given(st.permutations(range(4)))
def test_pairs_in_any_order_are_no_contradiction(order: list[int]) -> None:
    text = "For the feast " + ", ".join(f"{NAMES[at]} brings the {ITEMS[at]}" for at in range(4)) + "."
    claim = "For the feast " + ", ".join(f"{NAMES[at]} brings the {ITEMS[at]}" for at in order) + "."
    assert cite(claim, text).finding != "contradicts"


def test_long_sentences_are_compared_in_bounded_time() -> None:
    def check(size: int) -> None:
        words = [f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}q" for n in range(size)]
        cite(f"The {' '.join(reversed(words))}.", f"The {' '.join(words)}.")

    assert is_linear(lambda: check(40), lambda: check(4000), 100)
