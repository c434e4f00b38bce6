"""Which documents a platform searches, and which of its files it cannot read."""

from typing import Final

from pydantic import BaseModel

MAX_LISTED_DOCUMENTS: Final = 1000


class ListedDocument(BaseModel, frozen=True):
    """A document that can be searched. `url` is its web address, or `doc:` with its path."""

    title: str
    url: str


class DocumentProblem(BaseModel, frozen=True):
    """A file of the folder that was not read, or was read in part.

    - `path` is relative to the folder. An entry of a file has a number after the path: `orders.jsonl:12`.
    - `is_partly_read` is True if the rest of the file can be searched.
    """

    path: str
    reason: str
    is_partly_read: bool = False


class DocumentList(BaseModel, frozen=True):
    """The documents that a platform searches.

    - `total` is the number of documents; None if it is not known yet, or if an index has more than can be counted.
    - `documents` are the first ones in the order of their ids.
    - `not_read` and `partly_read` are the numbers of problems, and `problems` the first of them, files that were not read first.
    - `unread` says how many files have types that are not read; empty if there are none.
    - `reading` is the number of documents read so far, while the folder is being read; otherwise None.
    - `keywords_only` is True while the vectors of the documents are not complete.
    """

    total: int | None = 0
    documents: tuple[ListedDocument, ...] = ()
    not_read: int = 0
    partly_read: int = 0
    problems: tuple[DocumentProblem, ...] = ()
    unread: str = ""
    reading: int | None = None
    keywords_only: bool = False
