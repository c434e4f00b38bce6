"""The two small models are used if they are installed, and asking for one that is not is an error of the settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.cases import for_each

from modules.llm_platform.wiring import writers
from modules.llm_platform.wiring.checks import check_server_settings, check_settings
from modules.llm_platform.wiring.writers import needs_words_of_query, uses_sentence_encoder, uses_support_model
from shared.config import Settings, SettingsError

USES = {"CITATION_ENCODER": uses_support_model, "ANSWER_ENCODER": uses_sentence_encoder}


@for_each(
    ("setting", "has_packages", "is_used"),
    [("auto", True, True), ("auto", False, False), ("on", True, True), ("off", True, False), ("off", False, False)],
)
def test_a_model_is_used(setting: str, has_packages: bool, is_used: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "is_installed", lambda packages: has_packages)
        for name, uses in USES.items():
            assert uses(Settings.load(**{name: setting})) is is_used


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("check", [check_settings, check_server_settings])
def test_a_model_that_is_on_and_not_installed(
    name: str, check: Callable[[Settings], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command and the server say so at once, with the line that installs it."""
    monkeypatch.setattr(writers, "is_installed", lambda packages: False)
    with pytest.raises(SettingsError, match=rf'{name}=on: .*pip install "llm-platform\[meaning\]"; or set {name}=off'):
        check(Settings.load(**{name: "on"}))


@for_each(
    ("settings", "needs_words"),
    [
        ({"DOCUMENTS_DIR": "docs"}, False),
        ({"DOCUMENTS_DIR": "docs", "ANSWER_ENCODER": "off"}, True),
        ({"DOCUMENTS_DIR": "docs", "SEARXNG_URL": "http://localhost:8080"}, True),
        ({"DOCUMENTS_DIR": "docs", "SEARXNG_URL": "http://localhost:8080", "LLM_PLATFORM_OFFLINE": True}, False),
        ({"QDRANT_URL": "http://localhost:6333", "EMBEDDER": "openai", "ANSWER_ENCODER": "off"}, False),
    ],
)
def test_documents_need_words_of_the_query(settings: dict[str, object], needs_words: bool) -> None:
    """Static vectors find something for every query: without a model that reads it, or beside the web, it must share a word."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "is_installed", lambda packages: True)
        assert needs_words_of_query(Settings.load(**{"ANSWER_ENCODER": "on"} | settings)) is needs_words
