"""The text of a Jupyter notebook."""

import json
from typing import Any

from modules.llm_platform.infrastructure.parsing.answer import Answer, File, limit_text, open_file

MAX_NOTEBOOK_BYTES = 50_000_000  # mostly images, which are not read
NOTEBOOK_VALUES = 1_500_000  # JSON values, about; each takes up to 200 bytes


def read_notebook(file: File) -> Answer:
    """Return the cells of a notebook, text as written and code fenced, without outputs."""
    try:
        with open_file(file) as opened:
            data = opened.read(MAX_NOTEBOOK_BYTES + 1)
        if len(data) > MAX_NOTEBOOK_BYTES:
            return {"error": f"it is larger than {MAX_NOTEBOOK_BYTES // 1_000_000} MB"}
        if sum(map(data.count, (b",", b"[", b"{"))) > NOTEBOOK_VALUES:
            return {"error": f"it contains more than {NOTEBOOK_VALUES:,} values"}
        notebook = json.loads(data)
        cells = notebook.get("cells") or [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language", ""))
        return {"title": None, **limit_text([_render_cell(cell, language) for cell in cells])}
    except OSError:
        return {"error": "it cannot be opened"}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {"error": "it is not a notebook that can be read"}


def _render_cell(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source") or cell.get("input") or ""  # `input` before version 4
    text = "".join(source).strip()
    return f"```{language}\n{text}\n```" if text and cell.get("cell_type") == "code" else text
