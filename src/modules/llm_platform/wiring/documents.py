"""Documents: the embedder, the vector store, the index of the folder DOCUMENTS_DIR."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modules.llm_platform.application.research.files import OpenedFiles, OpenFiles
from modules.llm_platform.domain.dtos.uploaded_file_dtos import UploadedFile
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.package import has_wordllama_wheel, no_wordllama, package_version
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.wiring.resources import Resources, data_folder, is_installed, is_loopback
from modules.llm_platform.wiring.search import INDEX_FOLDER, STORE_PACKAGES
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress
    from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
    from modules.llm_platform.infrastructure.documents.folder_state import FolderStates
    from modules.llm_platform.infrastructure.documents.index_directory import StoredFolderIndexes
    from modules.llm_platform.infrastructure.models.openai.embedder import EmbeddingConnection


ONLY_LOOPBACK_EMBEDDERS = (
    "Offline mode: only embedders on this machine are used. Set EMBEDDER=wordllama, or set EMBEDDING_BASE_URL to a "
    "loopback URL"
)
ONLY_LOOPBACK_INDEX = (
    "Offline mode: only an index on this machine is used. Remove QDRANT_URL, or set it to a loopback URL"
)

LOCAL_EMBEDDERS = ("none", "wordllama")  # free of charge
KEYWORDS_ONLY = "No embedding model is installed: keyword search only."
INSTALL_EMBEDDER = 'Install one for hybrid search: pip install "llm-platform[retrieval]"'
EMBEDDER_PACKAGES = ("wordllama", "numpy", "safetensors", "tokenizers")

FOLDER_INDEXES = "folders"  # below the data folder


def build_embedder(settings: Settings, resources: Resources) -> IEmbedder:
    if settings.EMBEDDER in LOCAL_EMBEDDERS:
        return build_local_embedder(settings)
    from modules.llm_platform.infrastructure.models.openai.embedder import OpenAIEmbedder
    from modules.llm_platform.infrastructure.unconfigured import unconfigured_embedder

    connection = _embedding_connection(settings)
    if settings.LLM_PLATFORM_OFFLINE and not is_loopback(connection.address):
        return unconfigured_embedder(settings.EMBEDDER, ONLY_LOOPBACK_EMBEDDERS)
    client = resources.client(connection.address, connection.timeout) if connection.address else None
    return OpenAIEmbedder(connection, client=client, redactor=resources.redactor)


def _embedding_connection(settings: Settings) -> EmbeddingConnection:
    """Return the embedding service. The key of the LLM service is used only for the same host."""
    from modules.llm_platform.infrastructure.models.kinds import OPENAI_URL
    from modules.llm_platform.infrastructure.models.openai.embedder import EmbeddingConnection

    s, azure = settings, settings.EMBEDDER == "azure"
    llm_url = s.AZURE_OPENAI_ENDPOINT if azure else s.LLM_BASE_URL or OPENAI_URL
    address = s.EMBEDDING_BASE_URL or (s.AZURE_OPENAI_ENDPOINT if azure else OPENAI_URL)
    llm_key = s.AZURE_OPENAI_API_KEY if azure else s.LLM_API_KEY if s.LLM_KIND == "openai" else None
    key = s.EMBEDDING_API_KEY or (
        llm_key if address and urlsplit(address).netloc == urlsplit(llm_url or "").netloc else None
    )
    connection = EmbeddingConnection(
        kind=s.EMBEDDER,
        model=s.EMBEDDING_MODEL or "",
        base_url=address,
        api_key=key.get_secret_value() if key else "",
        api_version=s.AZURE_OPENAI_API_VERSION,
    )
    azure_variables = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "EMBEDDING_MODEL")
    return replace(connection, variables=azure_variables) if azure and not s.EMBEDDING_BASE_URL else connection


def build_vector_store(settings: Settings, resources: Resources) -> IVectorStore:
    """Return the Qdrant server QDRANT_URL, or the embedded index below the data folder."""
    store: IVectorStore
    if settings.QDRANT_URL is None:
        store = _embedded_store(data_folder(settings) / INDEX_FOLDER)
    elif settings.LLM_PLATFORM_OFFLINE and not is_loopback(settings.QDRANT_URL):
        from modules.llm_platform.infrastructure.unconfigured import unconfigured_vector_store

        store = unconfigured_vector_store("offline", ONLY_LOOPBACK_INDEX)
    else:
        from modules.llm_platform.infrastructure.index.qdrant.vector_store import QdrantVectorStore

        key = settings.QDRANT_API_KEY
        store = QdrantVectorStore(settings.QDRANT_URL, key.get_secret_value() if key else "")
    resources.on_close(store.aclose)
    return store


def _embedded_store(folder: Path) -> IVectorStore:
    """Return the embedded Qdrant if it is installed, otherwise SQLite."""
    if not is_installed(STORE_PACKAGES):
        from modules.llm_platform.infrastructure.index.sqlite_vector_store import SqliteVectorStore

        return SqliteVectorStore(folder)
    from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore

    return QdrantEdgeVectorStore(folder)


def build_document_source(settings: Settings, resources: Resources) -> FileDocumentSource:
    from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource

    states = _folder_states(settings) if settings.QDRANT_URL is None else None
    return FileDocumentSource(settings.DOCUMENTS_BASE_URL, resources.redactor, states, resources.parsers())


def _folder_states(settings: Settings) -> FolderStates:
    """What is known of the folders in the embedded index."""
    from modules.llm_platform.infrastructure.documents.folder_state import FolderStates, key_of

    made_by = key_of((settings.DOCUMENTS_BASE_URL or "", package_version()))  # another version may parse and chunk differently
    return FolderStates(data_folder(settings) / INDEX_FOLDER / settings.QDRANT_COLLECTION, made_by)


def build_local_embedder(settings: Settings) -> IEmbedder:
    """Return wordllama whatever EMBEDDER is: the texts of a folder do not leave the machine. Keyword search only if
    EMBEDDER=none, or if it is neither installed nor requested.
    """
    from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder

    if settings.EMBEDDER == "none":
        return NoneEmbedder()
    if "EMBEDDER" not in settings.model_fields_set and not is_installed(EMBEDDER_PACKAGES):
        can_be_installed = is_installed(("wordllama",)) or has_wordllama_wheel()
        return NoneEmbedder(f"{KEYWORDS_ONLY} {INSTALL_EMBEDDER if can_be_installed else no_wordllama()}")
    from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder

    return WordllamaEmbedder()


def build_folder_index(
    settings: Settings, resources: Resources, files: FileDocumentSource, embedder: IEmbedder, store: IVectorStore | None
) -> FolderIndex | None:
    """Return the index of DOCUMENTS_DIR; None without a folder. It is the embedded index where `llm-platform index` put the
    folder there with an embedder of this machine, else a collection of its own.
    """
    folder = settings.DOCUMENTS_DIR
    if folder is None:
        return None
    from modules.llm_platform.application.rag import intake
    from modules.llm_platform.domain.retrieval import bm25
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex, SharedIndex
    from modules.llm_platform.infrastructure.documents.folder_state import key_of
    from modules.llm_platform.infrastructure.documents.index_directory import IndexDirectory

    engine = "" if store or is_installed(STORE_PACKAGES) else "sqlite"
    key_parts = (engine, embedder.name, settings.DOCUMENTS_BASE_URL or "", intake.FORM, str(bm25.FORM), package_version())
    key = key_of((os.path.realpath(folder), *key_parts))
    is_stored = settings.STORE_TTL_DAYS > 0 and store is None
    directory = IndexDirectory(
        data_folder(settings) / FOLDER_INDEXES if is_stored else None, key, settings.STORE_TTL_DAYS
    )
    collection = f"folder-{key}" if store else DOCUMENTS
    shared = None
    if store is None and settings.QDRANT_URL is None and settings.EMBEDDER in LOCAL_EMBEDDERS:
        shared = SharedIndex(data_folder(settings) / INDEX_FOLDER, settings.QDRANT_COLLECTION, _folder_states(settings))
    index = FolderIndex(
        folder, directory, files, embedder,
        shared=shared, store=store, open_store=_embedded_store, collection=collection,
    )
    resources.on_close(index.aclose)
    return index


def build_open_files(resources: Resources, embedder: IEmbedder) -> OpenFiles:
    """Return the function that opens the files of a request. `embedder` is on this machine: their texts do not leave it."""

    def open_files(files: Sequence[UploadedFile]) -> AbstractAsyncContextManager[OpenedFiles]:
        from modules.llm_platform.infrastructure.documents.uploaded_files import opened_files
        from modules.llm_platform.infrastructure.index.sqlite_vector_store import SqliteMemoryVectorStore

        return opened_files(files, embedder, SqliteMemoryVectorStore, resources.redactor, resources.parsers())

    return open_files


def folder_progress(index: FolderIndex | None) -> Callable[[], IndexProgress | None]:
    return lambda: index.progress if index else None


def build_stored_folder_indexes(settings: Settings) -> StoredFolderIndexes:
    from modules.llm_platform.infrastructure.documents.index_directory import StoredFolderIndexes

    return StoredFolderIndexes(data_folder(settings) / FOLDER_INDEXES, settings.STORE_TTL_DAYS)
