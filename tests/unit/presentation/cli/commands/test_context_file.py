"""The file of `--context`."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem
from modules.llm_platform.presentation.cli.commands.ask import ASK_CONTEXT_KB, read_context

ITEM = '{"doc_id": "d", "snippet": "Words.", "score": 0.5, "unknown": {}}'


@pytest.mark.parametrize("text", [f"[{ITEM}]", f'{{"context": [{ITEM}]}}', f'{{"request_id": "1", "hits": [{ITEM}]}}'])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_list_request_and_search_result_are_accepted(tmp_path: Path, text: str, mark: str) -> None:
    """The output of a search can be used as context. Unknown fields are ignored."""
    (tmp_path / "c.json").write_text(mark + text, "utf-8")
    assert read_context(tmp_path / "c.json") == (ContextItem(doc_id="d", snippet="Words."),)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must be JSON"),
        (b"\xff[]", "must be text in UTF-8"),
        (b"{", "must be JSON"),
        (b"[" * 100_000, "must be JSON"),
        (b"7", "must contain a list"),
        (b'{"other": []}', "must contain a list"),
        (b'{"context": {}}', "must contain a list"),
        (b"[7]", "context[0] is of the wrong type"),
        (b'[{"snippet": 7}]', "context[0].snippet is of the wrong type"),
        (b'[{"snippet": "\\ud800"}]', "half of a surrogate pair"),
        (b"[{}, {}]", "contains no passage"),
        (b" " * (ASK_CONTEXT_KB * 1000 + 1), "too long"),
    ],
)
def test_invalid_context_file_is_wrong_use(tmp_path: Path, content: bytes, said: str) -> None:
    """The message names the position but not the content."""
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(typer.BadParameter) as raised:
        read_context(tmp_path / "c.json")
    assert said in raised.value.message
    assert raised.value.param_hint == "--context"


def test_unreadable_context_file_is_wrong_use(tmp_path: Path) -> None:
    """A folder by that name."""
    with pytest.raises(typer.BadParameter, match="cannot be read"):
        read_context(tmp_path)
