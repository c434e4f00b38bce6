"""Where sentences end: names that hold a stop are whole, nothing is lost, and any text is cut in linear time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.text.sentences import iterate_sentences, split_sentences


def cut(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, language)]


@for_each(
    "sentence",
    [
        "The main task is cancelled by calling asyncio.Task.cancel() from there.",
        "It raises errors.CancelledError inside the task.",
        "When signal.SIGINT is raised by Ctrl-C, the handler runs.",
        "Set os.My_value first.",
        "Call module.Run() at the end.",
    ],
)
def test_a_stop_inside_a_name_ends_nothing(sentence: str) -> None:
    """A name with further stops, an underscore, brackets or capitals inside is not the end of a sentence."""
    assert cut(f"{sentence} Then it ends.") == [sentence, "Then it ends."]


def test_a_forgotten_blank_still_ends_a_sentence() -> None:
    """Without any mark of a name, the next capital letter begins a sentence."""
    assert cut("It is installed.The next one is not.") == ["It is installed.", "The next one is not."]


@for_each("word", ["www.éa.fr", "Да.нет", "Nein!über", "1?1??1?é", "a?”é"])
@for_each("language", ["en", "de", "fr"])
def test_no_sentence_begins_with_a_small_letter_behind_a_stop(word: str, language: str) -> None:
    """As `www.ea.fr` is one word, so is one with a small letter of another alphabet than English."""
    assert cut(f"It is {word} here. Then it ends.", language) == [f"It is {word} here.", "Then it ends."]


@for_each("text", ["中文。é is next.", "Да.Нет это."])
def test_a_wide_stop_and_a_capital_letter_need_no_blank(text: str) -> None:
    """What is written without blanks keeps its sentences."""
    assert len(cut(text)) == 2


def test_sentences_are_found_lazily() -> None:
    """The first one of a long text costs nothing of the rest, and all of them are the same."""
    short, text = "One sentence. " * 2000, "One sentence. " * 200_000
    assert next(iterate_sentences(text)) == (0, 13)
    assert is_linear(lambda: next(iterate_sentences(short)), lambda: next(iterate_sentences(text)), times=1)
    assert list(iterate_sentences(text[:5000])) == split_sentences(text[:5000])


@for_each("blank", ["\xa0", "\u2003", "\u3000", "\u2028"])
@for_each("language", ["en", "de", "ru", "zh"])
def test_a_wide_blank_before_a_stop_is_a_blank(blank: str, language: str) -> None:
    """The splitter fails on a wide blank after a single letter, and typographers use many of them."""
    plain = "It is vitamin S . Next comes B."
    assert split_sentences(plain.replace("S ", f"S{blank}"), language) == split_sentences(plain, language)


@given(st.text(alphabet=st.sampled_from("aZ_.( )\n!。é1\xa0\u2003"), max_size=200))
def test_spans_are_in_order_and_leave_out_blanks_only(text: str) -> None:
    """They never overlap, never begin or end with a blank, and hold every other character."""
    spans = split_sentences(text)
    assert all(start < end for start, end in spans)
    assert all(mine[1] <= theirs[0] for mine, theirs in itertools.pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


@for_each("sentence", ["The plant opens on 14 May.", "It was sold in May.", "It closes on 3 March."])
def test_a_month_is_no_abbreviation(sentence: str) -> None:
    """The splitter knows "May." as one."""
    assert cut(f"{sentence} Receipts are kept.") == [sentence, "Receipts are kept."]


@for_each(
    "sentence",
    [
        "Mitglied wird, wer das 18. Lebensjahr vollendet hat.",
        "In der 2. Etage ist die Küche.",
        "Im 19. Jahrhundert war es eine Mühle.",
        "Zur 3. Sitzung kam niemand.",
    ],
)
def test_a_german_ordinal_ends_no_sentence(sentence: str) -> None:
    """A number directly after an article is an ordinal."""
    assert cut(f"{sentence} Dann ist Schluss.", "de") == [sentence, "Dann ist Schluss."]
    assert cut("Das Kind ist 18. Danach zieht es aus.", "de") == ["Das Kind ist 18.", "Danach zieht es aus."]
    assert cut("Es gilt bis zum 5. Danach verfällt es.", "de") == ["Es gilt bis zum 5.", "Danach verfällt es."]
    assert cut("Das steht im 3.\n\nKapitel beginnen hier.", "de") == ["Das steht im 3.", "Kapitel beginnen hier."]


@for_each("language", ["en", "de", "fr", "sv"])
def test_a_german_date_is_not_divided_in_any_language(language: str) -> None:
    """An answer in English may quote a German sentence."""
    water = "Das Wasser wird am 5. April angestellt."
    assert cut(f"{water} Ruhe ist bis zum 30. Oktober.", language) == [
        water,
        "Ruhe ist bis zum 30. Oktober.",
    ]


@for_each("language", ["en", "de", "fr"])
def test_an_abbreviation_of_another_language_ends_no_sentence(language: str) -> None:
    """ "M. Garnier" was two sentences in French, too."""
    for sentence in (
        "Nous avons vu M. Garnier et MM. Roy.",
        "Siehe Nr. 5 bzw. Nr. 6.",
        "Es sind ca. 10.",
    ):
        assert cut(f"{sentence} Fin.", language) == [sentence, "Fin."]


def test_a_capital_letter_before_a_new_paragraph_ends_a_sentence() -> None:
    assert cut("Voici M.\n\nGarnier", "fr") == ["Voici M.", "Garnier"]
    assert cut("Das ist Nr. Fünf.", "de") == ["Das ist Nr. Fünf."]
    assert cut("Das ist die Nr. Fertig.", "fr") == ["Das ist die Nr.", "Fertig."]


@for_each("language", ["en", "de"])
def test_a_german_date_needs_no_word_before_it(language: str) -> None:
    assert cut("Dienstag, 15. Mai, 19 Uhr. Bitte pünktlich.", language) == [
        "Dienstag, 15. Mai, 19 Uhr.",
        "Bitte pünktlich.",
    ]


def test_a_number_before_an_english_month_ends_a_sentence() -> None:
    assert cut("See item 5. April is next.") == ["See item 5.", "April is next."]
