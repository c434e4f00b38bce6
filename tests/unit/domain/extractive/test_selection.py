"""The rules by which sentences are chosen, one at a time; whole answers are looked at in test_answers.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.conflicts import find_conflict, find_meanings
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.rendering import render_answer
from modules.llm_platform.domain.extractive.selection import (
    MAX_QUOTES,
    Quote,
    Selection,
    choose_by_words,
    select_quotes,
)
from modules.llm_platform.domain.text.messages import get_messages

TEXTS = st.lists(st.text(alphabet="abn .!?:\n-`#[]()1中。", max_size=150), max_size=4)


def sources(*texts: str, titles: tuple[str, ...] = ()) -> list[Source]:
    return [
        Source(index=number, title=titles[number - 1] if titles else "", url=f"https://example.org/{number}", text=text)
        for number, text in enumerate(texts, 1)
    ]


def chosen(question: str, *texts: str) -> list[str]:
    return [quote.sentence.text for quote in select_quotes(read_question(question, "en"), sources(*texts))]


def select(question: str, *texts: str, titles: tuple[str, ...] = ()) -> Selection:
    return choose_by_words(read_question(question, "en"), sources(*texts, titles=titles))


def quoted(question: str, *texts: str, titles: tuple[str, ...] = ()) -> list[Quote]:
    return select_quotes(read_question(question, "en"), sources(*texts, titles=titles))


ABOUT_BEES = (
    "Honey bees feed on nectar. The bees of a hive dry it with their wings. Honey is what keeps bees warm, as it feeds the "
    "cluster until spring. Worker bees seal the honey with wax."
)
ABOUT_OTHERS = (
    "The museum opened in May. A cafe serves soup and bread. Honey bees keep warm in a glass hive by the door. "
    "Tickets are sold online. Dogs stay outside. Trains run twice an hour."
)


def test_text_about_the_question_answers_with_less_of_its_words() -> None:
    """If the surrounding sentences are about the topic, the best sentence may lack a word of the question."""
    assert chosen("How do honey bees survive winter warm?", ABOUT_BEES)


def test_single_match_in_a_text_about_something_else_does_not_answer() -> None:
    """Where nothing around the best sentence is about the question, the sentence must have nearly all of it."""
    assert chosen("How do honey bees survive winter warm?", ABOUT_OTHERS) == []
    assert chosen("How do honey bees keep warm?", ABOUT_OTHERS)


def test_sentences_are_in_the_order_of_their_source() -> None:
    """Not the better one first: a text is read from its beginning."""
    assert chosen(
        "Which filters do pumps need?",
        "Old pumps need coarse filters. Rain fell. New pumps also need fine filters and a valve for the pressure.",
    ) == ["Old pumps need coarse filters.", "New pumps also need fine filters and a valve for the pressure."]


def test_answer_has_three_sentences_at_most() -> None:
    """However many fit, the answer stays short."""
    text = " ".join(
        f"Pumps of the {name} kind need filters against sand." for name in ("big", "old", "red", "wet", "new")
    )
    assert 0 < len(chosen("Which filters do pumps need?", text, text.replace("sand", "rust"))) <= MAX_QUOTES


def test_weaker_sentence_of_another_source_is_left_out() -> None:
    """Below three quarters of the top score it only pads."""
    assert chosen(
        "How often must filters of garden pumps be cleaned?",
        "Filters of garden pumps must be cleaned every week.",
        "Pumps are sold in many shops.",
    ) == ["Filters of garden pumps must be cleaned every week."]


def test_sentence_that_depends_on_an_unquotable_one_is_left_out() -> None:
    """`This` after a pointer has nothing to lean on. After a question it has the question, which is its lead."""
    assert chosen("Why do pumps rust?", "See section 5. This happens because pumps rust in salt water.") == []
    asked = chosen("Why do pumps rust?", "Do pumps rust? This happens because pumps rust in salt water.")
    assert asked == ["This happens because pumps rust in salt water."]


def test_announcement_without_its_list_is_left_out() -> None:
    """An announcement of something that is not quoted is_announcement nothing."""
    assert chosen("Which parts has a pump?", "A pump has these parts:\n\n## Next chapter\n\nOther text.") == []


def test_long_code_is_not_quoted() -> None:
    """The sentence that announces the code is not quoted either."""
    code = "\n".join(f"step_{number}()" for number in range(40))
    assert chosen("How do I start a pump?", f"Start the pump like this:\n\n```\n{code}\n```") == []


def test_repeated_statement_is_quoted_once() -> None:
    """The second source that says nearly the same adds nothing."""
    found = chosen(
        "How long do pumps run?",
        "Garden pumps run for ten years without a pause.",
        "Most garden pumps run for ten years without a pause.",
    )
    assert found == ["Garden pumps run for ten years without a pause."]


def test_sources_without_the_rare_word_do_not_answer() -> None:
    """A statement about another subject is not an answer."""
    assert (
        chosen("What does a zeppelin weigh?", "A pump weighs nine kilograms.", "A horse weighs more than a pump.") == []
    )


def test_source_without_the_name_is_off_subject() -> None:
    """Another product's instructions do not answer for this one."""
    found = quoted(
        "How do I clean the filter of Aquaflux?",
        "Aquaflux has a steel filter that you clean with a brush.",
        "Clean the filter of this pump with warm water every week.",
    )
    assert [quote.source.index for quote in found] == [1]


@given(TEXTS, st.text(alphabet="abn ?", min_size=1, max_size=40))
def test_quotes_are_words_of_their_source(texts: list[str], question: str) -> None:
    """For any sources, each quote names its own source, and no sentence is selected twice."""
    quotes = quoted(question, *texts)
    for quote in quotes:
        assert quote.source.text == texts[quote.source.index - 1]
        assert set(quote.sentence.text.split()[:1]) <= set(quote.source.text.replace("#", " ").split()) | {
            quote.sentence.text.split()[0]
        }
    assert len({id(quote.sentence) for quote in quotes}) == len(quotes)


@for_each(
    ("one", "other", "expected"),
    [
        ("The bridge is 120 metres long.", "The bridge is 135 metres long.", True),
        ("The bridge was opened in 1932.", "The bridge was opened in 1934.", True),
        ("The bridge is open for heavy trucks.", "The bridge is not open for heavy trucks.", True),
        ("The bridge carried 100 cars in 1950.", "The bridge carried 900 cars in 1990.", False),
        ("Bridge 2.1 supports heavy trucks now.", "Bridge 2.2 supports heavy trucks now.", False),
        ("The bridge is 120 metres long.", "The bridge is 120 metres long.", False),
        ("The bridge is 120 metres long.", "A boat passed below the bridge 3 times.", False),
        ("The bridge has 4 lanes.", "The bridge has lanes.", False),
    ],
)
def test_sources_conflict_where_the_same_statement_has_other_numbers_or_a_not(
    one: str, other: str, expected: bool
) -> None:
    """Two times, two versions and two statements are no conflict."""
    found = find_conflict(select("How is the bridge?", one, other).best)
    assert bool(found) is expected


def test_one_source_does_not_conflict_with_itself() -> None:
    """Two figures in one text are about two things."""
    text = "The bridge is 120 metres long. The bridge is 135 metres long."
    assert find_conflict(select("How long is the bridge?", text).best) is None
    assert find_conflict([]) is None


@for_each(
    ("question", "titles", "expected"),
    [
        ("What is a jaguar?", ("Jaguar (animal)", "Jaguar (car)"), ["Jaguar (animal)", "Jaguar (car)"]),
        ("What is a jaguar?", ("Jaguar, the animal", "Jaguar, a car"), ["Jaguar, the animal", "Jaguar, a car"]),
        ("What is a jaguar?", ("Jaguar (animal)", "Jaguar (animal) - Wiki"), None),
        ("What is a jaguar?", ("Jaguar (animal)", "Jaguar"), None),
        ("Where does the jaguar sleep at night in winter?", ("Jaguar (animal)", "Jaguar (car)"), None),
        ("How do I?", ("Jaguar (animal)", "Jaguar (car)"), None),
    ],
)
def test_meanings_are_detected_in_titles(question: str, titles: tuple[str, ...], expected: list[str] | None) -> None:
    """A short question has two meanings if its only word names two kinds of things."""
    selection = select(
        question, "A jaguar is a big cat of the woods.", "A jaguar is a fast British car.", titles=titles
    )
    found = find_meanings(read_question(question, "en"), selection.best)
    assert (found and [meaning.title for meaning in found.meanings]) == expected


def test_token_limit_is_respected() -> None:
    """Later passages are left out, and the first passage is never cut."""
    question = read_question("How do pumps work, and how do filters work?", "en")
    selection = choose_by_words(
        question,
        sources("Pumps work by pressing water through a pipe.", "Filters work by keeping sand out of the water."),
    )
    whole = render_answer(selection, get_messages("en"), 2048)
    short = render_answer(selection, get_messages("en"), 5)
    assert whole.count("[") == 2
    assert short.count("[") == 1
    assert whole.startswith(short)


@for_each(
    ("text", "shown"),
    [
        ("Pumps press water!", "Pumps press water [1]!"),
        ('Bob said "pumps press water."', 'Bob said "pumps press water." [1]'),
        ("Pumps press water into a ...", "Pumps press water into a ... [1]"),
        ("- Pumps press water\n- Pumps press much air", "- Pumps press water [1]\n- Pumps press much air [1]"),
        ("Pumps press this:\n\n```\nwater\n```", "Pumps press this [1]:\n\n```\nwater\n```"),
        ("Pumps press this:\n\n~~~\n```\nwater\n~~~", "Pumps press this [1]:\n\n````\n```\nwater\n````"),
    ],
)
def test_markers_are_before_the_full_stop(text: str, shown: str) -> None:
    """The full stop follows the marker. Code keeps a fence that it contains."""
    question = read_question("What do pumps press?", "en")
    assert render_answer(choose_by_words(question, sources(text)), get_messages("en"), 2048) == shown


TABLE = "# Exit codes\n\nThe saw ends with one.\n\n| Code | When |\n|---|---|\n| 0 | all is cut |\n| 3 | the motor is hot |\n"
SAW = """# Saw

This is a tool that cuts wood.

## Installation

```shell
pip install saw
```

This installs the blade, too.

## Colours

- light red
- dark blue

A saw needs:

- a blade of steel
- a strong motor

Sharpen the blade with a file.

```shell
saw sharpen
```
"""


def answer_to(question: str, text: str, title: str = "Saw") -> str:
    asked = read_question(question, "en")
    return render_answer(choose_by_words(asked, sources(text, titles=(title,))), get_messages("en"), 2048)


def test_one_row_answers_a_question_about_one_thing() -> None:
    """With the names of its columns, and without the other rows."""
    assert "| Code | When |\n| --- | --- |\n| 3 | the motor is hot [1] |" in answer_to("When is the motor hot?", TABLE)


def test_small_table_is_quoted_as_a_whole() -> None:
    """Below its heading, each row with a marker, and no row twice."""
    assert answer_to("Which exit codes are there?", TABLE) == (
        "Exit codes [1]:\n\n| Code | When |\n| --- | --- |\n| 0 | all is cut [1] |\n| 3 | the motor is hot [1] |"
    )


def test_code_below_a_heading_answers_how() -> None:
    """No sentence announces the code. A sentence that refers to it with `This` follows it."""
    assert answer_to("How do I install the saw?", SAW).startswith("Installation [1]:\n\n```shell\npip install saw\n```")


def test_sentence_about_the_code_above_comes_with_that_code() -> None:
    """`This installs …` refers to the command."""
    assert "```shell\npip install saw\n```\n\nThis installs the blade, too [1]." in answer_to(
        "What installs the blade?", SAW
    )


def test_code_below_a_sentence_is_quoted_when_asked_how() -> None:
    """Where the question asks how; the sentence needs no colon."""
    assert "Sharpen the blade with a file [1].\n\n```shell\nsaw sharpen\n```" in answer_to(
        "How do I sharpen a blade?", SAW
    )
    assert "```" not in answer_to("What sharpens a blade?", SAW)


def test_list_item_is_quoted_with_its_introduction() -> None:
    """One item follows its introduction on the line, and several items are below it.

    A fragment without introduction gets its heading.
    """
    assert "A saw needs: a strong motor [1]" in answer_to("Which strong motor?", SAW)
    assert "Colours [1]:\n\n- light red [1]\n- dark blue [1]" in answer_to("Is it light red or dark blue?", SAW)


def test_repeated_code_is_quoted_once() -> None:
    """Two sources that show the same code under a heading."""
    asked = read_question("How do I install the saw?", "en")
    code = "## Installation\n\n```\npip install saw\n```\n"
    assert len(select_quotes(asked, sources(code, code.replace("Installation", "Install")))) == 1


def test_each_part_of_a_question_finds_its_own_kind_of_answer() -> None:
    """Code for the `how`, a row for the `when`, each from the source that has it."""
    asked = read_question("How do I install the saw, and when is the motor hot?", "en")
    written = render_answer(
        choose_by_words(asked, sources(TABLE, SAW, titles=("Codes", "Saw"))), get_messages("en"), 2048
    )
    assert "Installation [2]:\n\n```shell\npip install saw\n```" in written
    assert "| 3 | the motor is hot [1] |" in written


def test_a_source_about_the_name_goes_before_one_that_mentions_it() -> None:
    """Another tool's page that names ours once does not answer for ours."""
    other = "The default speed of a drill is 900 turns. A drill can be used with saw9."
    ours = "The default speed is 40 turns."
    quotes = quoted("What is the default speed of saw9?", other, ours, titles=("Drill", "saw9"))
    assert quotes[0].source.index == 2


MANUAL = """## Options

-m <msg>
--message=<msg>
: Use the given text as the commit message. Several are put together.

-c <commit>
: Take the message from a commit. Added the author in version 2.

How do I choose an editor?
: Set the variable, and the commit message is opened there.
"""


def test_definition_is_quoted_with_its_term() -> None:
    """An option is code, a question of a FAQ is not a term, and the next sentence belongs to the first."""
    assert answer_to("What does the -m option do?", MANUAL) == (
        "`-m <msg>`, `--message=<msg>`: Use the given text as the commit message [1]. Several are put together [1]."
    )
    assert "How do I" not in answer_to("Which variable opens the commit message?", MANUAL)


OPTIONS_OF_A_SHELL = (
    "# Options\n\ndirspell\n: If set, the spelling of folders is corrected while words are completed.\n\n"
    "globstar\n: If set, the pattern ** matches all files and zero or more folders.\n\n"
    "histappend\n: If set, the history is appended to the file, rather than overwriting it."
)


def test_the_entry_of_what_is_asked_answers() -> None:
    """A term that is a plain word of the question explains it, though nothing around the entry is about the question."""
    found = quoted("What does the shell option globstar do?", OPTIONS_OF_A_SHELL)
    assert [quote.sentence.term for quote in found] == ["globstar"]
    assert not chosen("What does the shell option nullglob do?", OPTIONS_OF_A_SHELL)


SETTING_OF_A_TABLE = "scale_factor\n: The value of scale_factor for a table.\n"
SETTING_TEXT = ("Specifies by its value which fraction is added.", "It is 0.2 by default, for large tables as well.")
SETTING = f"scale_factor\n: {' '.join(SETTING_TEXT)}\n"


def test_each_entry_that_is_quoted_goes_on() -> None:
    """A second entry says more in its next sentence, as the first does."""
    quotes = chosen("What is the value of scale_factor?", SETTING_OF_A_TABLE, SETTING)
    assert quotes == ["The value of scale_factor for a table.", *SETTING_TEXT]


@for_each(
    ("question", "text"),
    [
        ("What does ${parameter:-word} expand to?", "${parameter:−word} is what expands to the word if it is unset."),
        ("What does a leading ! mean in a pattern?", 'A leading "`!`" in a pattern means that it is negated.'),
    ],
)
def test_a_sign_is_recognized_as_documents_write_it(question: str, text: str) -> None:
    """With the minus sign that a PDF has instead of a hyphen, or between quotes and backticks."""
    assert chosen(question, text)


def test_option_that_no_source_has_is_not_answered() -> None:
    """The other statements about commit messages would answer a question about another option."""
    assert answer_to("What does the -x option do to the commit message?", MANUAL) == ""
    assert answer_to("What does COMMIT_MESSAGE_COLOR do to the commit message?", MANUAL) == ""


def test_passage_cut_inside_of_code_is_parsed() -> None:
    """Its first fence closes code, so without this rule text and code would be swapped."""
    text = "saw.start()\n```\n\nThe saw starts with a lever.\n\n```\nsaw.stop()\n```\n\nIt stops."
    assert answer_to("With what does the saw start?", text) == "The saw starts with a lever [1]."
