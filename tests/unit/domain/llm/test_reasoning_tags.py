"""Reasoning is separated from the answer, whatever the chunks."""

import pytest

from modules.llm_platform.domain.llm.reasoning_tags import ReasoningSplitter, TextPart

CASES = {
    "<think>Hm.</think>It is so.": [("<think>Hm.</think>", True), ("It is so.", False)],
    "A <b> B. <thinking>C < D</thinking> E.": [
        ("A <b> B. ", False),
        ("<thinking>C < D</thinking>", True),
        (" E.", False),
    ],
    "<think>a<think>b</think>c</think>d": [("<think>a<think>b</think>c</think>", True), ("d", False)],
    "A `<think>` tag.": [("A `<think>` tag.", False)],
    "<think>without an end": [("<think>without an end", True)],
    "before</think>after": [("before</think>", True), ("after", False)],
    "one</think>two</think>three": [("one</think>two</think>", True), ("three", False)],
    "1 < 2, <thin> ice, <": [("1 < 2, <thin> ice, <", False)],
}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("text", CASES)
def test_the_parts_are_the_text_wherever_its_pieces_end(text: str, size: int) -> None:
    splitter, parts = ReasoningSplitter(), list[TextPart]()
    for at in range(0, len(text), size):
        before = splitter.retractions
        found = splitter.feed(text[at : at + size])
        if splitter.retractions > before:
            parts = [part._replace(is_reasoning=True) for part in parts]
        parts += found
        assert "".join(part.text for part in parts) + splitter.undecided == text[: at + size]
    parts += splitter.finish()
    joined: list[tuple[str, bool]] = []
    for part in parts:
        if joined and joined[-1][1] == part.is_reasoning:
            joined[-1] = (joined[-1][0] + part.text, part.is_reasoning)
        else:
            joined.append(tuple(part))  # type: ignore[arg-type]
    assert joined == CASES[text]
