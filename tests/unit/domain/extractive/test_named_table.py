"""The name of a table in a question says where to look, and describes no row."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.extractive.named_table import narrow_to_named_tables
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.tables import Table

HIRE = Table(("item", "day_gbp"), [("drill", "18"), ("saw", "12")], title="hire prices 2025")
BAND = Table(("instrument", "year"), [("cornet", "1994"), ("tuba", "1979")], title="band instruments")


@for_each(
    ("question", "rest", "tables"),
    [
        ("Cheapest item on the tool hire list?", "Cheapest item ?", [HIRE]),
        ("Which instrument in the band's inventory is the oldest?", "Which instrument is the oldest?", [BAND]),
        ("Cheapest on the old village hall hire list?", "Cheapest ?", [HIRE]),
        ("¿Cuál es el más caro de la lista de hire?", "¿Cuál es el más caro ?", [HIRE]),
        ("Which is the cheapest on the wine list?", "Which is the cheapest on the wine list?", [HIRE, BAND]),
        ("Which is the cheapest in the drill list?", "Which is the cheapest in the drill list?", [HIRE, BAND]),
        ("Which item is the cheapest?", "Which item is the cheapest?", [HIRE, BAND]),
    ],
)
def test_the_name_of_a_table_is_separated(question: str, rest: str, tables: list[Table]) -> None:
    """A list that no table is named after may be something that the documents lack, and a cell describes rows."""
    narrowed, named = narrow_to_named_tables(read_question(question, "en"), [HIRE, BAND])
    assert (narrowed.text, list(named)) == (rest, tables)
