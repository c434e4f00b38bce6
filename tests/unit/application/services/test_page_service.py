"""application/services/page_service.py: thin, and silent about addresses."""

from __future__ import annotations

import logging

import pytest

from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.domain.exceptions import PageError
from modules.llm_platform.testing import FakePageReader

URL = "http://a.example.net/diagnosis"


async def test_a_page_and_its_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the reader, the length and the time, but not the address or the text."""
    ticks = iter((1.0, 1.25))
    service = PageService(FakePageReader({URL: "secret text"}), clock=lambda: next(ticks))
    with caplog.at_level(logging.INFO):
        page = await service.read(URL)
    assert page.text == "secret text"
    [record] = caplog.records
    assert (record.message, record.reader, record.duration_ms, record.chars) == ("page read", "fake", 250.0, 11)  # type: ignore[attr-defined]
    assert "diagnosis" not in str(record.__dict__)
    assert "secret" not in str(record.__dict__)


async def test_an_error_is_logged_by_its_code(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged by its code and raised unchanged."""
    error = PageError("words")
    with pytest.raises(PageError) as caught:
        await PageService(FakePageReader({URL: error})).read(URL)
    assert caught.value is error
    [record] = caplog.records
    assert (record.levelname, record.error) == ("WARNING", "page_error")  # type: ignore[attr-defined]
    assert "diagnosis" not in str(record.__dict__)
