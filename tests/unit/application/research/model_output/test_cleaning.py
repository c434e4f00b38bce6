"""The answer alone, without what a model says beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.application.research.model_output.cleaning import MAX_CHARS, strip_reasoning


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a</think>b", "b"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("a<think>b", "a"),
        ("a</think>b", "b"),
        ("<THINKING mode='x'>a</Thinking>\n\nb", "b"),
        ("<reasoning>a</reasoning>b<scratchpad>c</scratchpad>", "b"),
        ("[THINK]a[/THINK]b", "b"),
        ("◁think▷a◁/think▷b", "b"),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "b"),
        ("The tag `<think>` opens it.", "The tag `<think>` opens it."),
        ("[thinking] is an art", "[thinking] is an art"),
        ("```json\n[1]\n```", "[1]"),
        ("```JSON\n[1]```", "[1]"),
        ("```[1]```", "[1]"),
        ("~~~\na\n~~~", "a"),
        ("```markdown\ncut off", "cut off"),
        ("```\na\n```\nb\n```\nc\n```", "```\na\n```\nb\n```\nc\n```"),
        ("Text ```x``` text", "Text ```x``` text"),
        ("\ufeffa\x00\x1bb\u200b", "ab"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("\ud83d\ude00 \ud83d", "😀 \ufffd"),
        (" \n", ""),
    ],
)
def test_reasoning_and_fences_are_removed(text: str, answer: str) -> None:
    """Reasoning of every kind of model, a fence around the whole, signs that nobody sees; all else stays."""
    assert strip_reasoning(text) == answer


@given(st.text())
def test_answer_is_encodable_and_bounded(text: str) -> None:
    """No half characters, no blanks around, never longer than it was."""
    answer = strip_reasoning(text)
    assert answer.encode() is not None
    assert answer == answer.strip()
    assert len(answer) <= len(text)


def test_endless_answer_is_cut() -> None:
    """What a repeating model says after the bound is not looked at."""
    assert len(strip_reasoning("a" * 3 * MAX_CHARS)) == MAX_CHARS
