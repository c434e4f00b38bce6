"""Numbers and dates are read in many ways of writing and many languages."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.text.numbers import (
    find_compound_numbers,
    find_other_date,
    is_same_number,
    list_numbers,
    load_number_words,
)


@for_each(
    ("one", "other"),
    [
        ("1,000", "1000"),
        ("1.000", "1000"),
        ("1 000", "1000"),
        ("3,5", "3.5"),
        ("2.3 million", "2300000"),
        ("48 Mio", "48000000"),
        ("700 тысяч", "700000"),
        ("5,3 Milliarden", "5300000000"),
        ("72万", "720000"),
        ("八万", "80000"),
        ("十二小时", "12"),
        ("七百二十座", "720"),
        ("1,234.5", "1234.5"),
        ("口径500米", "500"),
    ],
)
def test_spellings_of_a_number_share_a_value(one: str, other: str) -> None:
    """Different ways to write a number share a value."""
    (first, _), (second, _) = list_numbers(one)[0], list_numbers(other)[0]
    assert first & second


@for_each(("one", "other"), [("1904", "1940"), ("3.5", "35"), ("12:30", "12:40"), ("1/2", "1/3")])
def test_other_numbers_have_other_values(one: str, other: str) -> None:
    """A changed digit or point is another number."""
    assert not list_numbers(one)[0][0] & list_numbers(other)[0][0]


@for_each(
    ("written", "hour"), [("12:30 pm", "12:30"), ("1:30 pm", "13:30"), ("11:05pm", "23:05"), ("15:10 pm", "15:10")]
)
def test_noon_is_the_twelfth_hour(written: str, hour: str) -> None:
    """The half of the day adds twelve hours, except to noon and to an hour that is counted from midnight already."""
    times = {reading for reading in list_numbers(written)[0][0] if ":" in reading}
    assert times == {written.removesuffix("pm").strip(), hour}


@for_each(
    ("written", "times"),
    [
        ("5 p.m.", {"17:00"}),
        ("8 am", {"8:00"}),
        ("08:00", {"08:00", "8:00"}),
        ("17 Uhr", {"17:00"}),
        ("5 members", set()),
    ],
)
def test_an_hour_is_a_time_of_the_day(written: str, times: set[str]) -> None:
    assert {value for value in list_numbers(written)[0][0] if ":" in value} == times


@for_each(
    ("written", "begin"),
    [
        ("1 to 3 p.m.", "13:00"),
        ("11 to 3 p.m.", "11:00"),
        ("10 to 12 p.m.", "10:00"),
        ("11:00-12:30 pm", "11:00"),
        ("5:30 to 5:45 p.m.", "17:30"),
    ],
)
def test_the_first_hour_of_a_range_is_before_the_last(written: str, begin: str) -> None:
    assert begin in list_numbers(written)[0][0]


@for_each("written", ["8 Uhr 30", "3 heures par jour", "9 and 5 p.m."])
def test_other_numbers_are_no_hours(written: str) -> None:
    assert [value for value in list_numbers(written)[0][0] if ":" in value] == []


def test_the_month_of_a_date_is_no_number() -> None:
    """`2024-03-05` has the same numbers as `5 March 2024`, whose month is compared by name.

    A range keeps all its numbers.
    """
    assert {reading for reading, _ in list_numbers("2024-03-05")} == {
        reading for reading, _ in list_numbers("5 March 2024")
    }
    assert len(list_numbers("1-03-05")) == 3


def test_a_time_behind_a_comma_is_a_number_of_its_own() -> None:
    """A year and a time that a page joins by a comma are two numbers; the time is read with its half of the day."""
    assert [reading for reading, _ in list_numbers("2022,03:46pm")] == [{"2022"}, {"03:46", "15:46"}]


@for_each("written", ["2,3:6", "1,000:00", f"{'9' * 5_000}:30", "九" * 400])
def test_an_invalid_number_is_compared_as_text(written: str) -> None:
    """Digits that form neither a number nor a time are compared as text, also before `pm`."""
    assert list_numbers(f"{written}pm") == [(frozenset({written}), 0)]


def test_digits_in_names_and_long_runs_have_no_value() -> None:
    """Digits inside a name are part of it, a run of a thousand digits has no value, words of many languages have one."""
    assert list_numbers("wal2 x86") == []
    assert list_numbers("9" * 1000)[0][0] == {"9" * 1000}
    assert {load_number_words()[word] for word in ("three", "drei", "trois", "три")} == {"3"}


@for_each(
    ("mine", "theirs", "differs"),
    [
        ("in May", "im März", True),
        ("in May", "im Mai", False),
        ("it may rain", "im März", False),
        ("on Monday", "in May", False),
        ("Monday", "Freitag", True),
        ("x", "May", False),
    ],
)
def test_months_are_compared_with_months_and_weekdays_with_weekdays(mine: str, theirs: str, differs: bool) -> None:
    """A month is compared with months, a weekday with weekdays, across languages; "may" is a month with its capital only."""
    assert (find_other_date(mine.split(), theirs.split()) is not None) is differs


@for_each(
    ("text", "value"),
    [
        ("Twenty-one rooms", "21"),
        ("two hundred and forty rooms", "240"),
        ("three million", "3000000"),
        ("one hundred twelve", "112"),
        ("two thousand five hundred", "2500"),
        ("one million two hundred thousand and six", "1200006"),
    ],
)
def test_an_english_number_of_several_words_has_one_value(text: str, value: str) -> None:
    """Its words are joined by blanks, hyphens and `and`."""
    assert [reading for reading, _ in find_compound_numbers(text, text.lower().replace("-", " ").split())] == [
        frozenset({value})
    ]


@for_each("text", ["twelve gates", "one of them", "of five and six", "nineteen tents", "bone hundred", "a million"])
def test_words_that_are_no_number_together_are_read_one_by_one(text: str) -> None:
    """Two numbers side by side, a number of one word, and a part of another word are no compound."""
    assert find_compound_numbers(text, text.split()) == []


def test_a_number_is_equal_in_all_notations() -> None:
    """Words next to the number are not part of it."""
    assert is_same_number(["twenty", "one"], ["21"])
    assert is_same_number(["2", "million"], ["2", "000", "000"])
    assert is_same_number(["half"], ["50", "percent"])
    assert is_same_number(["Twelve", "percent"], ["12", "%"])
    assert not is_same_number(["twenty"], ["21"])
    assert not is_same_number(["twelve"], ["12", "percent"])
    assert not is_same_number(["twelve", "iron"], ["12", "steel"])


@for_each("written", ["九" * count + unit for count in (277, 288, 298) for unit in ("", "千", "千亿", "万亿", "亿亿")])
def test_a_number_of_any_length_and_unit_is_read(written: str) -> None:
    """No number is too large to be compared."""
    assert len(list_numbers(written)) == 1
