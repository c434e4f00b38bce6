"""A source is searched through an index of its words: it must find what reading each sentence finds, and quickly."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear, seconds

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.alignment import SourceText, prepare_source
from modules.llm_platform.domain.citations.read.claims import TextFacts
from modules.llm_platform.domain.citations.read.words import WORD, is_unspaced
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.text.stemming import is_form
from modules.llm_platform.domain.text.tokens import fold, normalize, normalize_each

NO_WORD = re.compile(r"[\W_]+")
PARTS = re.compile(r"[^\W_]+")


def keys_of(sentence: str) -> set[str]:
    """Return the words of a sentence by the long way."""
    keys: set[str] = set()
    for word in WORD.findall(fold(sentence)):
        if is_unspaced(word):
            keys |= {word[i : i + 2] for i in range(max(1, len(word) - 1))}
        else:
            keys |= {word.removesuffix("()"), *(PARTS.findall(word) if not word.isalnum() else ())}
    return keys


def sentences(source: SourceText) -> list[str]:
    return [source.text[start:end] for start, end in source.spans]


@for_each(
    "text",
    [
        'She said: "run()" (and `asyncio.run_in_executor()`), [twice]. It\'s **bold**; C++ and C# are languages, e.g. 3.5!',
        "Das Müllauto fährt um 10:30. Straße, STRASSE und ﬁnal.",
        "编程语言 Python编程 很好。价格是100元。",
        "Ab.ab,ab;ab:ab!ab? _private __init__ a-b a_b x/y",
        "word¨word K ſ ﷺ ½ ² naïve café",
    ],
)
def test_every_word_is_found_where_it_stands(text: str) -> None:
    """For each word the index returns the sentences that contain it or a form of it."""
    source = prepare_source(text, "", "en")
    held = [keys_of(sentence) for sentence in sentences(source)]
    for word in set().union(*held):
        wanted = [
            position for position, keys in enumerate(held) if word in keys or any(is_form(word, key) for key in keys)
        ]
        found = source.find_sentences(word)
        assert all(found >> position & 1 for position in wanted), word


@given(st.text(max_size=120))
def test_any_text_can_be_indexed(text: str) -> None:
    """Words of any script with any punctuation are found in their sentences."""
    source = prepare_source(text, "", "en")
    for position, sentence in enumerate(sentences(source)):
        for word in keys_of(sentence):
            assert source.find_sentences(word) >> position & 1


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=80))
def test_plain_text_is_normalized_like_any_other(text: str) -> None:
    """The fast path for ASCII gives the same result as the general path."""
    assert normalize(text) == f" {NO_WORD.sub(' ', fold(text)).strip()} "


@given(
    st.lists(
        st.text(alphabet=st.sampled_from("aB9 .|-é\0"), max_size=12).filter(lambda text: any(map(str.isalnum, text)))
    )
)
def test_sentences_are_normalized_together_as_one_by_one(texts: list[str]) -> None:
    """One go over all gives what each gives, with a bar between two, whatever signs they hold."""
    assert normalize_each(texts) == "|".join(map(normalize, texts)) or not texts


NUMERAL_WORDS = "two Two's twenty-five 25 2 million three. half zwei, drei п'ять deux/trois is of _four_ 3.5five"
NUMERALS = st.sampled_from(NUMERAL_WORDS.split())


@given(st.lists(NUMERALS, max_size=12).map(" ".join))
def test_numbers_of_a_sentence_are_those_of_its_text(text: str) -> None:
    """Sources without number words are not searched for them sentence by sentence."""
    source = prepare_source(text, "", "en")
    for span in source.spans:
        assert source.read_facts(span).values == TextFacts(text[slice(*span)], frozenset()).values


def test_one_word_in_many_spellings_takes_linear_time() -> None:
    """A page that repeats a word with ever other signs around it costs no more than its length."""
    small, large = (" ".join(f"a.{'!' * (n % 50)}?{n}" for n in range(count)) for count in (2_000, 20_000))
    assert is_linear(lambda: prepare_source(small, "", "en"), lambda: prepare_source(large, "", "en"), 10)


def five_pages(sentences: int) -> list[Source]:
    """So many sentences on each, which differ in their numbers only."""
    return [
        Source(
            index=page,
            title="",
            url=f"https://a.example/{page}",
            text=" ".join(
                f"Valve {n} of machine {page} was opened by crew {n % 7} on day {n}." for n in range(sentences)
            ),
        )
        for page in range(1, 6)
    ]


def answer_of(claims: int) -> str:
    """Each claim about another sentence of one of the five pages."""
    positions = ((n, n % 5 + 1, n % 7) for n in range(claims))
    return " ".join(f"Valve {n} of machine {m} was opened by crew {crew} on day {n} [{m}]." for n, m, crew in positions)


def test_time_grows_with_the_pages_and_with_the_answer() -> None:
    """Ten times as long pages, or ten times as many claims, cost ten times the time, not a hundred times."""
    small, large, few, many = five_pages(60), five_pages(600), answer_of(6), answer_of(60)
    assert {citation.verdict for citation in CitationChecker(large, "en").check(many).citations} == {"supported"}
    assert is_linear(
        lambda: CitationChecker(small, "en").check(many), lambda: CitationChecker(large, "en").check(many), 10
    )
    assert is_linear(
        lambda: CitationChecker(small, "en").check(few), lambda: CitationChecker(small, "en").check(many), 10
    )


@for_each(
    ("acronym", "text", "is_spelled"),
    [
        ("WHO", "The World Health Organization said so.", True),
        ("NASA", "the National Aeronautics and Space Administration", True),
        ("DOD", "the Department of Defense", True),
        ("WHO", "The World, Health (Organization)", True),
        ("WHO", "The World Bank and the Health Organization", False),
        ("WHO", "World h Organization", False),
        ("W-O", "World - Organization", False),
    ],
)
def test_an_acronym_is_known_where_it_is_spelled_out(acronym: str, text: str, is_spelled: bool) -> None:
    """Adjacent words begin with its letters; words such as "of" may count or not."""
    assert prepare_source(text, "", "en").knows(acronym.lower(), acronym) is is_spelled


def test_many_acronyms_take_time_in_proportion_to_their_number() -> None:
    """The initials of a source are read once: 200 kB were searched once for each acronym, which took seconds."""
    source = prepare_source("the quick brown fox jumps over lazy dogs. " * 4700, "", "en")
    source.knows("xyz", "XYZ")
    words = [f"{first}{second}QZ" for first in "ABCDEFGHIJ" for second in "ABCDEFGHIJ"]
    once = seconds(lambda: prepare_source(source.text, "", "en").knows("xyz", "XYZ"))
    assert seconds(lambda: [source.knows(word.lower(), word) for word in words]) < len(words) * once / 10
