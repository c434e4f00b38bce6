"""Lines on a terminal end between words, in scripts with spaces and without."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.unit.presentation.cli.fakes import FakePlatform, Terminal, terminal_console, wiring

from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.render.progress import LiveAnswer
from modules.llm_platform.presentation.cli.wrapping import find_line_starts, measure_columns, wrap

LATIN = "The greenhouse is heated by a heat pump of nine kilowatts from October to April, and not by straw."
JAPANESE = "温室は九キロワットのヒートポンプ(heat-pump-controller)によって暖房され、雨水は「タンク」に貯められる [1]。"
ADDRESS = "https://example.org/" + "x" * 100
STYLED = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
TEXTS = st.text(st.sampled_from("ab-é 、。「」温室ーーき́\u200bА"), max_size=60)


def words_of(text: str) -> list[str]:
    """Return the words: text between blanks, or characters of scripts without spaces."""
    return re.findall(r"[A-Za-z0-9][\w.-]*", text, re.ASCII)


@for_each("width", [40, 80])
@for_each("text", [LATIN, JAPANESE, f"   {LATIN}", f"{LATIN} {JAPANESE}"])
def test_words_are_not_split(text: str, width: int) -> None:
    """Each line fits, and holds whole words; a continued line keeps its indent."""
    lines = wrap(text, width).split("\n")
    assert max(map(measure_columns, lines)) <= width
    assert words_of("\n".join(lines)) == words_of(text)
    assert not any(line.lstrip().startswith(tuple("、。」")) for line in lines)
    assert not any(line.endswith("「") for line in lines)
    assert all(line.startswith("   ") for line in lines if text.startswith("   "))


def test_long_word_is_not_broken() -> None:
    """It can be copied and clicked: where it ends is the terminal's business. What must fit is cut with `fold`."""
    assert wrap(f"see {ADDRESS} there", 40).split("\n") == ["see", ADDRESS, "there"]
    assert find_line_starts("x" * 100, 40, fold=True) == [40, 80]
    assert find_line_starts("温" * 30, 40, fold=True) == [20]


@given(TEXTS, st.integers(2, 30), st.booleans())
def test_pieces_join_to_the_text(text: str, width: int, fold: bool) -> None:
    """The joined pieces equal the text. With `fold` every piece fits, and without it single long words may not."""
    starts = [0, *find_line_starts(text, width, fold=fold)]
    assert starts == sorted(set(starts))
    pieces = [text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    assert "".join(pieces) == text
    for piece in pieces:
        assert measure_columns(piece.rstrip()) <= width or (not fold and not find_line_starts(piece, width))


@pytest.mark.parametrize("width", [40, 80])
def test_terminal_output_is_wrapped(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, Markdown, the answer as it grows, warnings, steps and asides: on a terminal no word is split."""
    monkeypatch.setenv("COLUMNS", str(width))
    console, out, err = terminal_console()
    text = f"{LATIN} {JAPANESE}"
    console.print_lines([Line(text, "bold")])
    console.print_markdown(f"# {text}\n\n{text}\n\n- {text}\n\n> {LATIN}")
    with LiveAnswer(console) as answer:
        answer.feed(text)
        answer.finish()
    for show in (console.warn, console.print_error, console.print_progress):
        show(text)
    console.print_notes([Line(text)])
    shown = [STYLED.sub("", stream.getvalue()) for stream in (out, err)]
    for printed in shown:
        assert max(map(measure_columns, re.split(r"[\r\n]", printed))) <= width
        assert set(words_of(printed)) - {"llm-platform"} == set(words_of(text))


def test_table_cells_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is too narrow for a word gives it in pieces, and not a beginning with an ellipsis."""
    monkeypatch.setenv("COLUMNS", "40")
    console, out, _ = terminal_console()
    long = "heatpumpcontroller.configuration.temperature"
    console.print_markdown(f"| a | b |\n|---|---|\n| {LATIN} | {long} |")
    rows = STYLED.sub("", out.getvalue()).splitlines()
    assert "…" not in out.getvalue()
    assert long in "".join(row.split()[-1] for row in rows if row.strip())


def test_piped_output_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON, pipes, and a command that is to be copied stay as they are."""
    monkeypatch.setenv("COLUMNS", "40")
    out, err = Terminal(), Terminal()
    console = Console(out, err)
    console.print_verbatim(LATIN)
    console.print_command(LATIN)
    assert (out.getvalue(), err.getvalue()) == (f"{LATIN}\n", f"{LATIN}\n")


def test_wrong_use_message_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a refused value is wrapped including its prefix, but not in a pipe."""
    monkeypatch.setenv("COLUMNS", "40")
    for stream, width in ((Terminal(), 40), (io.StringIO(), 200)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert run(["search", "x", "--documents", ".", "--provider", "ddgs"], wiring(FakePlatform())) == 2
        lines = stream.getvalue().split("Error: ")[1].splitlines()
        assert measure_columns(f"Error: {lines[0]}") <= width
        assert max(map(measure_columns, lines)) <= width
        assert "only that folder" in " ".join(lines)
        assert (len(lines) > 1) == (width == 40)
