"""Split a document into passages with stable ids."""

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid5

from modules.llm_platform.domain.dtos import indexing_dtos as dtos
from modules.llm_platform.domain.dtos.retrieval_dtos import IndexedDocument, Passage
from modules.llm_platform.domain.retrieval.chunking import HEADING_SEPARATOR, MAX_WORDS, split_chunks
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.text.page_starts import cut_page_starts

OVERLAP_WORDS: Final = 30  # two adjacent passages share this much, in complete sentences
LABEL_SEARCH_CHARS: Final = 400  # a heading in this part of the passage is not repeated in its label
FORM: Final = f"8/{MAX_WORDS}/{OVERLAP_WORDS}"  # a new value makes every document count as changed
LANGUAGE_SAMPLE_CHARS: Final = 2000
_PASSAGES: Final = UUID("8c1d2b57-6f0e-5f0c-9b57-2f6a4f1f3c77")  # the namespace of the ids


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """A document and its passages, as they are stored."""

    document: IndexedDocument
    passages: list[Passage]

    @property
    def to_embed(self) -> list[str]:
        """The texts of the passages for an embedder."""
        return [passage.searched for passage in self.passages]


def fingerprint(digest: str) -> str:
    """Return a hash that changes with the document and with the chunking."""
    return sha256(f"{FORM}:{digest}".encode()).hexdigest()


def chunk_document(doc_id: str, digest: str, read: dtos.DocumentText, origin: str | None = None) -> ChunkedDocument:
    """Split the text into passages of about MAX_WORDS that start at headings and end at sentences; none for an empty text."""
    lang = read.lang or detect_language(read.text[:LANGUAGE_SAMPLE_CHARS])
    fields = {**read.fields, "doc_id": (doc_id,)}
    if lang and "lang" not in fields:
        fields["lang"] = (lang,)
    if origin is not None:
        fields[dtos.ORIGIN_FIELD] = (origin,)
    occurrences: Counter[str] = Counter()
    passages = []
    for span in split_chunks(read.text, language=lang or "en", overlap=OVERLAP_WORDS):
        text = read.text[span.start : span.end]
        # The label has the title and the headings above the passage, without those that its beginning repeats.
        beginning = _normalize(text[:LABEL_SEARCH_CHARS])
        above = {_normalize(heading): heading for heading in (read.title, *span.heading.split(HEADING_SEPARATOR))}
        label = "\n".join(heading for plain, heading in above.items() if plain and plain not in beginning)
        passages.append(
            Passage(
                id=make_passage_id(doc_id, text, occurrences[text]),
                doc_id=doc_id,
                title=read.title,
                text=text,
                start=span.start,
                url=read.url,
                source=read.source,
                lang=lang,
                fields=fields,
                label=label,
                pages=cut_page_starts(read.pages, span.start, span.end),
            )
        )
        occurrences[text] += 1
    document = IndexedDocument(
        doc_id=doc_id,
        sha256=fingerprint(digest),
        passages=len(passages),
        title=read.title,
        url=read.url,
        origin=origin,
        form=FORM,
    )
    return ChunkedDocument(document, passages)


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()


def make_passage_id(doc_id: str, text: str, before: int) -> str:
    """Return an id that is equal for equal texts of one document.

    `before` counts the earlier passages of the document with this text.
    """
    return str(uuid5(_PASSAGES, "\0".join((doc_id, str(before), text)).encode("utf-8", "replace").decode()))
