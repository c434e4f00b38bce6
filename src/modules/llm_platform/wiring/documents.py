"""Documents: the embedder, the vector store, the index of a named folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.wheels import has_wordllama_wheel, no_wordllama
from modules.llm_platform.wiring.resources import APP_NAME, Resources, data_folder, is_installed, is_loopback
from modules.llm_platform.wiring.search import (
    DOCUMENTS,
    INDEX_FOLDER,
    STORE_PACKAGES,
)
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress
    from modules.llm_platform.infrastructure.adapters.openai_embedder import EmbeddingConnection
    from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
    from modules.llm_platform.infrastructure.documents.index_directory import StoredFolderIndexes


ONLY_LOOPBACK_EMBEDDERS = (
    "Offline, only embedders on this machine are asked: set EMBEDDER=wordllama, or EMBEDDING_BASE_URL to one on loopback"
)
ONLY_LOOPBACK_INDEX = (
    "Offline, only an index on this machine is asked: leave out QDRANT_URL, or set it to a server on loopback"
)

LOCAL_EMBEDDERS = ("none", "wordllama")  # on this machine, free
WORDS_ALONE = 'found by words alone: pip install "llm-platform[retrieval]" to search documents by meaning too'
EMBEDDER_PACKAGES = ("wordllama", "numpy", "safetensors", "tokenizers")

FOLDERS = "folders"  # below the data folder: the indexes of named folders


def build_embedder(settings: Settings, resources: Resources) -> IEmbedder:
    if settings.EMBEDDER in LOCAL_EMBEDDERS:
        return _local_embedder(settings)
    from modules.llm_platform.infrastructure.adapters.openai_embedder import OpenAIEmbedder
    from modules.llm_platform.infrastructure.policies.unconfigured import UnconfiguredEmbedder

    connection = _embedding_connection(settings)
    if settings.LLM_PLATFORM_OFFLINE and not is_loopback(connection.address):
        return UnconfiguredEmbedder(settings.EMBEDDER, ONLY_LOOPBACK_EMBEDDERS)
    client = resources.client(connection.address, connection.timeout) if connection.address else None
    return OpenAIEmbedder(connection, client=client, redactor=resources.redactor)


def _embedding_connection(settings: Settings) -> EmbeddingConnection:
    """The service that embeds. A key that was given to the language model's service is sent to that one alone."""
    from modules.llm_platform.infrastructure.adapters.openai_embedder import OPENAI_URL, EmbeddingConnection

    s, azure = settings, settings.EMBEDDER == "azure"
    theirs = s.AZURE_OPENAI_ENDPOINT if azure else s.LLM_BASE_URL or OPENAI_URL
    address = s.EMBEDDING_BASE_URL or (s.AZURE_OPENAI_ENDPOINT if azure else OPENAI_URL)
    shared = s.AZURE_OPENAI_API_KEY if azure else s.LLM_API_KEY if s.LLM_KIND == "openai" else None
    key = s.EMBEDDING_API_KEY or (
        shared if address and urlsplit(address).netloc == urlsplit(theirs or "").netloc else None
    )
    connection = EmbeddingConnection(
        kind=s.EMBEDDER,
        model=s.EMBEDDING_MODEL or "",
        base_url=address,
        api_key=key.get_secret_value() if key else "",
        api_version=s.AZURE_OPENAI_API_VERSION,
    )
    of_azure = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "EMBEDDING_MODEL")
    return replace(connection, variables=of_azure) if azure and not s.EMBEDDING_BASE_URL else connection


def build_vector_store(settings: Settings, resources: Resources) -> IVectorStore:
    """The server that is named, else the embedded index below the data folder."""
    store: IVectorStore
    if settings.QDRANT_URL is None:
        store = _embedded_store(data_folder(settings) / INDEX_FOLDER)
    elif settings.LLM_PLATFORM_OFFLINE and not is_loopback(settings.QDRANT_URL):
        from modules.llm_platform.infrastructure.policies.unconfigured import UnconfiguredVectorStore

        store = UnconfiguredVectorStore("offline", ONLY_LOOPBACK_INDEX)
    else:
        from modules.llm_platform.infrastructure.adapters.qdrant_vector_store import QdrantVectorStore

        key = settings.QDRANT_API_KEY
        store = QdrantVectorStore(settings.QDRANT_URL, key.get_secret_value() if key else "")
    resources.closing(store.aclose)
    return store


def _embedded_store(folder: Path) -> IVectorStore:
    """Qdrant's engine where it is installed, else SQLite."""
    if not is_installed(STORE_PACKAGES):
        from modules.llm_platform.infrastructure.adapters.sqlite_vector_store import SqliteVectorStore

        return SqliteVectorStore(folder)
    from modules.llm_platform.infrastructure.adapters.embedded_vector_store import QdrantEdgeVectorStore

    return QdrantEdgeVectorStore(folder)


def build_document_source(settings: Settings, resources: Resources) -> FileDocumentSource:
    from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource

    return FileDocumentSource(settings.DOCUMENTS_BASE_URL, resources.redactor)


def build_folder_embedder(settings: Settings) -> IEmbedder:
    """A named folder is embedded on this machine: nothing of it leaves, and nothing costs money, whatever EMBEDDER is."""
    return _local_embedder(settings)


def _local_embedder(settings: Settings) -> IEmbedder:
    """The static vectors; words alone where those are not wanted, or not installed and not asked for by name."""
    from modules.llm_platform.infrastructure.policies.unconfigured import NoneEmbedder

    if settings.EMBEDDER == "none":
        return NoneEmbedder()
    if "EMBEDDER" not in settings.model_fields_set and not is_installed(EMBEDDER_PACKAGES):
        can_be_installed = is_installed(("wordllama",)) or has_wordllama_wheel()
        return NoneEmbedder(WORDS_ALONE if can_be_installed else f"found by words alone: {no_wordllama()}")
    from modules.llm_platform.infrastructure.adapters.wordllama_embedder import WordllamaEmbedder

    return WordllamaEmbedder()


def build_folder_index(
    settings: Settings, resources: Resources, files: FileDocumentSource, embedder: IEmbedder, store: IVectorStore | None
) -> FolderIndex | None:
    """The named folder as a collection of its own; None where there is no folder."""
    folder = settings.DOCUMENTS_DIR
    if folder is None:
        return None
    from modules.llm_platform.application.rag import indexing
    from modules.llm_platform.domain import bm25
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
    from modules.llm_platform.infrastructure.documents.index_directory import IndexDirectory, key_of

    engine = "" if store or is_installed(STORE_PACKAGES) else "sqlite"
    made_by = (engine, embedder.name, settings.DOCUMENTS_BASE_URL or "", indexing.FORM, str(bm25.FORM), _version())
    key = key_of((os.path.realpath(folder), *made_by))
    kept = settings.STORE_TTL_DAYS > 0 and store is None
    home = IndexDirectory(data_folder(settings) / FOLDERS if kept else None, key, settings.STORE_TTL_DAYS)
    collection = f"folder-{key}" if store else DOCUMENTS
    index = FolderIndex(folder, home, files, embedder, store=store, open_store=_embedded_store, collection=collection)
    resources.closing(index.aclose)
    return index


def folder_progress(index: FolderIndex | None) -> Callable[[], IndexProgress | None]:
    return lambda: index.reading if index else None


def build_stored_folder_indexes(settings: Settings) -> StoredFolderIndexes:
    from modules.llm_platform.infrastructure.documents.index_directory import StoredFolderIndexes

    return StoredFolderIndexes(data_folder(settings) / FOLDERS, settings.STORE_TTL_DAYS)


def _version() -> str:
    """What wrote an index: another version may read and cut documents in another way."""
    try:
        return metadata.version(APP_NAME)
    except metadata.PackageNotFoundError:
        return ""
