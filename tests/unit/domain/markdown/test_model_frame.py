"""The frame that a model puts around its answer is removed, whatever the chunks, and the answer is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer, sanitize

SOURCES = [
    Source(index=1, title="Python asyncio: a guide", url="https://docs.example/a", text="…"),
    Source(index=2, title="Event loops", url="https://docs.example/b", text="…"),
    Source(index=3, title="Notes", url="doc:notes.md", text="…"),
]
ANSWER = "The loop runs tasks [1]. Threads wait [2].\n\n- One [1].\n- Two [3]."
CODE = "```python\nx = a[1]\n```"

WRAPPED = {
    "no name": f"```\n{ANSWER}\n```",
    "markdown": f"```markdown\n{ANSWER}\n```\n",
    "md, four ticks": f"\n````md\n{ANSWER}\n````\n\n",
    "tildes": f"~~~ Markdown\n{ANSWER}\n~~~",
    "text": f"```text\n{ANSWER}\n```",
    "never closed": f"```markdown\n{ANSWER}",
    "blanks before": f"  \n ```\n{ANSWER}\n ```",
}
LISTS = {
    "numbers": "## Sources\n\n[1] Python asyncio: a guide\n[2] Event loops\n",
    "links": "**Sources:**\n1. [Python asyncio: a guide](https://docs.example/a)\n2. [Event loops](https://docs.example/b)",
    "items": "---\n\n### References\n- [1] Python asyncio: a guide, https://docs.example/a\n- [3] Notes",
    "addresses": "Sources:\n- https://docs.example/a\n- https://elsewhere.example/x",
    "definitions": 'Sources:\n\n[1]: https://docs.example/a\n[2]: https://elsewhere.example/x "Event loops"',
    "footnotes": "[^1]: https://docs.example/a\n[^2]: https://docs.example/b",
    "titles": "Quellen\n* Python asyncio: a guide\n* Event loops",
    "one line": "**Источники:** [1] Python asyncio: a guide, [2] Event loops",
    "no title": "[1] Python asyncio: a guide\n[2] https://docs.example/b",
    "underlined": "References\n----------\n1. [2] Event loops – https://docs.example/b",
    "chinese": "参考资料：\n[1] Python asyncio: a guide\n\n[2] Event loops",
    "bare title": "## Sources:",
}
LEFT = {
    "code alone": CODE,
    "code without a name": "```\npip install asyncio-tools\n```",
    "code first": f"```\nx = a[1]\n```\n{ANSWER}",
    "an example of Markdown": f"```markdown\n# A title\n```\n{ANSWER}",
    "code last": f"{ANSWER}\n\n{CODE}",
    "sources of something": "## Sources\n\n- Solar power feeds the grid [1].\n- Wind blows at night [2].",
    "a section that goes on": "## Sources\n\nBoth pages agree [1][2].",
    "text below a list": "Sources:\n\n[1] Python asyncio: a guide\n\nThe first is the newer one [1].",
    "a sentence of a title": "Notes [3] and Event loops [2] differ.",
    "a list in code": f"{ANSWER}\n\n```\nSources:\n[1] Event loops\n```",
}


def in_pieces(text: str, sizes: list[int]) -> str:
    sanitizer, pieces, at = AnswerSanitizer(SOURCES), [], 0
    for size in [*sizes, len(text)]:
        pieces.append(sanitizer.feed(text[at : at + size]))
        at += size
    return "".join([*pieces, sanitizer.finish()])


@for_each("written", WRAPPED.values())
def test_an_answer_in_a_fence_is_unwrapped(written: str) -> None:
    """Else all of it would be code, and nothing in it a citation."""
    assert sanitize(written, SOURCES).strip() == ANSWER


@pytest.mark.parametrize("name", ["", "markdown"])
def test_code_in_a_wrapped_answer_stays_code(name: str) -> None:
    """A named fence inside is closed by its own end."""
    inside = f"{ANSWER}\n\n{CODE}\n\nThen it ends [2]."
    assert sanitize(f"```{name}\n{inside}\n```", SOURCES).strip() == inside


def test_a_wrapped_answer_is_streamed() -> None:
    """If the outer fence has a name, streaming starts at the first line with a citation."""
    sanitizer = AnswerSanitizer(SOURCES)
    assert "The loop runs tasks [1]." in sanitizer.feed(f"```markdown\n{ANSWER}\n")


@for_each("listed", LISTS.values())
def test_a_list_of_sources_is_removed(listed: str) -> None:
    """The model's own list may name anything. The platform's list follows the answer."""
    assert sanitize(f"{ANSWER}\n\n{listed}", SOURCES).strip() == ANSWER


@for_each("written", LEFT.values())
def test_lists_inside_the_answer_stay(written: str) -> None:
    """Requested code, sources of other kinds, and lists in the middle of the text are kept."""
    assert sanitize(written, SOURCES) == written


@given(
    st.sampled_from([*WRAPPED.values(), *LEFT.values(), *(f"{ANSWER}\n\n{lists}" for lists in LISTS.values())]),
    st.lists(st.integers(1, 15), max_size=30),
)
def test_chunks_make_no_difference(written: str, sizes: list[int]) -> None:
    """The result is independent of the chunks."""
    assert in_pieces(written, sizes) == sanitize(written, SOURCES)


PARTS = ["```", "````md", "~~~", "[1] Notes", "Sources:", "\n", "\n\n", "a. ", "[1].", "- "]


@given(st.lists(st.sampled_from(PARTS), max_size=14))
def test_only_frames_are_removed(parts: list[str]) -> None:
    """No word of the answer is lost, whatever its content and chunks."""
    written = "".join(parts)
    assert in_pieces(written, [1] * len(written)) == sanitize(written, SOURCES)
    assert sanitize(written, SOURCES).count("a. ") == written.count("a. ")
