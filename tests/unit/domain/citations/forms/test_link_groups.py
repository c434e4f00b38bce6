"""domain/citations/forms/link_groups.py: parentheses that hold nothing but links."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.citations.forms.citation_forms import read_citations
from modules.llm_platform.domain.citations.forms.link_groups import MAX_GROUP_LINKS, read_link_group

A, B = "https://a.example/1", "https://b.example/2"
ARCHIVED = "https://web.archive.org/web/2020/https://a.example/1"
FEW, TIMES = 300, 10


@for_each(
    ("text", "links"),
    [
        (f"({A})", [A]),
        (f"(see {A}; {B})", [A, B]),
        (f"({A};{B})", [A, B]),
        (f"({A}{B})", [A, B]),
        (f"(<{A}>, and {B})", [A, B]),
        (f"([Reuters]({A}), [AP][2])", [f"[Reuters]({A})", "[AP][2]"]),
        (f"({ARCHIVED}; {ARCHIVED})", [ARCHIVED, ARCHIVED]),
        ("(https://en.example/Tower_(Paris), https://b.example/x?u=https://c.example)",
         ["https://en.example/Tower_(Paris)", "https://b.example/x?u=https://c.example"]),
    ],
)  # fmt: skip
def test_links_are_read_one_after_the_other(text: str, links: list[str]) -> None:
    """An address ends at a separator and before the next address. An archived address contains another one."""
    group = read_link_group(text, 0)
    assert group is not None
    assert ([link.text for link in group.links], group.end) == (links, len(text))


TOO_LONG = f"({'; '.join([A] * (MAX_GROUP_LINKS + 1))})"


@for_each("text", ["()", "(see)", f"(see {A} and others)", f"(it is {A})", f"({A}", TOO_LONG])
def test_parentheses_with_words_are_no_group(text: str) -> None:
    """Parentheses with words besides links, or with too many links, are part of the sentence."""
    assert read_link_group(text, 0) is None


@for_each("address", [A, ARCHIVED, "https://a.example/" + "x" * 200, "http://a;http://b", "[a](https://a.example)"])
@for_each("separator", [";", "; ", "", ","])
def test_an_open_group_takes_time_in_proportion_to_its_length(address: str, separator: str) -> None:
    """Ten times the addresses before words take about ten times as long. One pattern for the group took twice as long each."""

    def text(count: int) -> str:
        return f"Sales rose (see {separator.join([address] * count)} and others)."

    short, long = text(FEW), text(FEW * TIMES)
    assert is_linear(lambda: read_citations(short), lambda: read_citations(long), TIMES)
