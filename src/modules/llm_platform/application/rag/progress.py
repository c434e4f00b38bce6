"""The progress of an indexing run, and its report."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.dtos import indexing_dtos as dtos
from modules.llm_platform.domain.dtos.retrieval_dtos import IndexedDocument

MAX_PROBLEMS: Final = 1000  # problems that one report lists


@dataclass(slots=True)
class IndexingProgress:
    """The counts of a run and the ids of its documents. Only the ids (about 150 bytes each) grow with the documents."""

    total_bytes: int = 0
    done_bytes: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    removed: int = 0
    displaced: int = 0
    upgraded: int = 0  # had been stored in another form
    removed_elsewhere: int = 0
    passages: int = 0
    problem_count: int = 0
    problems: list[dtos.IndexProblem] = field(default_factory=list)
    seen: dict[str, str | None] = field(default_factory=dict)  # origins by id
    hidden: set[str] = field(default_factory=set)
    origins: Collection[str] | None = None
    displaced_origins: set[str] = field(default_factory=set)

    def count_stored(self, document: IndexedDocument, before: IndexedDocument | None) -> None:
        """Count a stored document; `before` is the one it replaced."""
        self.passages += document.passages
        if before is None:
            self.added += 1
            return
        self.changed += 1
        self.upgraded += before.form != document.form
        if before.origin is not None and before.came_from_elsewhere((document.origin,)):
            self.displaced += 1
            self.displaced_origins.add(before.origin)

    def count_failed(self, left: dtos.LeftOut) -> None:
        """Count a document that was not read. It is not pruned."""
        self.failed += 1
        self.add_problem(left.where, left.reason)
        if left.hides is not None:
            self.hidden.add(left.hides)

    def add_problem(self, where: str, reason: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(dtos.IndexProblem(where=where, reason=reason))

    def is_missing(self, doc_id: str) -> bool:
        """Return whether the walk was complete for this document of the collection and did not find it."""
        unqualified = doc_id.partition("/")[2]
        hidden = any(doc_id.startswith(prefix) or unqualified.startswith(prefix) for prefix in self.hidden)
        return doc_id not in self.seen and not hidden

    def take_snapshot(self) -> dtos.IndexProgress:
        return dtos.IndexProgress(
            documents=self.added + self.changed + self.unchanged + self.failed,
            passages=self.passages,
            done_bytes=self.done_bytes,
            total_bytes=self.total_bytes,
        )

    def report(self, collection: str, embedder: str) -> dtos.IndexReport:
        counts = {name: getattr(self, name) for name in dtos.IndexReport.model_fields if hasattr(self, name)}
        return dtos.IndexReport(collection=collection, embedder=embedder, **counts)
