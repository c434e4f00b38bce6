"""Metadata of a PDF about its author and programs is not read, so no answer or export contains it."""

from __future__ import annotations

import io
import json

from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, StreamObject
from tests.unit.infrastructure.parsing.pdf_samples import pdf

from modules.llm_platform.infrastructure.parsing.pdf import read_pdf

SECRET = "Wilhelmina"
FIELDS = ("/Author", "/Subject", "/Keywords", "/Creator", "/Producer", "/Company", "/Manager", "/LastModifiedBy")
XMP = f"""<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:creator><rdf:Seq><rdf:li>{SECRET}</rdf:li></rdf:Seq>
</dc:creator><dc:title><rdf:Alt><rdf:li xml:lang="x-default">{SECRET}'s draft</rdf:li></rdf:Alt></dc:title></rdf:Description>
</rdf:RDF></x:xmpmeta><?xpacket end="w"?>"""


def test_only_the_title_of_the_metadata_is_read() -> None:
    """The text comes without author, program, keywords and XMP."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("Tea is a drink."))))
    writer.add_metadata({"/Title": "On tea", **dict.fromkeys(FIELDS, SECRET)})
    stream = StreamObject()
    stream.set_data(XMP.encode())
    stream.update({NameObject("/Type"): NameObject("/Metadata"), NameObject("/Subtype"): NameObject("/XML")})
    writer.root_object[NameObject("/Metadata")] = writer._add_object(stream)
    written = io.BytesIO()
    writer.write(written)
    metadata = PdfReader(io.BytesIO(written.getvalue()))
    assert metadata.metadata is not None
    assert metadata.metadata.author == SECRET
    assert metadata.xmp_metadata is not None
    assert metadata.xmp_metadata.dc_creator == [SECRET]
    found = read_pdf(written.getvalue())
    assert (found["title"], found["text"]) == ("On tea", "Tea is a drink.")
    assert SECRET not in json.dumps(found)
