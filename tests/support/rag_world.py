"""A small index, pages and a scripted model, wired like the container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore

from modules.llm_platform.application.rag.answering import ContextResolver, DocumentLookup
from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.application.services.answer_service import AnswerOptions, AnswerService
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Collection,
    EmbeddedPassage,
    IndexedDocument,
    Passage,
    RagAnswer,
    RagQuestion,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.testing import FakePageReader
from modules.llm_platform.testing.page_reader import PageOutcome

COLLECTION = "documents"


@dataclass(frozen=True, slots=True)
class Indexed:
    """A document of the index: one passage for each text."""

    doc_id: str
    title: str
    texts: tuple[str, ...]
    url: str | None = None
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


SESSIONS = Indexed(
    "sessions",
    "Sessions",
    ("A session token stays valid for thirty minutes after the last request.",),
    "https://docs.example.org/sessions",
    {"tenant": ("acme",)},
)
ROLES = Indexed(
    "roles", "Roles", ("Only the owner of an account may renew a session token.",), None, {"tenant": ("acme",)}
)
SECRETS = Indexed(
    "secrets",
    "Umbrella's session secrets",
    ("The session token of Umbrella is rotated every night.",),
    "https://umbrella.example.org/",
    {"tenant": ("umbrella",)},
)


class RagWorld:
    """Without an `llm` the extractive writer answers. `writer` replaces any other one."""

    def __init__(
        self,
        documents: Sequence[Indexed] = (SESSIONS, ROLES),
        *,
        pages: Mapping[str, PageOutcome] | None = None,
        page_delay_s: float = 0.0,
        llm: ILLMProvider | None = None,
        writer: ISynthesizer | None = None,
        options: AnswerOptions | None = None,
    ) -> None:
        self._documents = documents
        self.store = MemoryVectorStore()
        self.reader = FakePageReader(pages or {}, delay_s=page_delay_s)
        self.embedder = HashEmbedder()
        self.retrieval = RetrievalService(self.embedder, self.store, COLLECTION, top_k=5)
        extractive = ExtractiveSynthesizer()
        self.answers = AnswerService(
            self.retrieval.search,
            ContextResolver(PageService(self.reader), DocumentLookup(self.store, COLLECTION)),
            writer or (LLMSynthesizer(llm) if llm else extractive),
            extractive,
            options,
        )

    async def indexed(self) -> RagWorld:
        """Return this world after its documents were indexed."""
        await self.store.prepare(
            Collection(name=COLLECTION, embedder=self.embedder.name, dimension=self.embedder.dimension)
        )
        for document in self._documents:
            vectors = await self.embedder.embed(document.texts)
            passages, start = [], 0
            for text, vector in zip(document.texts, vectors, strict=True):
                passages.append(EmbeddedPassage(_passage(document, text, start), vector))
                start += len(text)
            await self.store.replace(
                COLLECTION,
                IndexedDocument(
                    doc_id=document.doc_id,
                    sha256="0" * 64,
                    passages=len(passages),
                    title=document.title,
                    url=document.url,
                ),
                passages,
            )
        return self

    async def answer(self, question: str, *context: object, **more: object) -> RagAnswer:
        """Return the answer to this question from this context (ContextItem)."""
        asked = RagQuestion(question=question, context=context, **more)  # type: ignore[arg-type]
        return await self.answers.answer(asked)


def _passage(document: Indexed, text: str, start: int) -> Passage:
    return Passage(
        id=str(uuid5(NAMESPACE_URL, f"{document.doc_id}/{start}")),
        doc_id=document.doc_id,
        title=document.title,
        text=text,
        start=start,
        url=document.url,
        fields=dict(document.fields),
    )
