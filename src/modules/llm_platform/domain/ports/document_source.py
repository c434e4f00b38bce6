"""The port of document sources for indexing."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from modules.llm_platform.domain.dtos.indexing_dtos import FoundDocument, LeftOut


class IDocumentWalk(ABC):
    """One way through documents. It blocks, and is used by one thread; `stop` alone may be called from any."""

    total_bytes: int  # size of all documents
    origins: Collection[str] | None = None  # those whose documents it gives completely; None: documents have no origins
    remarks: Sequence[tuple[str, str]] = ()  # what there is to say of a place beside the documents

    @abstractmethod
    def __iter__(self) -> Iterator[FoundDocument | LeftOut]:
        """Yield every document once, always in the same order; nothing is raised for a bad one."""

    @abstractmethod
    def stop(self) -> None:
        """Let the document that is being read fail, and every later one."""

    @abstractmethod
    def close(self) -> None:
        """Close what was opened; a second call does nothing."""

    def stored(self, displaced_origins: Collection[str]) -> None:  # noqa: B027  most walks store nothing
        """Called when every document that the walk gave is stored. The collection has lost documents of these origins."""


class IDocumentSource(ABC):
    """Finds documents below paths."""

    @abstractmethod
    def walk(self, paths: Sequence[Path]) -> IDocumentWalk:
        """Return the documents of these files and folders. It blocks, and raises nothing for a path that is not there."""
