"""A document's text as passages with stable ids."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid5

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText
from modules.llm_platform.domain.dtos.retrieval_dtos import IndexedDocument, Passage
from modules.llm_platform.domain.language import detect
from modules.llm_platform.domain.passage_packing import TRAIL
from modules.llm_platform.domain.passages import MAX_WORDS, split_passages

OVERLAP_WORDS: Final = 30  # whole sentences that stand in two passages, so that neither begins amid a thought
LABEL_UNLESS_IN_CHARS: Final = 400  # of a passage: what its beginning says is not said again before it
FORM: Final = f"4/{MAX_WORDS}/{OVERLAP_WORDS}"  # another one, and every document counts as changed
TOLD_BY_CHARS: Final = 2000  # enough to tell the language by, which sentences are split for

_PASSAGES: Final = UUID("8c1d2b57-6f0e-5f0c-9b57-2f6a4f1f3c77")  # the namespace of the ids


@dataclass(frozen=True, slots=True)
class CutDocument:
    """A document as it is stored."""

    document: IndexedDocument
    passages: list[Passage]

    @property
    def to_embed(self) -> list[str]:
        """What an embedder reads of each passage."""
        return [each.searched for each in self.passages]


def fingerprint(digest: str) -> str:
    """What tells that a document, or how we cut it, has changed."""
    return sha256(f"{FORM}:{digest}".encode()).hexdigest()


def cut(doc_id: str, digest: str, read: DocumentText, origin: str | None = None) -> CutDocument:
    """Passages of about MAX_WORDS that begin at headings and end at sentences. Empty where the text is."""
    lang = read.lang or detect(read.text[:TOLD_BY_CHARS])
    fields = {**read.fields, **({"lang": (lang,)} if lang and "lang" not in read.fields else {})}
    times: Counter[str] = Counter()
    passages = []
    for span in split_passages(read.text, language=lang or "en", overlap=OVERLAP_WORDS):
        text = read.text[span.start : span.end]
        passages.append(
            Passage(
                id=passage_id(doc_id, text, times[text]), doc_id=doc_id, title=read.title, text=text, start=span.start,
                url=read.url, source=read.source, lang=lang, fields=fields, label=_label(read.title, span.heading, text),
            )
        )  # fmt: skip
        times[text] += 1
    document = IndexedDocument(
        doc_id=doc_id, sha256=fingerprint(digest), passages=len(passages), title=read.title, url=read.url,
        origin=origin,
    )  # fmt: skip
    return CutDocument(document, passages)


def _label(title: str, headings: str, text: str) -> str:
    """The title and the headings above, each once, without those that the passage's beginning says anyway: a file that begins
    with its title would count it twice.
    """
    beginning = _plain(text[:LABEL_UNLESS_IN_CHARS])
    wanted = {_plain(each): each for each in (title, *headings.split(TRAIL))}
    return "\n".join(each for plain, each in wanted.items() if plain and plain not in beginning)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def passage_id(doc_id: str, text: str, before: int) -> str:
    """The same for the same words of the same document; `before` is how often they stood in it already."""
    return str(uuid5(_PASSAGES, "\0".join((doc_id, str(before), text)).encode("utf-8", "replace").decode()))
