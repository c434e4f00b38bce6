"""Each passage of a table has the names of its columns, and no row is lost between two passages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.rag.passages import chunk_document
from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText
from modules.llm_platform.domain.retrieval.merge_passages import merge_document_text
from modules.llm_platform.domain.retrieval.whole_table import join_tables
from modules.llm_platform.infrastructure.documents.tables import divide_tables, read_values

CELL = st.text("abc äé7", min_size=1, max_size=14).map(lambda text: f"x{' '.join(text.split())}")


@st.composite
def values(draw: st.DrawFn) -> list[list[str]]:
    """The names of columns, and rows that all differ."""
    columns = draw(st.integers(2, 30))
    names = [f"column {number}" for number in range(columns)]
    cells = draw(st.lists(CELL, min_size=columns, max_size=columns))
    return [names, *([f"row {number}", *cells[1:]] for number in range(draw(st.integers(1, 80))))]


def as_table(rows: list[list[str]]) -> str:
    names, *lines = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([names, f"|{'---|' * len(rows[0])}", *lines])


@given(values())
def test_each_passage_of_a_table_begins_with_the_names_of_its_columns(rows: list[list[str]]) -> None:
    """However wide the rows are: a passage without the names could not be read, and its rows would not be counted."""
    text = read_values("\n".join(map(",".join, rows)))
    passages = chunk_document("d", "", DocumentText(title="D", text=text)).passages
    head = as_table(rows[:1])
    assert all(passage.text.startswith(head) for passage in passages)
    assert join_tables(merge_document_text(passages).text) == as_table(rows)


@given(values())
def test_a_long_table_of_a_text_is_divided_likewise(rows: list[list[str]]) -> None:
    divided = divide_tables(f"# Sites\n\n{as_table(rows)}\n\nMore.")
    assert join_tables(divided) == f"# Sites\n\n{as_table(rows)}\n\nMore."


def test_tables_with_other_columns_stay_apart() -> None:
    one, other = as_table([["a", "b"], ["1", "2"]]), as_table([["a", "c"], ["1", "2"]])
    assert join_tables(f"{one}\n\n{other}\n\nText") == f"{one}\n\n{other}\n\nText"


@for_each(
    ("written", "marked"),
    [
        ('item,price\nhammer,"12\nsaw,19\nnail,1\n', '"12'),
        ('item,price\nhammer,"12""\nsaw,19\nnail,1', '"12""'),
        ('item,price\nhammer,"12\nsaw,19\nnail,1\n' + "screw,2\n" * 40_000, '"12'),
    ],
)
def test_quotation_mark_without_its_second_takes_no_rows(written: str, marked: str) -> None:
    """All later rows would be one value, and a question about the highest price would be answered without them."""
    lines = join_tables(read_values(written)).split("\n")
    assert lines[2:5] == [f"| hammer | {marked} |", "| saw | 19 |", "| nail | 1 |"]
    assert len(lines) == len([line for line in written.split("\n") if line]) + 1


def test_rows_with_more_values_than_names_have_columns_without_a_name() -> None:
    """Markdown renderers drop cells beyond the header. Empty cells at the end of a row need no column."""
    assert read_values("name,age\nAnna,34,Graz\nBert,51,,\n") == (
        "| name | age |  |\n|---|---|---|\n| Anna | 34 | Graz |\n| Bert | 51 |"
    )
