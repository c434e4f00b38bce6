"""infrastructure/parsing/decoding.py"""

from __future__ import annotations

import builtins
import codecs
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument, decode

GERMAN = "Grüße aus Österreich: die Straße über die Brücke führt zurück."
KOREAN = "이 문서는 회의록입니다. 회의는 3월 4일에 서울에서 열렸습니다."
RUSSIAN = "Это текст на русском языке, который записан в старой кодировке и должен читаться правильно."


@for_each(
    "data",
    [
        GERMAN.encode(),
        codecs.BOM_UTF8 + GERMAN.encode(),
        codecs.BOM_UTF16_LE + GERMAN.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + GERMAN.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + GERMAN.encode("utf-32-le"),
        GERMAN.encode("utf-16-le"),
        GERMAN.encode("utf-16-be"),
    ],
)
def test_each_unicode_encoding_is_read(data: bytes) -> None:
    """With or without a byte order mark, the text is the same without a remark."""
    assert decode(data) == (GERMAN, None)


@for_each(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        ("これは日本語の文章です。" * 5, "shift_jis"),
        (KOREAN, "euc-kr"),
        (KOREAN, "cp949"),
    ],
)
def test_older_encodings_are_guessed_and_noted(text: str, encoding: str) -> None:
    """Other encodings are guessed, and the owner is informed."""
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert "not UTF-8" in (decoded.note or "")


def test_text_that_is_the_same_in_western_windows_is_noted_as_that() -> None:
    """The detector takes a short German text for Maltese, which has the same letters at these places."""
    text = (
        "Hausordnung der Werkstatt\n\nDie Werkstatt ist von Dienstag bis Samstag zwischen 9 und 18 Uhr offen.\n"
        "Altöl kommt in das blaue Fass neben der Tür.\nRauchen ist überall verboten.\n"
    )
    note = decode(text.encode("iso8859-3")).note or ""
    assert "read as cp1252" in note


def test_without_the_detector_western_text_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra for HTML is not needed for plain text: it is read as Windows wrote it."""
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("resiliparse"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert decode(GERMAN.encode("cp1252")).text == GERMAN


def test_a_page_may_declare_its_encoding() -> None:
    """`<meta charset>` counts in HTML only; a made-up one does not."""
    page = f'<html><head><meta charset="windows-1251"></head><body>{RUSSIAN}</body></html>'
    assert decode(page.encode("cp1251"), html=True) == (page, None)
    declared = '<meta http-equiv="Content-Type" content="text/html; charset=latin-1">' + GERMAN
    assert decode(declared.encode("latin-1"), html=True).text == declared
    for odd in ("no-such", "hex", "idna"):
        assert GERMAN in decode(f"<meta charset={odd}>{GERMAN}".encode(), html=True).text
    assert decode(page.encode("utf-8").replace(b"windows-1251", b"utf-8"), html=True).note is None


@for_each("data", [b"\x7fELF\0\1\2\0\0\0\3", bytes(range(256)) * 20, b"text\0text", b"PK\3\4\0\0\xff" * 50])
def test_a_binary_file_is_not_text(data: bytes) -> None:
    """NULs that are no UTF-16 mean that there is nothing to read."""
    with pytest.raises(UnreadableDocument, match="binary"):
        decode(data)


def test_a_letter_cut_in_two_is_left_out() -> None:
    """A file that is read up to a limit may end inside a letter."""
    assert decode("aü".encode()[:-1]) == ("a", None)
    assert decode(codecs.BOM_UTF16_LE + b"a\0b") == ("a", None)


def test_lost_bytes_are_noted() -> None:
    """A file that declares an encoding and does not keep to it is read with a word."""
    decoded = decode(codecs.BOM_UTF8 + b"a\xffb")
    assert decoded.text == "a\ufffdb"
    assert "utf-8" in (decoded.note or "")


def test_lines_end_one_way_and_controls_are_blanks() -> None:
    """Offsets point into text with `\\n` line ends; a form feed or an escape does not reach a terminal."""
    assert decode(b"a\r\nb\rc\x0cd\x1b[31m\te").text == "a\nb\nc d [31m\te"


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_text_or_binary(data: bytes, html: bool) -> None:
    """Any bytes give text, or the result "binary"."""
    try:
        text = decode(data, html=html).text
    except UnreadableDocument:
        return
    assert "\0" not in text
    assert text.encode() is not None
