"""Reads files and folders as documents. A Markdown, text, HTML or PDF file is one document; in JSON Lines each line is
one."""

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument, LeftOut
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.folder import SUFFIXES, FoundFile, list_folder
from modules.llm_platform.infrastructure.documents.folder_state import (
    FolderState,
    FolderStates,
    Known,
    get_pages_mark,
    has_pages,
)
from modules.llm_platform.infrastructure.documents.json_lines import JSON_LINES, read_json_documents
from modules.llm_platform.infrastructure.documents.reading import DOCUMENT_FILE_BYTES, read_text
from modules.llm_platform.infrastructure.parsing.decoding import EmptyDocument, UnreadableDocument, replace_unprintable
from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool, PooledParser
from modules.llm_platform.infrastructure.parsing.parser_process import DocumentParser

INDEXED: Final = (*SUFFIXES, *JSON_LINES)
MAX_FILES: Final = 1_000_000  # files below one folder
MAX_MESSAGES: Final = 1000  # messages of each kind about the files and lines of one folder
ORIGIN_CHARS: Final = 16  # hexadecimal digits of a digest
QUALIFIER_CHARS: Final = 6  # part of the origin in the id of a document whose path another folder has too
_KINDS: Final = {".markdown": "md", ".htm": "html", ".text": "txt"}

NO_TEXT: Final = "it contains no text"


@dataclass(slots=True)
class FolderReading:
    """What is known about a folder before it is read, and what reading it found.

    Known before:

    - `known` are files that were read earlier. They are not opened unless they have changed.
    - `bad` has reasons by position (`a.pdf`, `b.jsonl:12`). They are reported, and the position is not read again.
    - `trusted` is True if the collection need not be queried for known files.
    - `readable_only` is True if documents that cannot be read are pruned. Otherwise they stay as they were indexed before.

    Found by the reading:

    - `found_bad` has reasons by position.
    - `notes` has notes by position.
    - `digests` has the digests of contents by path.
    - `unreadable` has the ids of documents that cannot be read, and that the collection may still have.
    """

    known: Known = field(default_factory=dict)
    bad: Mapping[str, str] = field(default_factory=dict)
    trusted: bool = False
    readable_only: bool = False

    found_bad: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder, or a single file and its folder. `name` is the folder's own, links resolved."""

    folder: Path
    name: str
    origin: str
    files: Sequence[FoundFile]
    reading: FolderReading
    is_folder: bool

    def get_position(self, where: str) -> str:
        prefix = replace_unprintable(self.folder).rstrip("/\\") + os.sep
        return where.removeprefix(prefix).replace(os.sep, "/")


class FileDocumentSource(IDocumentSource):
    """Source of the documents in folders.

    The id of a file is its path below the folder that was named. Its address is `doc:` and that path, or the path below
    `base_url`. Its filters are `doc_id`, `source` (the name of the folder), `doc_type` (md, txt, rst, html, pdf, docx, xlsx,
    pptx, epub, ipynb, csv, tsv, log) and `lang` as detected. `states` stores the state of each folder after it was indexed.
    """

    def __init__(
        self,
        base_url: str | None = None,
        redactor: Redactor | None = None,
        states: FolderStates | None = None,
        parsers: ParserPool | None = None,
    ) -> None:
        self.redactor = redactor or Redactor()
        self.addresses = DocumentAddresses(base_url, redactor)
        self.states = states
        self._parsers = parsers

    def walk(self, paths: Sequence[Path], reading: FolderReading | None = None) -> IDocumentWalk:
        """Return a walk over the files. `reading` reads the only path.

        Without it, the states of the folders are read, and written when all documents are stored.
        """
        return FileWalk(self, paths, PooledParser(self._parsers), reading)

    def folder_name(self, folder: Path) -> str:
        """Return the name of the folder with its links resolved, without secrets."""
        return replace_surrogates(self.redactor.text(folder.resolve().name))

    def read_file(
        self, folder: Path, file: FoundFile, parser: DocumentParser, *, doc_id: str, url: str, source: str
    ) -> DocumentText | LeftOut:
        try:
            read = read_text(folder, file, parser, self.redactor)
        except EmptyDocument:
            return DocumentText(doc_id, "", url)
        except UnreadableDocument as error:
            return LeftOut(replace_unprintable(folder / file.path), str(error), hides=doc_id)
        kind = _KINDS.get(file.suffix, file.suffix[1:])
        fields = {"source": (source,), "doc_type": (kind,)}
        title, text = replace_surrogates(read.title or doc_id), replace_surrogates(read.text)
        return DocumentText(title, text, url, source=source, fields=fields, note=read.note, pages=read.pages)


class FileWalk(IDocumentWalk):
    """A walk that lists all files at once, and opens them one after the other."""

    def __init__(
        self, source: FileDocumentSource, paths: Sequence[Path], parser: PooledParser, reading: FolderReading | None
    ) -> None:
        self._source = source
        self._parser = parser
        self._reading = reading
        self._left_out: list[LeftOut] = []
        self.remarks: list[tuple[str, str]] = []
        self._roots = [root for path in paths if (root := self._find_root(path))]
        self.origins = {
            root.origin
            for root in self._roots
            if root.is_folder or all(file.suffix in JSON_LINES for file in root.files)
        }
        self.total_bytes = sum(file.stamp[0] for root in self._roots for file in root.files)

    def __iter__(self) -> Iterator[FoundDocument | LeftOut]:
        yield from self._left_out
        position = 0
        for root in self._roots:
            for file in root.files:
                if file.suffix in JSON_LINES:
                    for entry in read_json_documents(root.folder / file.path, position, self._source.redactor):
                        yield self._place_entry(root, entry)
                else:
                    yield self._read_document(root, file, position)
                position += file.stamp[0]

    def stop(self) -> None:
        self._parser.stop()

    def close(self) -> None:
        self._parser.__exit__(None, None, None)

    def stored(self, displaced_origins: Collection[str]) -> None:
        states = self._source.states
        if states is None:
            return
        for origin in displaced_origins:
            states.remove(origin)
        for root in self._roots if self._reading is None else ():
            if root.is_folder:
                files = {file.path: file.stamp for file in root.files}
                reading = root.reading
                state = FolderState(files, reading.found_bad, reading.notes, 0, reading.digests, is_pruned=False)
                states.save(root.origin, state)

    # --- listing ----------------------------------------------------------------------------------------------------------

    def _find_root(self, path: Path) -> _Root | None:
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                return self._list_root(path)
        except (OSError, RuntimeError):
            # Before Python 3.13, a circle of links is a RuntimeError.
            self._left_out.append(LeftOut(replace_unprintable(path), "there is no such file or folder", hides=""))
            return None
        if not stat.S_ISREG(status.st_mode) or not path.name.lower().endswith(INDEXED):
            self._left_out.append(LeftOut(replace_unprintable(path), f"its name ends in none of {', '.join(INDEXED)}"))
            return None
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        files = [FoundFile(path.name, stamp)]
        reading = self._reading or FolderReading()
        return _Root(
            path.parent, self._source.folder_name(path.parent), get_origin(path), files, reading, is_folder=False
        )

    def _list_root(self, folder: Path) -> _Root:
        listing = list_folder(folder, suffixes=INDEXED, max_files=MAX_FILES)
        if unread := listing.unread_summary:
            self.remarks.append((replace_unprintable(folder), unread))
        origin = get_origin(folder)
        reading = self._reading
        if reading is None:
            state = self._source.states.load(origin) if self._source.states else None
            reading = FolderReading(state.known if state else {})
        for path, reason in sorted(listing.left_out.items()):
            hides = None
            if not reading.readable_only:
                # Of a folder that cannot be opened, or a file of several documents, any id may be hidden.
                inside = folder / path
                is_closed = inside.is_dir() and not inside.is_symlink()
                hides = "" if is_closed or path.lower().endswith(JSON_LINES) else self._make_id(path)
            self._left_out.append(LeftOut(replace_unprintable(folder / path), reason, hides=hides))
        files = [listing.files[path] for path in sorted(listing.files)]
        return _Root(folder, self._source.folder_name(folder), origin, files, reading, is_folder=True)

    def _make_id(self, path: str) -> str:
        return replace_surrogates(self._source.redactor.text(path))

    # --- reading ----------------------------------------------------------------------------------------------------------

    def _read_document(self, root: _Root, file: FoundFile, position: int) -> FoundDocument | LeftOut:
        path, reading = root.folder / file.path, root.reading
        where, doc_id, url = replace_unprintable(path), self._make_id(file.path), self._source.addresses.of(file.path)
        if reason := reading.bad.get(root.get_position(where)):
            return self._note_bad(root, LeftOut(where, reason))
        stamp, known = reading.known.get(file.path, (None, ""))
        try:
            is_known = stamp == file.stamp and has_pages(file.path, known)
            digest = known if is_known else _digest(path, url)
        except OSError as error:
            return self._note_bad(root, LeftOut(where, f"it cannot be opened ({error.strerror})", hides=doc_id))
        reading.digests[file.path] = digest
        return FoundDocument(
            doc_id,
            digest,
            where,
            position + file.stamp[0],
            partial(self._read, root, file, doc_id, url),
            root.origin,
            unchanged=reading.trusted and digest == known,
            qualified=partial(self._qualify, root, file, position, digest),
        )

    def _qualify(self, root: _Root, file: FoundFile, position: int, digest: str) -> FoundDocument:
        doc_id = qualify_id(root.name, root.origin, self._make_id(file.path))
        url = DocumentAddresses().of(doc_id)
        read = partial(self._read, root, file, doc_id, url)
        digest = sha256(f"{doc_id}\0{digest}".encode()).hexdigest()
        return FoundDocument(
            doc_id, digest, replace_unprintable(root.folder / file.path), position + file.stamp[0], read, root.origin
        )

    def _place_entry(self, root: _Root, entry: FoundDocument | LeftOut) -> FoundDocument | LeftOut:
        if isinstance(entry, LeftOut):
            return self._note_bad(root, entry)
        if reason := root.reading.bad.get(root.get_position(entry.where)):
            return self._note_bad(root, LeftOut(entry.where, reason))
        read = partial(self._read_and_record, root, entry.doc_id, entry.where, entry.read)
        return replace(entry, origin=root.origin, read=read)

    def _read(self, root: _Root, file: FoundFile, doc_id: str, url: str) -> DocumentText | LeftOut:
        read = partial(
            self._source.read_file, root.folder, file, self._parser, doc_id=doc_id, url=url, source=root.name
        )
        document = self._read_and_record(root, doc_id, replace_unprintable(root.folder / file.path), read)
        if isinstance(document, LeftOut):
            root.reading.digests.pop(file.path, None)
        return document

    def _read_and_record(
        self, root: _Root, doc_id: str, where: str, read: Callable[[], DocumentText | LeftOut]
    ) -> DocumentText | LeftOut:
        document, reading = read(), root.reading
        if reading.readable_only and isinstance(document, DocumentText) and not document.text.strip():
            document = LeftOut(where, NO_TEXT)
        if isinstance(document, LeftOut):
            reading.unreadable.append(doc_id)
            return self._note_bad(root, document)
        if document.note:
            _add(reading.notes, root.get_position(where), document.note)
        return document

    def _note_bad(self, root: _Root, left: LeftOut) -> LeftOut:
        _add(root.reading.found_bad, root.get_position(left.where), left.reason)
        return replace(left, hides=None) if root.reading.readable_only else left


def get_origin(path: Path) -> str:
    """Return the origin of the documents of a folder or a file.

    The origin of a file is its folder's origin, or for JSON Lines its own. It is a digest of the resolved path, because
    the path itself must not leave this machine.
    """
    origin = path if path.is_dir() or path.name.lower().endswith(JSON_LINES) else path.parent
    return sha256(os.fsencode(origin.resolve())).hexdigest()[:ORIGIN_CHARS]


def qualify_id(folder_name: str, origin: str, doc_id: str) -> str:
    """Return the id of a document if the collection has a document of another folder with this `doc_id`."""
    return f"{folder_name}-{origin[:QUALIFIER_CHARS]}/{doc_id}"


def _add(messages: dict[str, str], document: str, message: str) -> None:
    if len(messages) < MAX_MESSAGES:
        messages[document] = message


def _digest(path: Path, url: str) -> str:
    """Return a hash of the content, as far as it may be read, and of the address, which is part of all passages."""
    digest = sha256(url.encode())
    with path.open("rb", buffering=0) as file:
        digest.update(str(os.fstat(file.fileno()).st_size).encode())
        left = DOCUMENT_FILE_BYTES
        while left > 0 and (chunk := file.read(min(1 << 20, left))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest() + get_pages_mark(path.name)
