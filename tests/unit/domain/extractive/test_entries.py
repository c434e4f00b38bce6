"""What stands before a text belongs to it: the date of a diary entry, the subject of a message, the title of a clause."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.block_reader import read_blocks
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.candidates import Candidate, match_sources
from modules.llm_platform.domain.extractive.dated_rows import cut_other_days, find_dated_entry, remove_other_days
from modules.llm_platform.domain.extractive.entries import split_date
from modules.llm_platform.domain.extractive.question import read_question

DIARY = """# Garden diary 2023

Sat 4 March. First proper day out. Put plastic over the parsnip bed.

Sun 12 March. Rained all day. Sorted the seed packets.

The wren came back in the evening.

Sat 18 March. Shallots in, forty of them.
"""
LOG = """Heizung im Vereinsheim:
4. März: Pumpe laut. Entlüftet.
12. März: Thermostat getauscht.
18. März: alles in Ordnung.
"""


@for_each(
    ("line", "date", "text"),
    [
        ("Sat 4 March. First day", "Sat 4 March", "First day"),
        ("**Tue 4 July.** Broken into", "Tue 4 July", "Broken into"),
        ("Samedi 4 mars : gel", "", "Samedi 4 mars : gel"),
        ("Samedi 4 mars – gel", "Samedi 4 mars", "gel"),
        ("Sa., 4.3.: Kartoffeln", "Sa., 4.3", "Kartoffeln"),
        ("March 4, 2023: rain", "March 4, 2023", "rain"),
        ("04.03.2023 Ölwechsel", "04.03.2023", "Ölwechsel"),
        ("2026-03-14 Oil changed", "2026-03-14", "Oil changed"),
        ("4 March was cold.", "", "4 March was cold."),
        ("4 March, the committee met.", "", "4 March, the committee met."),
        ("1. May be cold", "", "1. May be cold"),
        ("4 March – 12 April: spring term", "", "4 March – 12 April: spring term"),
    ],
)
def test_a_date_before_a_text_is_split_off(line: str, date: str, text: str) -> None:
    """A full stop, a colon or a dash follows it, unless it has figures only and a year."""
    assert split_date(line) == (date, text)


def read_texts(text: str) -> list[Block]:
    return [block for block in read_blocks(text) if block.kind != "heading"]


def test_a_date_belongs_to_all_sentences_of_its_entry() -> None:
    assert [(block.entry, block.text) for block in read_texts(DIARY)] == [
        ("Sat 4 March", "First proper day out. Put plastic over the parsnip bed."),
        ("Sun 12 March", "Rained all day. Sorted the seed packets."),
        ("Sun 12 March", "The wren came back in the evening."),
        ("Sat 18 March", "Shallots in, forty of them."),
    ]


def test_the_last_entry_ends_with_its_paragraph() -> None:
    """What is below may be about something else."""
    text = f"{DIARY}\nMembership costs £46 a year."
    assert [block.entry for block in read_texts(text)][-2:] == ["Sat 18 March", ""]


def test_the_list_below_an_entry_belongs_to_it() -> None:
    text = "4 March. Sown:\n\n- peas\n- beans\n\n12 March. Rain.\n\n18 March. Sun."
    assert [block.entry for block in read_texts(text)] == ["4 March"] * 3 + ["12 March", "18 March"]


def test_each_line_of_a_log_is_an_entry() -> None:
    """`4. März` is no fourth item of a list."""
    assert [(block.entry, block.text) for block in read_texts(LOG)] == [
        ("", "Heizung im Vereinsheim:"),
        ("4. März", "Pumpe laut. Entlüftet."),
        ("12. März", "Thermostat getauscht."),
        ("18. März", "alles in Ordnung."),
    ]


def test_a_date_as_a_heading_begins_an_entry() -> None:
    text = "## 4 March\n\nRain.\n\n## 12 March\n\nSun.\n\n## 18 March\n\nWind.\n\n## Notes\n\nNone."
    assert [block.entry for block in read_texts(text)] == ["4 March", "12 March", "18 March", ""]


def test_a_date_alone_on_its_line_begins_an_entry() -> None:
    """No blank line is needed below it, and the heading above all entries stays."""
    text = "Diary of Edith\n\n4 March\nRain.\nStayed in.\n\n12 March\nSun.\n\n18 March\nWind."
    assert [(block.heading, block.entry, block.text) for block in read_texts(text)] == [
        ("Diary of Edith", "4 March", "Rain.\nStayed in."),
        ("Diary of Edith", "12 March", "Sun."),
        ("Diary of Edith", "18 March", "Wind."),
    ]


@for_each(
    ("text", "facts"),
    [
        (
            "SKICLUB BRENNTAL e.V.\nHÜTTENORDNUNG (1.640 m)\nGültig ab 1. Januar 2025\n\nDie Hütte hat 18 Plätze.",
            ["Gültig ab 1. Januar 2025", "Die Hütte hat 18 Plätze."],
        ),
        (
            "Brightacre Solar Ltd\nUnit 6, Coldwell\nTelephone 01632 960882\n\nWe start on 21 May.",
            ["Unit 6, Coldwell", "Telephone 01632 960882", "We start on 21 May."],
        ),
        (
            "The shop is small.\n\nMonday: closed\nSaturday: 10 to 2\n\nPlease ring.",
            ["The shop is small.", "Monday: closed", "Saturday: 10 to 2", "Please ring."],
        ),
        (
            "The club met on Monday.\n\nWIFI: BERGHAUS\nPIN: 4711",
            ["The club met on Monday.", "WIFI: BERGHAUS", "PIN: 4711"],
        ),
        (
            "Guten Tag zusammen.\n\nHinweis: Der Keller darf nur mit dem\nEinverständnis des Vermieters genutzt werden",
            [
                "Guten Tag zusammen.",
                "Hinweis: Der Keller darf nur mit dem\nEinverständnis des Vermieters genutzt werden",
            ],
        ),
        (
            "The house has a garden and a view of the lake\nIt was built by Otto Wagner for his wife",
            ["The house has a garden and a view of the lake\nIt was built by Otto Wagner for his wife"],
        ),
    ],
)
def test_each_fact_of_short_lines_is_a_text_of_its_own(text: str, facts: list[str]) -> None:
    """The lines of a letterhead are no sentence together, and its names answer nothing."""
    assert [block.text for block in read_texts(text)] == facts


def test_the_date_of_a_letter_is_no_entry() -> None:
    text = "4 March 2023\n\nWe met on Monday.\n\n5 May: the fair.\n\nPlease come."
    assert [(block.entry, block.text) for block in read_texts(text)][1:] == [
        ("", "5 May: the fair."),
        ("", "Please come."),
    ]


@for_each(
    ("header", "heading"),
    [
        (
            "From: Yusuf Demir\nTo: All members\nDate: 2 October 2023\nSubject: Re: The water",
            "The water · Yusuf Demir · 2 October 2023",
        ),
        ("De : Colette Vasseur\nDate : 27 août 2023", "Colette Vasseur · 27 août 2023"),
        ("Betreff: Angebot Nr. 318", "Angebot Nr. 318"),
    ],
)
def test_the_header_of_a_message_is_the_heading_of_its_text(header: str, heading: str) -> None:
    """A salutation is not."""
    (block,) = read_texts(f"{header}\n\nDear all,\n\nThe standpipes will be off from 30 October.")
    assert (block.heading, block.text) == (heading, "The standpipes will be off from 30 October.")


@for_each("lines", ["From: Leeds\nTo: London", "Von: 8 Uhr\nAn: Werktagen", "Subject: Physics is taught on Mondays."])
def test_other_fields_are_no_header(lines: str) -> None:
    assert "\n".join(block.text for block in read_blocks(lines)) == lines


@for_each(
    ("text", "heading", "first"),
    [
        ("# Minutes\n\n**3. Rent.** A plot costs £46.", "Minutes · 3. Rent", "A plot"),
        ("# Minutes\n\n**3. Rent**. A plot costs £46.", "Minutes · 3. Rent", "A plot"),
        ("# Minutes\n\n**The rent is £46.** It is due in May.", "Minutes", "**The rent"),
        ("§ 3 Arbeitszeit\nDie Arbeitszeit beträgt 36 Stunden.", "§ 3 Arbeitszeit", "Die Arbeitszeit"),
        ("Section 2 Notice\nThe tenant gives notice in writing.", "Section 2 Notice", "The tenant"),
        ("The lake is deep.\n3.5 Million people live around it.", "", "The lake is deep.\n3.5 Million"),
    ],
)
def test_the_title_of_a_paragraph_is_its_heading(text: str, heading: str, first: str) -> None:
    (block,) = read_texts(text)
    assert block.heading == heading
    assert block.text.startswith(first)


def test_each_numbered_clause_is_a_paragraph_below_the_title_of_its_section() -> None:
    term = "1. Term\n1.1 The lease begins on 1 May.\n1.2 It ends after a year."
    text = f"LEASE\n\n{term}\n\n2. Rent\n2.1 The rent is £300.\na) in cash\n2.2 It is due in May."
    assert [(block.kind, block.heading, block.text) for block in read_texts(text)] == [
        ("paragraph", "Term", "1.1 The lease begins on 1 May."),
        ("paragraph", "Term", "1.2 It ends after a year."),
        ("paragraph", "Rent", "2.1 The rent is £300."),
        ("item", "Rent", "in cash"),
        ("paragraph", "Rent", "2.2 It is due in May."),
    ]


def read_all(question: str, *texts: str) -> list[Candidate]:
    sources = [
        Source(index=number, title=f"diary {number}", url=f"doc:{number}.md", text=text, text_kind="document")
        for number, text in enumerate(texts, 1)
    ]
    return match_sources(read_question(question, "en"), sources)


@for_each(
    ("question", "diaries", "sentences"),
    [
        (
            "What happened in the garden on 12 March?",
            1,
            ["Rained all day.", "Sorted the seed packets.", "The wren came back in the evening."],
        ),
        ("diary entry for march 18th", 1, ["Shallots in, forty of them."]),
        ("What did the choir sing in church on 18 March?", 1, []),
        ("What happened in the garden on 13 March?", 1, []),
        ("What happened in the garden in March?", 1, []),
        ("What happened in the garden on 12 March?", 2, []),
    ],
)
def test_a_question_about_a_day_is_answered_by_its_entry(question: str, diaries: int, sentences: list[str]) -> None:
    """The second paragraph of an entry belongs to it. If two diaries have the day, it is uncertain which one is meant."""
    candidates = read_all(question, *[DIARY] * diaries)
    found = find_dated_entry(read_question(question, "en"), candidates)
    assert [one.sentence.text for one in found] == sentences


def test_entries_of_other_days_are_left_out() -> None:
    question = "What did the wren do on 12 March?"
    kept = remove_other_days(read_question(question, "en"), read_all(question, DIARY))
    assert {one.sentence.entry for one in kept} == {"Sun 12 March"}


def test_the_first_sentence_of_an_entry_is_shown_with_its_date() -> None:
    shown = [one.form.shown for one in read_all("When did the shallots go in?", DIARY)]
    assert shown[-1] == "Sat 18 March: Shallots in, forty of them."
    assert "The wren came back in the evening." not in shown


def test_a_text_keeps_the_entries_of_a_day_and_what_is_no_entry() -> None:
    text = f"{DIARY}\nMembership costs £46 a year.\n"
    kept = cut_other_days(read_question("What did the wren do on 12 March?", "en"), text, "diary")
    assert " ".join(kept.split()) == (
        "# Garden diary 2023 Sun 12 March. Rained all day. Sorted the seed packets. The wren came back in the evening. "
        "Membership costs £46 a year."
    )
    assert cut_other_days(read_question("What did the wren do?", "en"), text, "diary") == text
