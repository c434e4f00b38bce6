"""PDFs for tests, written by hand so that what is in them can be seen."""

from __future__ import annotations

import io

from pypdf import PdfReader, PdfWriter


def pdf(*pages: str, title: str | None = None, password: str | None = None) -> bytes:
    """Return a PDF with one line of text per line and page."""
    writer = PdfWriter()
    for page in pages:
        writer.append(PdfReader(io.BytesIO(_one_page(page))))
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _one_page(text: str) -> bytes:
    lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n"))
    content = f"BT /F1 12 Tf 72 720 Td {lines} ET".encode("latin-1")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        out
        + b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(out)
    )
