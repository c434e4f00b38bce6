"""The platform's own sentences in every supported language."""

from __future__ import annotations

import dataclasses
from typing import get_args

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.evidence_dtos import StopReason
from modules.llm_platform.domain.text.messages import Messages, get_messages

PHRASES = {"disagreements", "not_found", "voices"}  # headings and texts in brackets
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "zh", "ja", "ko", "ar", "he")


@for_each("language", LANGUAGES)
def test_every_language_has_every_message(language: str) -> None:
    """No field is empty. Phrases have no full stop, and other texts end like a sentence or with a colon."""
    said = get_messages(language)
    for field in dataclasses.fields(Messages):
        ended = getattr(said, field.name).strip()[-1] in ".:。："
        assert ended is (field.name not in PHRASES), field.name
    assert language == "en" or said != get_messages("en")


@for_each("tag", ["de", "de-AT", "DE"])
def test_a_region_does_not_matter(tag: str) -> None:
    """de-AT is German."""
    assert get_messages(tag).nothing_found == "Es wurde nichts gefunden."


def test_an_unknown_language_gets_english() -> None:
    """Unknown tags fall back to English, never to an error."""
    assert get_messages("xx") is get_messages("en")
    assert get_messages("") is get_messages("en")


def test_readings_are_announced_with_their_subject() -> None:
    """The ambiguous word is inserted unchanged, including braces."""
    assert get_messages("en").format_meanings_intro("{x}") == "“{x}” can mean:"
    assert "depth deep" in get_messages("ja").go_deeper


@for_each("language", LANGUAGES)
def test_every_reason_to_stop_has_its_sentence(language: str) -> None:
    """The sentences are distinct."""
    said = [get_messages(language).get_stop_message(reason) for reason in get_args(StopReason)]
    assert len(set(said)) == len(get_args(StopReason))
