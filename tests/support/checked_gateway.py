"""Checks of answers at /v1 and /anthropic without their limits of time, for tests of what they find."""

from __future__ import annotations

import pytest

from modules.llm_platform.application.services import answer_check_service
from modules.llm_platform.presentation.rest.compat import verified_answers
from modules.llm_platform.wiring import services

WAIT_S = 60.0


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for each check until it has ended: on a busy machine a sentence would be unchecked after a second."""
    monkeypatch.setattr(verified_answers, "MARK_WAIT_S", WAIT_S)
    monkeypatch.setattr(services, "CHECK_TIMEOUT_S", WAIT_S)
    monkeypatch.setattr(answer_check_service, "WARM_UP_TIMEOUT_S", WAIT_S)
