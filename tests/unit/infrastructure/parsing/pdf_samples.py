"""Handwritten PDFs for tests, so that their content is readable."""

from __future__ import annotations

import io
from collections.abc import Sequence

from pypdf import PdfReader, PdfWriter


def pdf(*pages: str, title: str | None = None, password: str | None = None, algorithm: str = "RC4-128") -> bytes:
    """Return a PDF with one line of text per line and page. With an empty password it is encrypted and opens without one."""
    lines = (" ".join(f"({line}) Tj 0 -14 Td" for line in page.split("\n")) for page in pages)
    return _pdf([f"BT /F1 12 Tf 72 720 Td {page} ET" for page in lines], title, password, algorithm)


def laid_out_pdf(*pages: str) -> bytes:
    """Return a PDF with texts at given positions: lines of `x y size font text`, where F2 is the bold font."""
    contents = []
    for page in pages:
        placed = (line.strip().split(" ", 4) for line in page.strip().split("\n"))
        contents.append(
            "\n".join(f"BT /{font} {size} Tf {x} {y} Td ({text}) Tj ET" for x, y, size, font, text in placed)
        )
    return _pdf(contents)


def drawn_pdf(page: str) -> bytes:
    """Return a PDF like `laid_out_pdf` that moves the origin of the page before each text."""
    placed = (line.strip().split(" ", 4) for line in page.strip().split("\n"))
    moved = (
        f"q 1 0 0 1 {x} {y} cm BT 1 0 0 1 0 2 Tm /{font} {size} Tf ({text}) Tj ET Q"
        for x, y, size, font, text in placed
    )
    return _pdf(["\n".join(moved)])


def _pdf(
    contents: Sequence[str], title: str | None = None, password: str | None = None, algorithm: str = "RC4-128"
) -> bytes:
    writer = PdfWriter()
    for content in contents:
        writer.append(PdfReader(io.BytesIO(_one_page(content.encode("latin-1")))))
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, "owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _one_page(content: bytes) -> bytes:
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R /F2 6 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        out
        + b"xref\n0 7\n0000000000 65535 f \n"
        + table
        + b"trailer\n<< /Size 7 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(out)
    )
