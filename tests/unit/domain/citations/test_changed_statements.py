"""Changes that reverse a sentence with nearly all words of its source, and changes that only look like it."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.alignment import prepare_source
from modules.llm_platform.domain.citations.compare.verdicts import is_verbatim
from modules.llm_platform.domain.citations.read.claims import Claim
from modules.llm_platform.domain.dtos.source_dtos import Source


def verdict(sentence: str, text: str, *, title: str = "", language: str = "en") -> str:
    sources = [Source(index=1, title=title, url="https://example.org/", text=text)]
    return CitationChecker(sources, language).check(f"{sentence} [1]").citations[0].verdict


GATE = "The gate was painted by Ole Hansen in 1931. The old gate, a gift of the town, lacks a lock."


@for_each(
    ("sentence", "text"),
    [
        (
            "The train leaves Oslo at noon and reaches Bergen late.",
            "The train leaves Bergen at noon and reaches Oslo late.",
        ),
        ("Pass `random=False` to turn off the random part.", "Pass `jitter=False` to turn off the random part."),
        ("The pump is made by the firm of Keller.", "The pump is made by the firm of Strabag, not far from here."),
        ("The lock was forced.", "There is no evidence that the lock was forced."),
        ("The pump is not made by Keller.", "The pump is usually made by Keller."),
        ("Ole Hansen opened the meeting.", "Ina Berg opened the meeting that Ole Hansen left."),
        ("It was sold to Ina Berg.", "Ina Berg came from Oslo, and it was sold to Ole Hansen."),
        ("Call `open(wait=False)` to return at once.", "Call `open(block=False)` to return at once and wait later."),
        ("The pump lost half of its pressure.", "The pump lost a third of its pressure within ten days."),
        (
            "The guard opens the gate if the bell does not ring.",
            "The guard never opens the gate. The bell does not ring.",
        ),
    ],
)
def test_a_contradicted_statement_is_unsupported(sentence: str, text: str) -> None:
    """The source says otherwise about the same names, about a preference, a doubt, or another person."""
    assert verdict(sentence, text) == "unsupported"


@for_each(
    ("sentence", "text"),
    [
        ("The gate was painted in 1931 by Ole Hansen.", GATE),
        ("In 1931 Ole Hansen painted the gate.", GATE),
        ("The gate was opened on 3 March 2021 in Oslo.", "The gate was opened in Oslo on March 3, 2021."),
        ("The gate was opened on 2021-03-03.", "The gate was opened on 3 March 2021."),
        ("The train leaves Oslo at 7:18 pm.", "The train leaves Oslo at 19:18."),
        ("The doors are made of oak.", "The doors are made of oak rather than pine."),
        ("On Windows, the lock raises LockError.", "The lock waits on Linux but raises LockError on Windows."),
        ("For members, entry is unlimited.", "For members, there is no limit to the entry."),
        ("Call `_open` of the *gate*.", "Call `_open` of the gate."),
        ("It returns a BLAKE2s object.", "A BLAKE2s object is returned by it."),
        ("The gate, built with steel rather than iron, is new.", "The new gate was built with steel instead of iron."),
        ("The fort has twelve gates.", "The fort has 12 gates."),
        ("The bell rang 14 times in the night.", "The bell rang fourteen times in the night."),
        ("Die Burg hat zwölf Tore.", "Die Burg hat 12 Tore."),
        ("The fort has 21 rooms.", "The fort has twenty-one rooms."),
        ("The pumps cost two million euros.", "The pumps cost 2,000,000 euros."),
        ("The pump lost half of its pressure.", "The pump lost 50 % of its pressure."),
        ("The pump lost half of its pressure.", "The pump lost 50 percent of its pressure."),
        ("The pump lost 50 percent of its pressure.", "The pump lost half of its pressure."),
        ("A quarter of the bridges were closed in 2019.", "25 percent of the bridges were closed in 2019."),
        ("Twelve percent of the bridges were closed in 2019.", "12% of the bridges were closed in 2019."),
        ("The fort was built in the nineteenth century.", "The fort was built in the 19th century."),
    ],
)
def test_another_wording_is_supported(sentence: str, text: str) -> None:
    """Dates, hours, shares, numbers, passives and prepositional phrases may be written another way."""
    assert verdict(sentence, text) == "supported"


@for_each(
    ("sentence", "text"),
    [
        ("The bell rang fourteen times in the night.", "The bell rang 15 times in the night."),
        ("The fort has twenty-one rooms.", "The fort has 20 rooms."),
        ("The fort has 20 rooms.", "The fort has twenty-one rooms."),
        ("The fort has 240 rooms.", "The fort has two hundred and fifty rooms."),
    ],
)
def test_another_number_in_words_or_figures_is_another_number(sentence: str, text: str) -> None:
    """A word of a longer number is no number by itself."""
    assert verdict(sentence, text) == "unsupported"


def test_another_date_in_figures_is_another_date() -> None:
    """The month of `2021-03-03` is compared with the month that the source names."""
    assert verdict("The gate was opened on 2021-05-03.", "The gate was opened on 3 March 2021.") == "unsupported"


def test_a_copy_without_the_final_negation_is_unsupported() -> None:
    """German negates at the end of a clause, so a copy without its end says the opposite."""
    text = "Wird die Datei geändert, merkt das Programm das nicht."
    assert verdict("Wird die Datei geändert, merkt das Programm das.", text, language="de") == "unsupported"
    assert verdict(text, text, language="de") == "supported"


def test_japanese_negation_is_compared() -> None:
    """A particle before the verb changes nothing."""
    assert verdict("歩行者も通行できる。", "歩行者は通行できない。", language="ja") == "unsupported"
    assert verdict("自動運転機能はない。", "自動運転機能は搭載していない。", language="ja") != "unsupported"


@for_each(
    ("sentence", "text", "title"),
    [
        ("Saw: This is a tool that cuts wood.", "This is a tool that cuts wood.", "Saw"),
        (
            "A saw needs: not more than one strong motor.",
            "A saw needs:\n\n- a blade\n- not more than one strong motor\n",
            "",
        ),
        (
            "Saws replace axes, knives (of any kind) and much more besides, all in one tool.",
            "Saws replace [axes](https://example.org/axes), [knives](https://example.org/k(1)) (of any kind)\nand much "
            "more besides,\nall in one [tool](https://example.org/a/long/address/of/a/tool).",
            "",
        ),
    ],
)
def test_a_quote_below_its_title_is_a_copy(sentence: str, text: str, title: str) -> None:
    """A title or an introduction before it, addresses of links left out of it, over the lines of the source."""
    assert verdict(sentence, text, title=title) == "supported"


def test_a_lead_in_from_elsewhere_makes_no_copy() -> None:
    """The text before the colon must also be in the source."""
    source = prepare_source("This is a tool that cuts wood.", "Saw", "en")
    claims = [
        Claim(f"{lead}: This is a tool that cuts wood.", frozenset(), capitals_name=True) for lead in ("Saw", "Drill")
    ]
    assert [is_verbatim(claim, source) for claim in claims] == [True, False]


@for_each(
    ("sentence", "text", "expected"),
    [
        ("大桥位于南京市。", "大桥位于武汉市。", "unsupported"),
        (
            "The ferry, which uses sea-water cooling, is new.",
            "The ferry, which uses fresh air cooling, is new.",
            "unsupported",
        ),
        ("Inhaled menthol reduces pain.", "Inhaled steam reduces pain.", "unsupported"),
        ("There are three ways to open it.", "There are two ways to open it.", "unsupported"),
        ("La barrière s'ouvre sous Linux.", "La barrière attend sous Windows mais s'ouvre sous Linux.", "supported"),
    ],
)
def test_replaced_names_terms_and_counts(sentence: str, text: str, expected: str) -> None:
    """A different name, term, object or count at the same place is a change."""
    language = "zh" if sentence[0] > "\u3000" else "fr" if sentence.startswith("La ") else "en"
    assert verdict(sentence, text, language=language) == expected
