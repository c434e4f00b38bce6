"""The index fulfils the contract of a web search provider, and its documents can be read as pages."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import pytest
from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore
from tests.support.cases import for_each
from tests.support.folder_ways import SlowStore

from modules.llm_platform.application.rag.retrieval import MAX_TOP_K, RetrievalService
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage, IndexedDocument, Passage
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
    VectorStoreConfigError,
    VectorStoreError,
    WebSearchConfigError,
    WebSearchConnectionError,
)
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.domain.retrieval.merge_passages import merge_document_text
from modules.llm_platform.infrastructure.documents import web_search as document_web_search
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.routed_page_reader import RoutedPageReader
from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch
from modules.llm_platform.testing import FakePageReader, SearchCase, SlowSearch, WebSearchProviderContract
from shared.exceptions import AppException

EMBEDDER = HashEmbedder()
FACTS = Collection(name="documents", embedder=EMBEDDER.name, dimension=EMBEDDER.dimension)
URLS = {"web": "https://example.org/web", "odd": "s3://bucket/odd", "file.md": "doc:file.md", "nowhere at all": None}


async def filled(store: MemoryVectorStore) -> MemoryVectorStore:
    await store.prepare(FACTS)
    for doc_id, url in URLS.items():
        texts = [f"The gateway of {doc_id} restarts.", "More words.", "The gateway restarts after a timeout."]
        starts = [0, 40, 60]
        passages = [
            Passage(id=f"{doc_id}-{n}", doc_id=doc_id, title=f"About {doc_id}", text=text, start=start, url=url)
            for n, (text, start) in enumerate(zip(texts, starts, strict=True))
        ]
        vectors = await EMBEDDER.embed(texts)
        embedded = [EmbeddedPassage(*pair) for pair in zip(passages, vectors, strict=True)]
        await store.replace("documents", IndexedDocument(doc_id=doc_id, sha256="0", passages=3), embedded)
    return store


async def whole(store: MemoryVectorStore, url: str) -> str:
    doc_id = next(name for name, address in URLS.items() if url in (address, f"doc:{name}"))
    return merge_document_text(await store.passages("documents", doc_id)).text


def over(store: MemoryVectorStore) -> DocumentWebSearch:
    return DocumentWebSearch(RetrievalService(EMBEDDER, store, "documents", top_k=5))


@pytest.fixture
async def store() -> MemoryVectorStore:
    return await filled(MemoryVectorStore())


@pytest.fixture
def provider(store: MemoryVectorStore) -> DocumentWebSearch:
    return over(store)


class TestIndexWebSearch(WebSearchProviderContract):
    is_remote = False

    @pytest.fixture
    def provider(self, store: MemoryVectorStore) -> DocumentWebSearch:
        return over(store)

    @pytest.fixture
    def findable(self) -> WebSearchRequest:
        return WebSearchRequest(query="When does the gateway restart?")

    @pytest.fixture
    def nothing_to_find(self, store: MemoryVectorStore) -> SearchCase:
        retrieval = RetrievalService(NoneEmbedder(), store, "documents", top_k=5)
        return SearchCase(DocumentWebSearch(retrieval), WebSearchRequest(query="photosynthesis"))

    @pytest.fixture
    def unreachable(self) -> SearchCase:
        return SearchCase(over(MemoryVectorStore(error=VectorStoreError())), WebSearchRequest(query="gateway"))

    @pytest.fixture
    async def slow(self) -> SlowSearch:
        store = SlowStore()
        await store.prepare(FACTS)
        return SlowSearch(over(store), lambda: store.running)


class TestWhatIsShown:
    async def test_each_document_once_under_an_address_that_can_be_opened(self, provider: DocumentWebSearch) -> None:
        """The address is the document's own if it has one, and otherwise `doc:` with its id."""
        answer = await provider.search(WebSearchRequest(query="the gateway restarts"))
        assert {item.url for item in answer.results} == {
            "https://example.org/web",
            "doc:odd",
            "doc:file.md",
            "doc:nowhere%20at%20all",
        }
        assert answer.total_matches == 4
        assert {provider.find_document_id(item.url) for item in answer.results} == URLS.keys()
        assert provider.find_document_id("https://example.org/other") is None

    async def test_pages(self, provider: DocumentWebSearch) -> None:
        """Pages follow each other without repetition. Beyond the limit the answer gives the reason for being empty."""
        pages = [
            await provider.search(WebSearchRequest(query="the gateway restarts", count=3, page=page)) for page in (1, 2)
        ]
        assert [len(page.results) for page in pages] == [3, 1]
        assert len({item.url for page in pages for item in page.results}) == 4
        far = await provider.search(WebSearchRequest(query="gateway", count=50, page=MAX_TOP_K // 50 + 1))
        assert (far.results, [degradation.component for degradation in far.degraded]) == ((), ["documents"])

    async def test_ignored_parts_of_a_request_are_reported(self, provider: DocumentWebSearch) -> None:
        """The report is the same as for a folder of documents."""
        answer = await provider.search(WebSearchRequest(query="gateway", freshness="oneDay", engines=("google",)))
        assert len(answer.degraded) == 2

    async def test_a_missing_collection_names_the_remedy(self) -> None:
        """Searching and the health check both name the remedy."""
        asked = over(MemoryVectorStore())
        for asking in (asked.search(WebSearchRequest(query="gateway")), asked.ping()):
            with pytest.raises(WebSearchConfigError, match="llm-platform index"):
                await asking

    async def test_health(self, provider: DocumentWebSearch) -> None:
        """The health check names the collection, and fails if the store fails."""
        assert await provider.ping() == "collection documents, by hash/64"
        with pytest.raises(WebSearchConnectionError):
            await over(MemoryVectorStore(error=VectorStoreError())).ping()

    async def test_neighbours_that_answer_too_are_shown(self, store: MemoryVectorStore) -> None:
        """Neighbouring passages are shown as one part of the document, however few documents are requested."""
        for count in (1, 4):
            answer = await over(store).search(WebSearchRequest(query="the gateway of web restarts", count=count))
            assert answer.results[0].snippet in await whole(store, answer.results[0].url)
            assert answer.results[0].snippet.startswith("The gateway of web restarts.")

    @pytest.mark.parametrize(("query", "found"), [("What about photosynthesis?", 0), ("Where does it restart?", 4)])
    async def test_similar_meaning_alone_is_not_found(self, store: MemoryVectorStore, query: str, found: int) -> None:
        """If vectors are not conclusive, a hit must contain a content word of the question."""
        retrieval = RetrievalService(EMBEDDER, store, "documents", top_k=5)
        strict = DocumentWebSearch(retrieval, needs_words=True)
        wanted = WebSearchRequest(query=query.replace("restart?", "gateway?"))
        assert len((await strict.search(wanted)).results) == found
        assert len((await over(store).search(wanted)).results) == 4

    async def test_a_secret_is_redacted_in_answers(self, store: MemoryVectorStore) -> None:
        """This includes a secret that was configured after the document was indexed, and the document's page."""
        retrieval = RetrievalService(EMBEDDER, store, "documents", top_k=5)
        redacting = DocumentWebSearch(retrieval, redactor=Redactor(["gateway restarts"]))
        answer = await redacting.search(WebSearchRequest(query="the gateway restarts"))
        assert answer.results
        assert "gateway restarts" not in answer.model_dump_json(exclude={"query"})
        page = await DocumentPageReader(redacting).read(answer.results[0].url)
        assert "gateway restarts" not in page.text

    async def test_the_number_of_remembered_addresses_is_limited(
        self, provider: DocumentWebSearch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The oldest addresses are forgotten first."""
        monkeypatch.setattr(document_web_search, "MAX_SHOWN", 2)
        answer = await provider.search(WebSearchRequest(query="the gateway restarts"))
        web = [item.url for item in answer.results if item.url.startswith("https:")]
        await provider.search(WebSearchRequest(query="the gateway of file.md restarts", count=3))
        await provider.search(WebSearchRequest(query="gateway nowhere odd file.md", count=4))
        assert provider.find_document_id(answer.results[-1].url) in URLS
        assert len(provider._shown) == 2, web


class TestPages:
    async def test_the_whole_text(self, provider: DocumentWebSearch) -> None:
        """The text of a document with a web address is not fetched either."""
        reader = DocumentPageReader(provider)
        answer = await provider.search(WebSearchRequest(query="the gateway restarts"))
        for item in answer.results:
            assert reader.serves(item.url)
            page = await reader.read(item.url)
            assert page.url == item.url
            assert page.text.endswith("More words.\n\nThe gateway restarts after a timeout.")
            assert item.snippet in page.text
            assert page.sha256 == sha256(page.text.encode()).hexdigest()
            assert (page.title, page.reader) == (item.title, "documents")

    @pytest.mark.parametrize(
        ("url", "error"), [("https://example.org/unseen", PageRequestError), ("doc:not-there", PageError)]
    )
    async def test_a_missing_document(self, provider: DocumentWebSearch, url: str, error: type[AppException]) -> None:
        """An address that no search has returned is unknown, and a known one may have been deleted."""
        reader = DocumentPageReader(provider)
        assert reader.serves(url) == url.startswith("doc:")
        with pytest.raises(error) as raised:
            await reader.read(url)
        assert url.partition(":")[2] not in raised.value.message

    async def test_the_address_decides_who_reads(self, provider: DocumentWebSearch) -> None:
        """Addresses found by the index are read from the index, and other addresses from the web."""
        web = FakePageReader({"https://example.org/web": "From the web.", "https://example.org/other": "Other."})
        reader = RoutedPageReader(DocumentPageReader(provider), web)
        assert (await reader.read("https://example.org/web")).text == "From the web."
        await provider.search(WebSearchRequest(query="the gateway restarts"))
        assert (await reader.read("https://example.org/web")).reader == "documents"
        assert (await reader.read("doc:file.md")).reader == "documents"
        assert (await reader.read("https://example.org/other")).reader == "fake"

    @pytest.mark.parametrize(
        ("failure", "error"),
        [(VectorStoreError(), PageConnectionError), (VectorStoreConfigError("set it up"), PageConfigError)],
    )
    async def test_a_failed_store(self, failure: AppException, error: type[AppException]) -> None:
        """The error is a page error."""
        with pytest.raises(error):
            await DocumentPageReader(over(MemoryVectorStore(error=failure))).read("doc:a")


@for_each(
    ("parts", "text"),
    [
        ([(0, "One two.")], "One two."),
        ([(0, "One two."), (4, "two. Three.")], "One two. Three."),
        ([(3, "One."), (9, "Two.")], "One.\n\nTwo."),
        ([(0, "One two three."), (4, "two"), (14, " Four.")], "One two three. Four."),
        ([], ""),
    ],
)
def test_passages_are_joined(parts: Sequence[tuple[int, str]], text: str) -> None:
    """Text in two overlapping passages occurs once in the result."""
    passages = [
        Passage(id=str(n), doc_id="a", title="A", text=text, start=start) for n, (start, text) in enumerate(parts)
    ]
    assert merge_document_text(passages).text == text
