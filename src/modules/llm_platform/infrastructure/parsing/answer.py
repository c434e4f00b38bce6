"""The common part of the parsers of all formats: their answers, opening a file, and cutting a long text."""

import io
import re
from typing import IO, Any

Answer = dict[str, Any]
File = str | bytes  # a path, or the content

MAX_CHARS = 5_000_000

NEEDS_EXTRA = 'reading it needs: pip install "llm-platform[documents]"'
BLANK_LINES = re.compile(r"\n[^\S\n]*\n(?:[^\S\n]*\n)+")  # `&nbsp;` is a space, too
_GENERATED_TITLE = re.compile(
    r"^(?:Microsoft Word|untitled|\(anonymous\)|PowerPoint)|\.(?:docx?|odt|tex|dvi|indd|pptx?|rtf)$", re.I
)


def open_file(file: File) -> IO[bytes]:
    return open(file, "rb") if isinstance(file, str) else io.BytesIO(file)  # noqa: PTH123


def own_title(title: Any) -> str | None:
    """Return a document's title, unless a program generated it."""
    title = " ".join(str(title or "").split())
    return title if title and not _GENERATED_TITLE.search(title) else None


def limit_text(pieces: list[str]) -> Answer:
    text = "\n\n".join(filter(None, pieces))
    cut = f"only its first {MAX_CHARS:,} characters were read" if len(text) > MAX_CHARS else None
    return {"text": text[:MAX_CHARS], "note": cut}
