"""Texts that a model repeats without end."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.text.repetition import RepetitionDetector

PARAGRAPH = "The pump moves water. It has a motor of two kilowatts, and a filter that is cleaned once a week [1]. "


def _stopped_after(text: str, step: int = 7) -> int | None:
    """Return the number of characters after which the text is stopped, or None."""
    detector = RepetitionDetector()
    for at in range(0, len(text), step):
        if detector.feed(text[at : at + step]):
            return at + step
    return None


@for_each("block", ["\n", "no ", PARAGRAPH, PARAGRAPH * 5 + "And so on.\n\n"])
def test_a_text_of_equal_blocks_is_stopped(block: str) -> None:
    """Soon after the fourth of them."""
    text = "A beginning of its own.\n\n" + block * (20_000 // len(block))
    stopped = _stopped_after(text)
    assert stopped is not None
    assert stopped < max(4 * len(block), 1000) + 2 * len(block) + 300


def test_equal_items_of_a_numbered_list_are_stopped() -> None:
    """Only their numbers differ."""
    stopped = _stopped_after("\n".join(f"{number}. {PARAGRAPH}" for number in range(1, 500)))
    assert stopped is not None
    assert stopped < 2000


@for_each(
    "text",
    [
        "\n".join(f"| {year} | yes | {year * 7 % 1000} | unknown |" for year in range(1700, 2026)),
        "\n".join(f"- **Point {number}**: the same words stand in each line [1]." for number in range(300)),
        "| name | value |\n|" + "-" * 400 + "|" + "-" * 400 + "|\n",
        "| yes | no |\n" * 40,
        PARAGRAPH * 3 + "It costs nine hundred crowns.",
        "\n".join(f"{number}. The same words stand in item {number} [1]." for number in range(300)),
        " ".join(f"{number} times {number} is {number * number}." for number in range(500)),
    ],
)
def test_lists_and_tables_are_not_stopped(text: str) -> None:
    """Their rows differ, or are few."""
    assert _stopped_after(text) is None


def test_memory_is_constant() -> None:
    """However long the text is."""
    detector = RepetitionDetector()
    for number in range(20_000):
        detector.feed(f"sentence {number}. ")
    assert len(detector._tail) < 10_000
