"""A question that names a document is answered by how the document begins."""

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.named_document import find_opening
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.selection import choose_by_words

TEXT = "Travel is booked by the office. Trains are taken in second class. Taxis need a reason. Hotels cost 120 euros at most."
SOURCES = (
    Source(
        index=1,
        title="Expenses",
        url="doc:expenses.md",
        text="Receipts are handed in within a month. Late ones are not paid.",
    ),
    Source(index=2, title="Travel rules", url="doc:travel.md", text=TEXT),
)


def find(question: str, language: str = "en") -> list[str]:
    read = read_question(question, language)
    return [found.sentence.text for found in find_opening(read, choose_by_words(read, SOURCES).candidates)]


@for_each(
    "question, language",
    [
        ("What does “Travel rules” say?", "en"),
        ('What does "travel rules" say?', "en"),
        ("Was steht in „Travel rules“?", "en"),  # the title makes the whole question look English
        ("Que dit « Travel rules » ?", "fr"),
        ("《Travel rules》讲了什么？", "zh"),
    ],
)
def test_the_first_sentences_of_the_named_document(question: str, language: str) -> None:
    assert find(question, language) == [f"{sentence}." for sentence in TEXT.split(". ")[:3]]


@for_each(
    "question",
    [
        "What does “Travel rules” say about taxis?",
        "Taxis in “Travel rules”?",
        "What does “Holiday rules” say?",
        "What do the travel rules say?",
        "When was “Travel rules” written?",
        "Where is “Travel rules”?",
        "“Travel rules”",
    ],
)
def test_any_other_question_is_chosen_by_its_words(question: str) -> None:
    """It asks for more or for something else, no document has the title, or no title is marked as one."""
    assert find(question) == []
