"""Facts of a sentence compared with a whole page, which contains nearly every figure and name somewhere."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source

HARBOUR = """
Acme built its mill in Skagen in 1911. The mill grinds oats and employs 64 people. A second floor was added in May 1926.

The lighthouse is older. It was lit in March 1868 and stands 31 metres above the sea. Its keeper was called Ole Hansen.

Ina Berg has been mayor since 2004. She came from Oslo. The council has 19 seats.

Tolvar runs the ferry. It carries 26 cars and needs 40 minutes. Rates fell by 71 percent after the bridge was opened.

The tunnel took nine years. Of its cost the state paid 68 percent. The rest was borrowed by Tolvar in Bergen.

`wait_time` closes the gate. The default is 75 seconds. `lock_time` opens it again. The default is 30 seconds.
"""
GERMAN = """
Die Mühle in Husum steht seit 1911. Der Müller war Ole Hansen. Die Mühle mahlt Hafer. Der Wind kommt aus Westen.

Bürgermeisterin ist seit 2004 Ina Berg. Sie kam von der Werft in Kiel. Die Werft hat 64 Leute. Das Wasser ist tief.

Der Hafen wurde im Mai 1926 erweitert. Die Fähre braucht 40 Minuten. Die Fahrt kostet zwei Euro.
"""
MAX_SECONDS = 30.0  # limit for a page of 200 kB and a sentence with many facts; quadratic time takes minutes


def verdict(sentence: str, text: str = HARBOUR, language: str = "en") -> str:
    sources = [Source(index=1, title="", url="https://example.org/", text=text)]
    return CitationChecker(sources, language).check(f"{sentence} [1]").citations[0].verdict


@for_each(
    "sentence",
    [
        "Of its cost the state paid 71 percent.",
        "The mill of Acme grinds oats and employs 26 people.",
        "Acme built its mill in Skagen in 1868.",
        "The lighthouse was lit in May 1868.",
        "The default of `wait_time` is 30 seconds.",
    ],
)
def test_a_number_from_elsewhere_on_the_page_is_unsupported(sentence: str) -> None:
    """The page has the figure, but gives another figure of the same kind for the subject."""
    assert verdict(sentence) == "unsupported"


@for_each(
    "sentence",
    [
        "Tolvar built its mill in Skagen in 1911.",
        "The keeper of the lighthouse was called Ina Berg.",
        "Acme runs the ferry, which carries 26 cars.",
        "`lock_time` closes the gate.",
        "Ole Hansen has been mayor since 2004.",
        "The rest was borrowed by Acme in Bergen.",
    ],
)
def test_a_name_from_elsewhere_on_the_page_is_not_supported(sentence: str) -> None:
    """The page has the name, but attributes the statement to somebody else."""
    assert verdict(sentence) != "supported"


@for_each(
    "sentence",
    [
        "In 1911 Acme built its mill in Skagen.",
        "Acme's mill employs 64 people.",
        "The mill of Acme in Skagen grinds oats and employs 64 people.",
        "The state paid 68 percent of its cost.",
        "Ina Berg, who has been mayor since 2004, came from Oslo.",
        "Tolvar's ferry carries 26 cars.",
        "The default of `wait_time` is 75 seconds.",
    ],
)
def test_facts_near_their_clause_are_supported(sentence: str) -> None:
    """Told in other words, or taken from neighbouring sentences."""
    assert verdict(sentence) == "supported"


@pytest.mark.parametrize(
    "sentence",
    [
        "Acme built its mill in 1911, and the lighthouse was lit in March 1868.",
        "The mill was built in 1911 and Ina Berg has been mayor since 2004.",
    ],
)
def test_true_facts_from_distant_parts_are_not_refuted(sentence: str) -> None:
    """Each fact has its own clause. At worst one clause is not found near the other."""
    assert verdict(sentence) != "unsupported"


@for_each(
    ("sentence", "expected"),
    [
        ("Bürgermeisterin ist seit 2004 Ole Hansen.", "unsupported"),
        ("Die Mühle in Kiel steht seit 1911.", "unsupported"),
        ("Der Hafen wurde im Mai 1926 erweitert, die Fahrt mit der Fähre kostet zwei Euro.", "supported"),
        ("Die Mühle steht seit 1911 in Husum.", "supported"),
    ],
)
def test_german_nouns_are_no_names(sentence: str, expected: str) -> None:
    """In German every noun is capitalised, so only a word that never follows an article counts as a name."""
    assert verdict(sentence, GERMAN, "de") == expected


def test_in_a_short_text_everything_is_near() -> None:
    """Two lines of a search engine speak of one matter: there a figure of the next sentence counts."""
    text = "The tower is old. Sales were 5 million in 2022. A year later they had grown to 7 million."
    assert verdict("Sales had grown to 7 million in a year.", text) == "supported"


FILLER = st.sampled_from(
    [
        "In another town 71 percent of all roofs are red.",
        "It rained on 26 days.",
        "Tolvar sells rope.",
        "A ship of 1868 lies in the mud.",
        "Prices rose by 71 percent.",
    ]
)


@given(st.lists(FILLER, max_size=12))
def test_more_text_elsewhere_does_not_support_a_wrong_fact(filler: list[str]) -> None:
    """Repetition of the wrong figure and name elsewhere on the page has no effect."""
    page = HARBOUR + "\n\n".join(filler)
    assert verdict("Of its cost the state paid 71 percent.", page) == "unsupported"
    assert verdict("Tolvar built its mill in Skagen in 1911.", page) == "unsupported"
    assert verdict("Acme built its mill in Skagen in 1911.", page) == "supported"


def test_a_page_full_of_the_same_facts_takes_linear_time() -> None:
    """The facts are compared in few sentences, and each name is looked for once in the text."""
    page = "Acme sold 5 boats to Tolvar in May 1999. " * 4800
    sentence = ", and ".join(f"Tolvar sold {number} boats to Acme in June {1900 + number}" for number in range(30))
    start = time.process_time()
    assert verdict(sentence, page) == "unsupported"
    assert time.process_time() - start < MAX_SECONDS
