"""How many independent sources support each side of a disagreement."""

from collections.abc import Sequence

import pytest

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.evidence.ledger import LedgerBuilder
from modules.llm_platform.domain.evidence.lines import list_evidence_lines
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.domain.text.messages import get_messages

QUESTION = "How long is the Meridian bridge?"
LONG = "The Meridian bridge is 512 metres long in total."
SHORT = "The Meridian bridge is 480 metres long in total."
COPY = (
    "The crossing at Lunde opened on a cold morning before a crowd of local people. "
    f"{SHORT} It took nine years and two contractors to finish the work."
)
OTHER_WORDS = (
    "Walkers like the view. According to the county survey, the Meridian bridge measures 480 metres from end to end."
)


def sources_of(*texts: str, published: Sequence[str | None] = ()) -> list[Source]:
    dates = [*published, *[None] * len(texts)]
    return [
        Source(
            index=number,
            title=f"Source {number}",
            url=f"https://{number}.example/",
            text=text,
            published=dates[number - 1],
        )
        for number, text in enumerate(texts, 1)
    ]


def quotes_of(*sources: Source, question: str = QUESTION) -> dict[str, EvidenceQuote]:
    """Return the disputed quotes by their texts."""
    row = LedgerBuilder([question], "en").build_rows(sources, {})[0].row
    return {quote.text: quote for quote in row.quotes if quote.voices is not None}


@pytest.mark.parametrize(
    ("texts", "short", "long"),
    [
        ((SHORT, LONG), 1, 1),
        ((SHORT, LONG, OTHER_WORDS), 2, 1),
        ((COPY, LONG, f"Reprinted. {COPY}", COPY.replace("a cold", "one cold")), 1, 1),
        ((COPY, LONG, COPY, OTHER_WORDS), 2, 1),
        ((SHORT, LONG, "The Meridian bridge is closed. A ticket costs 480 crowns in total."), 1, 1),
        ((SHORT, LONG, "The Meridian bridge is 480 metres long, and not 512 metres long as signs say."), 1, 1),
    ],
)
def test_sources_that_say_the_same_are_voices_and_copies_are_one(texts: tuple[str, ...], short: int, long: int) -> None:
    """A source counts for the side whose figure it has and not the other's, in whatever words; copies count once."""
    quotes = quotes_of(*sources_of(*texts))
    assert (quotes[SHORT].voices, quotes[LONG].voices) == (short, long)


def test_a_denial_has_the_voices_that_deny() -> None:
    """Where one side denies the other, the sources divide by that."""
    said = "The Meridian bridge carries heavy freight trains."
    denied = "The Meridian bridge never carries heavy freight trains."
    again = f"{said} A timetable hangs at the station and lists all of them."
    quotes = quotes_of(
        *sources_of(said, denied, again), question="Does the Meridian bridge carry heavy freight trains?"
    )
    assert {quote.text: quote.voices for quote in quotes.values()} == {said: 1, denied: 1}


def test_a_quote_has_the_date_of_its_source_and_only_a_disputed_one_has_voices() -> None:
    """In the row and in the lines of the ledger."""
    sources = sources_of(SHORT, LONG, OTHER_WORDS, published=("2024-05-01T08:00:00Z",))
    row = LedgerBuilder([QUESTION], "en").build_rows(sources, {})[0].row
    first, second = list_evidence_lines([row], sources)[:2]
    assert first.source is not None
    assert second.source is not None
    assert (first.quote, first.voices, first.source.published) == (SHORT, 2, "2024-05-01T08:00:00Z")
    assert (second.quote, second.voices, second.source.published) == (LONG, 1, None)
    answered = LedgerBuilder([QUESTION], "en").build_rows(sources_of(SHORT, published=("2024-05-01",)), {})[0].row
    assert [(quote.published, quote.voices) for quote in answered.quotes] == [("2024-05-01", None)]


@pytest.mark.parametrize("questions", [(), (QUESTION,)])
async def test_an_answer_without_a_model_shows_both_sides_with_dates_and_voices(questions: tuple[str, ...]) -> None:
    """The notes are sentences of the platform and need no source."""
    sources = tuple(sources_of(SHORT, LONG, OTHER_WORDS, published=("2024-05-01T08:00:00Z", "last week")))
    request = SynthesisRequest(question=QUESTION, sources=sources, language="en", questions=questions)
    text = (await ExtractiveSynthesizer().synthesize(request)).text
    assert f"- {SHORT[:-1]} [1]. (2024-05-01; independent sources: 2)\n" in text
    assert f"- {LONG[:-1]} [2]. (independent sources: 1)" in text
    checked = CitationChecker(sources, "en").check(text)
    assert not checked.uncited
    assert {citation.verdict for citation in checked.citations} == {"supported"}


@pytest.mark.parametrize(
    "language", ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "zh", "ja", "ko", "ar", "he"]
)
def test_a_note_is_recognised_in_every_language(language: str) -> None:
    """A sentence with other words is not a note."""
    messages = get_messages(language)
    for published in (None, "2024-05", "2024-05-01T08:00:00Z"):
        assert messages.is_disputed_quote_note(messages.format_disputed_quote_note(published, 12))
    assert not messages.is_disputed_quote_note(messages.format_disputed_quote_note(None, 12).replace("12", "many"))
    assert "<b>" not in messages.format_disputed_quote_note("<b>2024-05-01", 1)
