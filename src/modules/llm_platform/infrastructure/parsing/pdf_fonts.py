"""How wide the characters of a PDF's fonts are. Widths are in thousandths of the font size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WIDE_CHAR = 600.0  # where a font gives no widths; characters that are too wide make no gap out of a space
DEFAULT_WIDTH = 1000.0  # of a character of a composite font that gives no other default
MAX_WIDTHS = 70_000  # widths of a font that are read, because a file may list any number


@dataclass(slots=True)
class FontWidths:
    """The widths of a font's characters. `known` has them by code, and each code has `code_bytes` bytes."""

    code_bytes: int = 1
    default: float = WIDE_CHAR
    known: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def read(cls, font: Any) -> "FontWidths":
        """Return the widths that a font of pypdf gives. A damaged font, or none, gets the default."""
        try:
            if font is None:
                return cls()
            if "/DescendantFonts" in font:
                inner = font["/DescendantFonts"][0].get_object()
                default = float(inner["/DW"]) if "/DW" in inner else DEFAULT_WIDTH
                return cls(2, default, dict(_list_composite_widths(inner["/W"])) if "/W" in inner else {})
            if "/Widths" not in font:
                return cls(known=_list_standard_widths(str(font["/BaseFont"]).removeprefix("/")))
            first = int(font["/FirstChar"])
            return cls(known={first + at: float(width) for at, width in enumerate(font["/Widths"][:256])})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return cls()

    def measure(self, parts: Sequence[Any]) -> tuple[float, int]:
        """Return the width and the number of the characters that are shown. A number among the `parts` moves them together."""
        width, chars = 0.0, 0
        for part in parts:
            if isinstance(part, (int, float)):
                width -= part
            elif isinstance(part, bytes):
                for at in range(0, len(part), self.code_bytes):
                    width += self.known.get(int.from_bytes(part[at : at + self.code_bytes], "big"), self.default)
                    chars += 1
        return width, chars


def _list_standard_widths(font: str) -> dict[int, float]:
    """Return the widths of one of the 14 standard fonts, whose widths a file need not give; empty for another font."""
    try:
        from pypdf._codecs.core_font_metrics import CORE_FONT_METRICS
    except ImportError:  # an older version
        return {}
    if font not in CORE_FONT_METRICS:
        return {}
    widths = CORE_FONT_METRICS[font].character_widths
    letters = {code: bytes((code,)).decode("cp1252", "replace") for code in range(256)}
    return {code: float(widths[letter]) for code, letter in letters.items() if letter in widths}


def _list_composite_widths(entries: Sequence[Any]) -> Iterator[tuple[int, float]]:
    """Yield code and width from entries such as `3 [500 400]` and `10 20 600`."""
    at, read = 0, 0
    while at + 1 < len(entries) and read < MAX_WIDTHS:
        first, second = int(entries[at]), entries[at + 1]
        if isinstance(second, list):
            yield from ((first + offset, float(width)) for offset, width in enumerate(second))
            read += len(second)
            at += 2
        else:
            last = min(int(second), first + MAX_WIDTHS - read)
            yield from ((code, float(entries[at + 2])) for code in range(first, last + 1))
            read += max(0, last - first)
            at += 3
