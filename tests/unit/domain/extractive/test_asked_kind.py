"""A quote without the number, the time or the reason that is asked for does not answer."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.asked_kind import lacks_asked_kind
from modules.llm_platform.domain.extractive.candidates import Candidate, match_sources
from modules.llm_platform.domain.extractive.question import Question, read_question

TABLE = "| Tenant | Deposit paid |\n|---|---|\n| Harbour Cafe | no |\n| Anna Lind | yes |\n"


def read(question: str, text: str, language: str) -> tuple[Question, list[Candidate]]:
    asked = read_question(question, language)
    source = Source(index=1, title="", url="https://a.example/", text=text)
    return asked, [one for one in match_sources(asked, [source]) if not one.sentence.is_announcement]


def is_rejected(question: str, text: str, language: str = "en") -> bool:
    return lacks_asked_kind(*read(question, text, language))


@for_each(
    ("question", "language", "answer", "other"),
    [
        ("How much are the oysters?", "en", "Oysters are £2 each.", "An oyster seller comes when the sun is out."),
        ("How many boats are there?", "en", "There are seven boats here.", "Boats are moored at the pier."),
        ("How much is the concert?", "en", "The concert is free of charge.", "The concert is in the hall."),
        ("Was kostet die Reinigung?", "de", "Die Reinigung ist kostenlos.", "Die Reinigung macht der Wirt."),
        ("Combien coûtent les huîtres ?", "fr", "Les huîtres sont à 9 euros.", "Le marchand vend des huîtres."),
        ("¿Cuánto cuesta el permiso?", "es", "El permiso cuesta 20 euros.", "El permiso se pide en el ayuntamiento."),
        ("How long may a guest stay?", "en", "A guest may stay until the weekend.", "A guest may stay in the hut."),
        ("When was the club founded?", "en", "The club was founded in May.", "The club was founded by teachers."),
        ("When can I move in?", "en", "You can move in once the roof is done.", "You can move in with a dog."),
        ("Wann ist das Fest?", "de", "Das Fest ist am Samstag.", "Das Fest ist auf dem Hof."),
    ],
)
def test_a_number_or_a_time_is_needed(question: str, language: str, answer: str, other: str) -> None:
    assert not is_rejected(question, answer, language)
    assert is_rejected(question, other, language)


def test_a_table_row_gives_no_reason() -> None:
    assert is_rejected("Why has Harbour Cafe not paid the deposit?", TABLE)
    assert not is_rejected("Has Harbour Cafe paid the deposit?", TABLE)
    assert not is_rejected("Why has Harbour Cafe not paid?", "Harbour Cafe has not paid, because the roof leaks.")


def test_one_of_several_quotes_is_enough() -> None:
    """The second quote may have the number."""
    question, both = read("How many members are there?", "The members met in the hall. There are 52 of them.", "en")
    assert lacks_asked_kind(question, both[:1])
    assert not lacks_asked_kind(question, both)


@for_each(
    ("question", "language", "text"),
    [
        ("Where do we meet when the alarm sounds?", "en", "When the alarm sounds, we meet behind the store."),
        ("Who has priority at a crossing?", "en", "Pedestrians always have priority at a crossing."),
        ("How many gates are there?", "en", "这里有三个门。"),
    ],
)
def test_other_questions_and_languages_are_not_rejected(question: str, language: str, text: str) -> None:
    """A "when" within the question asks for no time, a role answers "who", and Chinese number words are not known."""
    assert not is_rejected(question, text, language)


def test_nothing_is_not_rejected() -> None:
    assert not lacks_asked_kind(read_question("How many boats are there?", "en"), [])
