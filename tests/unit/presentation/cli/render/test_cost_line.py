"""The line below an answer: time, searches, further rounds, writer and cost."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.unit.presentation.cli.fakes import ANSWER

from modules.llm_platform.domain.dtos.evidence_dtos import StopReason
from modules.llm_platform.presentation.cli.render.terminal import STOP_REASONS, describe_cost


def line_of(rounds: int, stopped: StopReason | None) -> str:
    metadata = ANSWER.metadata.model_copy(update={"rounds": rounds, "stopped": stopped})
    return describe_cost(ANSWER.model_copy(update={"metadata": metadata}))


@pytest.mark.parametrize("stopped", get_args(StopReason))
def test_further_rounds_are_told_with_the_reason_of_their_end(stopped: StopReason) -> None:
    """Each reason has words."""
    assert f" · 2 further rounds, {STOP_REASONS[stopped]} · " in line_of(2, stopped)


def test_an_answer_of_one_search_shows_no_rounds() -> None:
    """A shallow answer and an answer that needed no further round show no rounds."""
    assert "round" not in line_of(0, None) + line_of(0, "answered")


def test_a_writer_is_named_in_words() -> None:
    """A model is shown by its name. An extractive answer is described as quotes, without an internal name."""
    written = ANSWER.metadata.model_copy(update={"synthesizer": "openai/m"})
    assert "written by openai/m" in describe_cost(ANSWER.model_copy(update={"metadata": written}))
    quoted = ANSWER.metadata.model_copy(update={"synthesizer": "extractive"})
    line = describe_cost(ANSWER.model_copy(update={"metadata": quoted}))
    assert " · made of quotes, without a language model" in line
    assert " · without a language model" in describe_cost(ANSWER.model_copy(update={"metadata": quoted, "sources": ()}))
