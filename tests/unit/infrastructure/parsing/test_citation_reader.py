"""infrastructure/parsing/citation_reader.py, with a real child process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modules.llm_platform.domain.citations.forms.citation_forms import read_citations
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.exceptions import VerificationError
from modules.llm_platform.infrastructure.parsing.citation_reader import ChildCitationReader
from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool
from modules.llm_platform.infrastructure.parsing.parser_process import ParserProcess

GIVEN = [
    CitedSource(7, "", "report.pdf", "The text of the report.", ((0, 1), (9, 2)), is_numbered=False),
    CitedSource(9, "https://a.example/9", "A page"),
]
TEXT = "It rose [1]. It fell ([Reuters](https://b.example/1)), 5 % [9]. \ud800\n\n## Sources\n[1] report.pdf\n"
LIMIT_S = 2.0
# A parser that never answers a text of this word.
SLOW = """
import json, struct, sys
lengths = struct.Struct("<II")
while head := sys.stdin.buffer.read(lengths.size):
    fields, content = map(sys.stdin.buffer.read, lengths.unpack(head))
    text = json.loads(content)["text"]
    while text == "endless":
        pass
    answer, content = b'{"sources": [], "pieces": []}', text.encode()
    sys.stdout.buffer.write(lengths.pack(len(answer), len(content)) + answer + content)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
async def reader() -> AsyncIterator[ChildCitationReader]:
    reader = ChildCitationReader(ParserPool(1))
    yield reader
    await reader.aclose()


async def test_the_child_reads_like_the_server(reader: ChildCitationReader) -> None:
    """Sources, markers and spans are equal. Texts of given sources are in the result without being sent to the child."""
    cited = await reader(TEXT, GIVEN)
    assert cited == read_citations(TEXT, GIVEN)
    assert [(source.index, source.text, source.pages) for source in cited.sources if source.text] == [
        (1, GIVEN[0].text, GIVEN[0].pages)
    ]
    assert cited.map_span(0, len(cited.markdown)) == read_citations(TEXT, GIVEN).map_span(0, len(cited.markdown))


async def test_a_text_with_too_many_citations_is_refused(reader: ChildCitationReader) -> None:
    """`[1-200]` in each of a thousand sentences would be a text of megabytes."""
    given = [CitedSource(number, f"https://a.example/{number}") for number in range(1, 201)]
    with pytest.raises(VerificationError, match="more than 6,000 citations"):
        await reader("It rose [1-200]. " * 1000, given)


async def test_a_text_that_takes_too_long_ends_its_child_and_not_the_server(tmp_path: Path) -> None:
    """The caller gets an error that says what to do, and the next text is read."""
    (tmp_path / "child.py").write_text(SLOW)
    reader = ChildCitationReader(
        ParserPool(1, lambda: ParserProcess(wall_seconds=LIMIT_S, script=tmp_path / "child.py"))
    )
    with pytest.raises(VerificationError, match="Split the text"):
        await reader("endless", [])
    assert (await reader("short", [])).markdown == "short"
    await reader.aclose()
