"""Cleaning keeps only the answer of a model's output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.model_output.cleaning import (
    MAX_CHARS,
    TemplateTokenRemover,
    strip_reasoning,
)

TEMPLATE_PARTS = (
    "<|im_end|>",
    "<|im_start|>",
    "assistant",
    "</s>",
    "[INST]",
    "<｜end▁of▁sentence｜>",
    "`",
    "<",
    "[",
    " a\n",
)


@for_each(
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
    """Reasoning of every kind of model, an outer fence and invisible characters are removed. Everything else is kept."""
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


def without_tokens(text: str, size: int) -> str:
    remover = TemplateTokenRemover()
    pieces = [remover.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join(pieces) + remover.finish()


@for_each("size", [1, 3, 1000])
@for_each(
    ("text", "answer"),
    [
        ("Pumps move water.<|im_end|>", "Pumps move water."),
        ("Pumps <|eot_id|>move</s> water.<|endoftext|>Human: why?", "Pumps move water."),
        ("Pumps move.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>", "Pumps move.\n"),
        ("<|im_start|>assistant\nPumps move.", "Pumps move."),
        ("<|start_header_id|>assistant<|end_header_id|>\n\nPumps move.", "\n\nPumps move."),
        ("<s>[INST]Pumps[/INST] move.<end_of_turn>", "Pumps move."),
        ("Pumps move.<｜end▁of▁sentence｜>", "Pumps move."),
        ("Qwen ends a turn with `<|im_end|>`, a <b> c [I", "Qwen ends a turn with `<|im_end|>`, a <b> c [I"),
        ("a < b [1] <", "a < b [1] <"),
    ],
)
def test_tokens_of_chat_templates_do_not_reach_the_reader(text: str, answer: str, size: int) -> None:
    """Nor does a further turn. A token that is mentioned as code stays."""
    assert without_tokens(text, size) == answer


@given(st.lists(st.sampled_from(TEMPLATE_PARTS), max_size=9).map("".join), st.integers(min_value=1, max_value=5))
def test_the_pieces_of_a_text_with_tokens_make_no_difference(text: str, size: int) -> None:
    """A token may be cut anywhere."""
    assert without_tokens(text, size) == without_tokens(text, 1000)


@given(st.text(alphabet=st.characters(exclude_characters="<["), max_size=60), st.integers(min_value=1, max_value=7))
def test_a_text_without_tokens_is_unchanged(text: str, size: int) -> None:
    assert without_tokens(text, size) == text


LONG = "The worker commits offsets only after the outcome of a request is computed and stored."


@for_each("size", [1, 3, 1000])
@for_each(
    ("text", "answer"),
    [
        (f"{LONG} === c8597fac58207f49 ===", f"{LONG} "),
        (f"{LONG}\n=== c8597fac58207f49 ===\nMore.", f"{LONG}\n\nMore."),
        (f"{LONG} NO_ANSWER: The sources say no more.", f"{LONG}  The sources say no more."),
        ("NO_ANSWER The sources do not say.", "NO_ANSWER The sources do not say."),
        ("YES_ANSWER [1][4]", " [1][4]"),
        (f"{LONG} YES_ANSWER: It is so [1]. YES, `YES_ANSWER`.", f"{LONG}  It is so [1]. YES, `YES_ANSWER`."),
        (f"{LONG} `NO_ANSWER`, no_answer = 1, NO or a == b.", f"{LONG} `NO_ANSWER`, no_answer = 1, NO or a == b."),
    ],
)
def test_signs_of_the_prompt_do_not_reach_the_reader(text: str, answer: str, size: int) -> None:
    """The fence around the sources, and NO_ANSWER within an answer; at its beginning the mark is read by another class."""
    remover = TemplateTokenRemover()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join([*map(remover.feed, pieces), remover.finish()]) == answer
