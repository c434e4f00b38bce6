"""The embedder of EMBEDDER, and the one for texts that do not leave this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modules.llm_platform.domain.package import has_wordllama_wheel, no_wordllama
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.models.kinds import OPENAI_URL
from modules.llm_platform.infrastructure.resources import Resources, is_installed, is_out_of_reach, reveal_secret
from shared.config import Settings
from shared.setting_types import LOCAL_EMBEDDERS

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.models.openai.embedder import EmbeddingConnection

KEYWORDS_ONLY = "No embedding model is installed: keyword search only."
INSTALL_EMBEDDER = 'Install one for hybrid search: pip install "llm-platform[retrieval]"'
EMBEDDER_PACKAGES = ("wordllama", "numpy", "safetensors", "tokenizers")
ONLY_LOOPBACK_EMBEDDERS = (
    "Offline mode: only embedders on this machine are used. Set EMBEDDER=wordllama, or set EMBEDDING_BASE_URL to a "
    "loopback URL"
)


def build_embedder(settings: Settings, resources: Resources) -> IEmbedder:
    if settings.EMBEDDER in LOCAL_EMBEDDERS:
        return build_local_embedder(settings)
    from modules.llm_platform.infrastructure.models.openai.embedder import OpenAIEmbedder
    from modules.llm_platform.infrastructure.unconfigured import unconfigured_embedder

    connection = _connect_embedder(settings)
    if is_out_of_reach(settings, connection.address):
        return unconfigured_embedder(settings.EMBEDDER, ONLY_LOOPBACK_EMBEDDERS)
    client = resources.client(connection.address, connection.timeout) if connection.address else None
    return OpenAIEmbedder(connection, client=client, redactor=resources.redactor)


def _connect_embedder(settings: Settings) -> EmbeddingConnection:
    """Return the embedding service. The key of the LLM service is used only for the same host."""
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
        api_key=reveal_secret(key),
        api_version=s.AZURE_OPENAI_API_VERSION,
    )
    azure_variables = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "EMBEDDING_MODEL")
    return replace(connection, variables=azure_variables) if azure and not s.EMBEDDING_BASE_URL else connection


def build_local_embedder(settings: Settings) -> IEmbedder:
    """Return wordllama whatever EMBEDDER is: the texts of a folder do not leave the machine. Keyword search only if
    EMBEDDER=none, or if it is neither installed nor requested.
    """
    if settings.EMBEDDER == "none":
        return NoneEmbedder()
    if "EMBEDDER" not in settings.model_fields_set and not is_installed(EMBEDDER_PACKAGES):
        can_be_installed = is_installed(("wordllama",)) or has_wordllama_wheel()
        return NoneEmbedder(f"{KEYWORDS_ONLY} {INSTALL_EMBEDDER if can_be_installed else no_wordllama()}")
    from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder

    return WordllamaEmbedder()
