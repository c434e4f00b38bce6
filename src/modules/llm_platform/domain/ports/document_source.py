"""The port of document sources for indexing."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from modules.llm_platform.domain.dtos.indexing_dtos import FoundDocument, LeftOut


class IDocumentWalk(ABC):
    """One pass over documents. It blocks, and only one thread may use it. Only `stop` may be called from any thread."""

    total_bytes: int  # size of all documents
    origins: Collection[str] | None = None  # all documents of these are yielded; None if they have no origins
    remarks: Sequence[tuple[str, str]] = ()  # pairs of a place and what to report about it

    @abstractmethod
    def __iter__(self) -> Iterator[FoundDocument | LeftOut]:
        """Yield every document once, always in the same order; nothing is raised for a bad one."""

    @abstractmethod
    def stop(self) -> None:
        """Make the document that is being read fail, and every later one."""

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
