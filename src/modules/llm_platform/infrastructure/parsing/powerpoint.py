"""Read the slides of PowerPoint presentations, without notes. Hidden slides and shapes are left out."""

from contextlib import suppress
from typing import Final

from modules.llm_platform.infrastructure.parsing.answer import MAX_CHARS, Answer, File, limit_text, own_title
from modules.llm_platform.infrastructure.parsing.markdown_table import render_table
from modules.llm_platform.infrastructure.parsing.zipped_xml import (
    Archive,
    Elements,
    Xml,
    is_set,
    read_relations,
    unpack,
)

MAX_SLIDES: Final = 2000
CELL_CHARS: Final = 3  # around each cell of a table
PRESENTATION: Final = "ppt/presentation.xml"

_TITLES: Final = ("title", "ctrTitle")
_REPEATED: Final = ("dt", "ftr", "sldNum", "hdr")  # dates, footers and numbers, which are on each slide
_SHAPES: Final = ("sp", "graphicFrame", "cxnSp", "pic")


class _Slide(Xml):
    """The title of a slide, and its texts in their order. A table is Markdown: its first row has the names of its columns."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.texts: list[str] = []
        self.is_hidden = False
        self._chars = 0
        self._kind = ""  # the kind of placeholder of the open shape
        self._shape_is_hidden = False
        self._paragraphs: list[str] = []
        self._rows: list[list[str]] = []
        self._in_text = False
        self._skipped = 0  # the number of open elements that repeat others for older programs
        self._pieces: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "Fallback":
            self._skipped += 1
        elif self._skipped:
            return
        elif name == "sld":
            self.is_hidden = attributes.get("show") in ("0", "false")
        elif name in _SHAPES:
            self._kind, self._shape_is_hidden, self._paragraphs = "", False, []
        elif name == "cNvPr":
            self._shape_is_hidden |= is_set(attributes.get("hidden"))
        elif name == "ph":
            self._kind = attributes.get("type", "body")
        elif name == "tbl":
            self._rows = []
        elif name == "tr":
            self._rows.append([])
            self._chars += CELL_CHARS
        elif name == "tc":
            self._paragraphs = []
        elif name == "br":
            self._pieces.append(" ")
        elif name == "t":
            self._in_text = True

    def end(self, name: str) -> None:
        if name == "Fallback":
            self._skipped -= 1
        elif self._skipped:
            return
        elif name == "t":
            self._in_text = False
        elif name == "p":
            if text := " ".join("".join(self._pieces).split()):
                self._paragraphs.append(text)
            self._pieces = []
        elif name == "tc" and self._rows:
            self._rows[-1].append(" ".join(self._paragraphs))
            self._chars += CELL_CHARS
            self._paragraphs = []
        elif name == "tbl":
            if not self._shape_is_hidden:
                self.texts.append(_render_rows(self._rows))
        elif name in _SHAPES:
            self._end_shape()

    def _end_shape(self) -> None:
        texts, self._paragraphs = self._paragraphs, []
        if self._shape_is_hidden or self._kind in _REPEATED or not texts:
            return
        if self._kind in _TITLES and not self.title:
            self.title = " ".join(texts)
        elif len(texts) == 1:
            self.texts += texts
        else:
            self.texts.append("\n".join(f"- {text}" for text in texts))

    def text(self, text: str) -> None:
        if self._in_text and not self._skipped:
            self._pieces.append(text)
            self._chars += len(text)

    @property
    def is_full(self) -> bool:
        return self._chars > MAX_CHARS


def _render_rows(rows: list[list[str]]) -> str:
    if len(rows) < 2 or len(rows[0]) < 2:
        return "\n\n".join(cell for row in rows for cell in row if cell)
    return render_table(rows)


def read_pptx(file: File) -> Answer:
    """Return the slides of a presentation in their order, each below its title."""
    return unpack(
        file, _read_pptx_parts, "it is not a PowerPoint presentation that can be read (an encrypted one is not)"
    )


def _read_pptx_parts(archive: Archive) -> Answer:
    presentation = archive.part(PRESENTATION)
    if presentation is None:
        return {"error": "it is not a PowerPoint presentation (.pptx)"}
    relations = read_relations(archive, PRESENTATION)
    order = [found.get("r:id", "") for name, found, _ in Elements(presentation).found if name == "sldId"]
    pieces: list[str] = []
    for identifier in order[:MAX_SLIDES]:
        slide = _Slide()
        with suppress(KeyError):  # The file of a slide may be missing.
            slide.read(archive.chunks(relations.get(identifier, "")))
        if slide.is_hidden:
            continue
        pieces += [f"# {slide.title}"] * bool(slide.title) + slide.texts
        if sum(map(len, pieces)) > MAX_CHARS:
            break
    answer = limit_text(pieces)
    if len(order) > MAX_SLIDES:
        answer["note"] = f"only its first {MAX_SLIDES:,} slides were read"
    return {"title": own_title(Elements(archive.part("docProps/core.xml")).title), **answer}
