"""Our own sentences, in every language that we speak."""

from __future__ import annotations

import dataclasses

import pytest

from modules.llm_platform.domain.own_words import OwnWords, own_words

HEADINGS = {"disagreements", "not_found"}
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "zh", "ja", "ko")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_everything(language: str) -> None:
    """No field is empty; headings end without a stop, all else like a sentence or with a colon before what it announces."""
    said = own_words(language)
    for field in dataclasses.fields(OwnWords):
        ended = getattr(said, field.name).strip()[-1] in ".:。："
        assert ended is (field.name not in HEADINGS), field.name
    assert language == "en" or said != own_words("en")


@pytest.mark.parametrize("tag", ["de", "de-AT", "DE"])
def test_a_region_does_not_matter(tag: str) -> None:
    """de-AT is German."""
    assert own_words(tag).nothing_found == "Es wurde nichts gefunden."


def test_a_language_that_we_do_not_speak_gets_english() -> None:
    """Unknown tags fall back to English, never to an error."""
    assert own_words("xx") is own_words("en")
    assert own_words("") is own_words("en")


def test_readings_are_announced_with_their_subject() -> None:
    """The ambiguous word is put in as it is, braces and all."""
    assert own_words("en").readings_of("{x}") == "“{x}” can mean:"
    assert "depth deep" in own_words("ja").go_deeper
