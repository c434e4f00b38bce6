"""Write the tables of documents as Markdown."""

from collections.abc import Iterable, Sequence

PIPE_IN_CELL = "\\|"


def render_table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as a table. The first row has the names of the columns."""
    names, *others = rows
    return "\n".join(map(render_row, (names, ["---"] * len(names), *others)))


def render_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', PIPE_IN_CELL) for cell in cells)} |"
