"""What an indexing has done so far."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.dtos.indexing_dtos import IndexProblem, IndexProgress, IndexReport, LeftOut
from modules.llm_platform.domain.dtos.retrieval_dtos import IndexedDocument

MAX_PROBLEMS: Final = 1000  # that are named


@dataclass(slots=True)
class Tally:
    """Counts, and the ids that were met. An id takes about 150 bytes; nothing else here grows with the documents."""

    total_bytes: int = 0
    done_bytes: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    removed: int = 0
    displaced: int = 0
    removed_elsewhere: int = 0
    passages: int = 0
    problem_count: int = 0
    problems: list[IndexProblem] = field(default_factory=list)
    met: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    origins: Collection[str] = ()

    def stored(self, document: IndexedDocument, before: IndexedDocument | None) -> None:
        """`before` is what it took the place of."""
        self.passages += document.passages
        if before is None:
            self.added += 1
            return
        self.changed += 1
        if document.origin is not None and before.came_from_elsewhere((document.origin,)):
            self.displaced += 1

    def left_out(self, left: LeftOut) -> None:
        """It is in none of our counts of documents but this one, and must not be pruned for it."""
        self.failed += 1
        self.remark(left.where, left.reason)
        if left.hides is not None:
            self.hidden.add(left.hides)

    def remark(self, where: str, reason: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(IndexProblem(where=where, reason=reason))

    def is_gone(self, doc_id: str) -> bool:
        """Whether a document of the collection was looked for and not met."""
        return doc_id not in self.met and not any(map(doc_id.startswith, self.hidden))

    def progress(self) -> IndexProgress:
        return IndexProgress(
            documents=self.added + self.changed + self.unchanged + self.failed,
            passages=self.passages,
            done_bytes=self.done_bytes,
            total_bytes=self.total_bytes,
        )

    def report(self, collection: str, embedder: str) -> IndexReport:
        return IndexReport(
            collection=collection,
            embedder=embedder,
            added=self.added,
            changed=self.changed,
            unchanged=self.unchanged,
            failed=self.failed,
            removed=self.removed,
            displaced=self.displaced,
            removed_elsewhere=self.removed_elsewhere,
            passages=self.passages,
            problems=tuple(self.problems),
            problem_count=self.problem_count,
        )
