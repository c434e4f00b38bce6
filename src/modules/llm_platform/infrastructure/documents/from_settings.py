"""Documents: the files of folders, the index of DOCUMENTS_DIR, the search in both, and the files of a request."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modules.llm_platform.application.research.find.files import OpenedFiles, OpenFiles
from modules.llm_platform.domain.dtos.uploaded_file_dtos import UploadedFile
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.package import package_version
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.resources import (
    INDEX_FOLDER,
    STORE_PACKAGES,
    Resources,
    get_data_folder,
    has_documents,
    is_installed,
)
from shared.config import Settings
from shared.setting_types import LOCAL_EMBEDDERS

if TYPE_CHECKING:
    from modules.llm_platform.application.rag.retrieval import RetrievalService
    from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress
    from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
    from modules.llm_platform.infrastructure.documents.folder_state import FolderStates
    from modules.llm_platform.infrastructure.documents.index_directory import StoredFolderIndexes

FOLDER_INDEXES: Final = "folders"  # folder below the data folder
OR_A_FOLDER: Final = "; or set DOCUMENTS_DIR, or pass --documents DIR"


def build_document_source(settings: Settings, resources: Resources) -> FileDocumentSource:
    from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource

    states = _build_folder_states(settings) if settings.QDRANT_URL is None else None
    return FileDocumentSource(settings.DOCUMENTS_BASE_URL, resources.redactor, states, resources.parsers())


def _build_folder_states(settings: Settings) -> FolderStates:
    """Return what is known of the folders in the embedded index."""
    from modules.llm_platform.infrastructure.documents.folder_state import FolderStates, make_key

    # Another version may parse and chunk differently.
    made_by = make_key((settings.DOCUMENTS_BASE_URL or "", package_version()))
    return FolderStates(get_data_folder(settings) / INDEX_FOLDER / settings.QDRANT_COLLECTION, made_by)


def build_folder_index(
    settings: Settings,
    resources: Resources,
    files: FileDocumentSource,
    embedder: IEmbedder,
    store: IVectorStore | None,
    open_store: Callable[[Path], IVectorStore],
) -> FolderIndex | None:
    """Return the index of DOCUMENTS_DIR, or None without a folder.

    If `llm-platform index` put the folder into the embedded index, with an embedder of this machine, it is that index.
    Otherwise it is a collection of the folder's own.
    """
    folder = settings.DOCUMENTS_DIR
    if folder is None:
        return None
    from modules.llm_platform.application.rag.passages import FORM
    from modules.llm_platform.domain.retrieval import bm25
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex, SharedIndex
    from modules.llm_platform.infrastructure.documents.folder_state import make_key
    from modules.llm_platform.infrastructure.documents.index_directory import IndexDirectory

    engine = "" if store or is_installed(STORE_PACKAGES) else "sqlite"
    key_parts = (engine, embedder.name, settings.DOCUMENTS_BASE_URL or "", FORM, str(bm25.FORM), package_version())
    key = make_key((os.path.realpath(folder), *key_parts))
    is_stored = settings.STORE_TTL_DAYS > 0 and store is None
    base = get_data_folder(settings) / FOLDER_INDEXES if is_stored else None
    directory = IndexDirectory(base, key, settings.STORE_TTL_DAYS)
    collection = f"folder-{key}" if store else DOCUMENTS
    shared = None
    if store is None and settings.QDRANT_URL is None and settings.EMBEDDER in LOCAL_EMBEDDERS:
        shared = SharedIndex(
            get_data_folder(settings) / INDEX_FOLDER, settings.QDRANT_COLLECTION, _build_folder_states(settings)
        )
    built = FolderIndex(
        folder, directory, files, embedder, shared=shared, store=store, open_store=open_store, collection=collection
    )
    return resources.closing(built)


def build_open_files(resources: Resources, embedder: IEmbedder, open_store: Callable[[], IVectorStore]) -> OpenFiles:
    """Return the function that opens the files of a request. `embedder` is on this machine: their texts do not leave it."""

    def open_files(files: Sequence[UploadedFile]) -> AbstractAsyncContextManager[OpenedFiles]:
        from modules.llm_platform.infrastructure.documents.uploaded_files import open_uploaded_files

        return open_uploaded_files(files, embedder, open_store, resources.redactor, resources.parsers())

    return open_files


def build_folder_progress(index: FolderIndex | None) -> Callable[[], IndexProgress | None]:
    return lambda: index.progress if index else None


def build_stored_folder_indexes(settings: Settings) -> StoredFolderIndexes:
    from modules.llm_platform.infrastructure.documents.index_directory import StoredFolderIndexes

    return StoredFolderIndexes(get_data_folder(settings) / FOLDER_INDEXES, settings.STORE_TTL_DAYS)


def build_document_search(
    settings: Settings,
    resources: Resources,
    retrieval: RetrievalService,
    folder_index: FolderIndex | None,
    *,
    needs_words: bool,
) -> IWebSearchProvider:
    """Return the search in the folder DOCUMENTS_DIR, or in the indexed collection, which may not exist yet."""
    from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

    return DocumentWebSearch(
        folder_index or retrieval,
        settings.DOCUMENTS_BASE_URL,
        resources.redactor,
        "" if has_documents(settings) else OR_A_FOLDER,
        needs_words=needs_words,
    )


def build_report_page_reader(documents: IWebSearchProvider | None, web: IPageReader) -> IPageReader:
    """Return a reader that reads found documents from their index and other pages with `web`."""
    from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
    from modules.llm_platform.infrastructure.documents.routed_page_reader import RoutedPageReader
    from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

    return RoutedPageReader(DocumentPageReader(documents) if isinstance(documents, DocumentWebSearch) else None, web)
