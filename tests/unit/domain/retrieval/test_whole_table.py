"""The tables of a document with all of their rows: what stays of the other text, and where the pages begin."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import Passage
from modules.llm_platform.domain.retrieval.whole_table import join_whole_tables, wants_whole_table

HEAD = "| Site | Pumps |\n| --- | --- |\n"
FIRST, SECOND = f"{HEAD}| Oslo | 4 |\n| Bonn | 7 |", f"{HEAD}| Graz | 9 |"
PROSE = (
    "Every site has a plan for its pumps, which names who repairs them and how soon after a call, and who pays for it. "
    * 2
)


def passages(*texts: tuple[str, int]) -> list[Passage]:
    """Return the passages of a document, each with its text and the page that begins with it."""
    made, start = [], 0
    for number, (text, page) in enumerate(texts):
        made.append(
            Passage(id=str(number), doc_id="d", title="Sites", text=text, start=start, pages=((0, page),), index=number)
        )
        start += len(text) + 2
    return made


def test_the_pages_of_a_joined_table_are_those_of_its_rows() -> None:
    """The names that the second part repeats are left out, and so is prose that no search found."""
    joined = join_whole_tables(passages(("# Sites", 1), (PROSE.strip(), 1), (FIRST, 2), (SECOND, 3), ("Notes", 4)), "")
    assert joined is not None
    assert joined.text == f"# Sites\n\n{FIRST}\n| Graz | 9 |\n\nNotes"
    begins = {page: joined.text[offset : offset + 8] for offset, page in joined.pages}
    assert begins == {1: HEAD[:8], 2: HEAD[:8], 3: "| Graz |", 4: "Notes"}


def test_prose_that_was_found_stays() -> None:
    found = PROSE.strip()
    joined = join_whole_tables(passages((found, 1), (FIRST, 2)), f"… {found}")
    assert joined is not None
    assert joined.text == f"{found}\n\n{FIRST}"
    assert join_whole_tables(passages((found, 1)), found) is None


@for_each(
    "question, is_wanted",
    [
        ("Which site has the most pumps?", True),
        ("How many sites have 4 pumps?", True),
        ("Has Oslo more pumps than Graz?", True),  # in two passages
        ("How many pumps does Oslo have?", True),
        ("Is there a site with more than 20 pumps?", True),
        ("Which has more pumps, Oslo or Graz?", True),
        ("Do all sites have pumps?", True),
        ("Is Oslo a site?", False),
        ("Which sites have no pumps?", True),
        ("Which sites have pumps?", True),
        ("Which sites lose their pumps near a limit?", False),
        ("Which visitors have no ticket?", False),
        ("What are the pumps of Oslo?", False),
    ],
)
def test_a_question_that_compares_or_names_several_rows_wants_the_whole_table(question: str, is_wanted: bool) -> None:
    assert wants_whole_table(question, [PROSE, FIRST, SECOND]) == is_wanted
    assert not wants_whole_table(question, [PROSE])
