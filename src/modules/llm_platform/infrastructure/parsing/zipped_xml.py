"""Read files that are zip archives of XML, such as Word documents and books, within limits."""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any
from xml.parsers import expat

from modules.llm_platform.infrastructure.parsing.answer import Answer, File, open_file

MAX_UNPACKED_BYTES = 100_000_000  # Bytes that are read from one archive.
MAX_PART_BYTES = 5_000_000  # Bytes of a chapter, or another part that is read whole.
CHUNK_BYTES = 64_000  # Bytes that are read at once from other parts.
MAX_TAG_BYTES = 1_000_000  # A parser stores a tag until its end, and takes several times its length.
MAX_XML_DEPTH = 1000  # Nested elements. 50 tables, each in a cell of the one before, need 300.
MAX_ELEMENTS = 50_000  # Elements of a file that lists the others.
MAX_DIRECTORY_BYTES = 5_000_000  # Bytes of an archive's list of files: 50,000 files.

_MAX_END_BYTES = 66_000


class TooLargeError(Exception):
    """An archive unpacks to more bytes than are read."""


class TooComplexError(Exception):
    """XML takes more memory than the XML of a document."""


class Archive:
    """A zip file that unpacks at most MAX_UNPACKED_BYTES, whatever sizes its directory declares."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._left = MAX_UNPACKED_BYTES

    def part(self, name: str) -> bytes | None:
        """Return the unpacked bytes of a part, or None if it is missing. Raises TooLargeError above MAX_PART_BYTES."""
        chunks: list[bytes] = []
        try:
            for chunk in self.chunks(name):
                chunks.append(chunk)
                if len(chunks) * CHUNK_BYTES > MAX_PART_BYTES:
                    raise TooLargeError("a part of it", MAX_PART_BYTES)
        except KeyError:
            return None
        return b"".join(chunks)

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the chunks of a part of any length. Raises KeyError if it is missing, and TooLargeError."""
        if self._file.getinfo(name).file_size > self._left:
            raise TooLargeError("it", MAX_UNPACKED_BYTES)
        with self._file.open(name) as part:
            while chunk := part.read(CHUNK_BYTES):
                self._left -= len(chunk)
                if self._left < 0:
                    raise TooLargeError("it", MAX_UNPACKED_BYTES)
                yield chunk


def _measure_directory(file: IO[bytes]) -> int:
    """Return the length of an archive's list of files, as its end declares it. zipfile reads the whole list at once."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _MAX_END_BYTES))
    end = file.read()
    at = end.rfind(b"PK\5\6")
    is_large = b"PK\6\7" in end[max(0, at - 20) : at]  # Archives of over 4 GB have a second end.
    file.seek(0)
    return size if is_large else int.from_bytes(end[at + 12 : at + 16], "little") if at >= 0 else 0


def unpack(file: File, read: Callable[[Archive], Answer], broken: str) -> Answer:
    try:
        with open_file(file) as opened:
            if _measure_directory(opened) > MAX_DIRECTORY_BYTES:
                return {"error": "it is an archive of too many files"}
            with zipfile.ZipFile(opened) as archive:
                return read(Archive(archive))
    except OSError:
        return {"error": "it cannot be opened"}
    except TooLargeError as error:
        return {"error": f"{error.args[0]} unpacks to more than {error.args[1] // 1_000_000} MB"}
    except TooComplexError:
        return {"error": f"its XML is nested more than {MAX_XML_DEPTH} deep, or has too many or too long tags"}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError):
        # zipfile raises RuntimeError for an encrypted archive.
        return {"error": broken}


class Xml:
    """A SAX parser whose handlers get names without namespaces, but `r:id` for the id of a relation.

    `read` raises ValueError for malformed XML, and for entity declarations, which can expand to gigabytes or name local files.
    """

    def __init__(self) -> None:
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self.text
        self._parser.EntityDeclHandler = _refuse
        self._depth = 0

    def read(self, chunks: Iterable[bytes]) -> None:
        size = 0
        try:
            for chunk in chunks:
                self._parser.Parse(chunk)
                size += len(chunk)
                if size - self._parser.CurrentByteIndex > MAX_TAG_BYTES:
                    raise TooComplexError
                if self.is_full:
                    return
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise ValueError from error

    @property
    def is_full(self) -> bool:
        return False

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_XML_DEPTH:
            raise TooComplexError
        self.start(_remove_namespace(name), {_name_attribute(key): value for key, value in attributes.items()})

    def _end(self, name: str) -> None:
        self._depth -= 1
        self.end(_remove_namespace(name))

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start tag of an element."""

    def end(self, name: str) -> None:
        """Handle the end tag of an element."""

    def text(self, text: str) -> None:
        """Handle character data."""


def _remove_namespace(name: str) -> str:
    return name.rpartition(" ")[2]


def _name_attribute(name: str) -> str:
    """Return the name without its namespace. An element may have an `id` of its own and the id of a relation: `r:id`."""
    namespace, _, bare = name.rpartition(" ")
    return f"r:{bare}" if namespace.endswith("/relationships") else bare


def _refuse(*_: Any) -> None:
    raise ValueError


def _split_pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))


Element = tuple[str, dict[str, str], list[str]]
"""The name, the attributes and the text after the start tag."""


class Elements(Xml):
    """The elements of a small file, each with its name, its attributes and the text after its start tag."""

    def __init__(self, data: bytes | None) -> None:
        super().__init__()
        self.found: list[Element] = []
        self._has_ended = True
        if data:
            self.read(_split_pieces(data))

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.found) == MAX_ELEMENTS:
            raise TooComplexError
        self.found.append((name, attributes, []))
        self._has_ended = False

    def end(self, name: str) -> None:
        self._has_ended = True

    def text(self, text: str) -> None:
        if not self._has_ended:
            self.found[-1][2].append(text)

    @property
    def title(self) -> str:
        """The first title in a document's metadata."""
        return next((title for name, _, text in self.found if name == "title" and (title := "".join(text))), "")


def read_relations(archive: Archive, name: str) -> dict[str, str]:
    """Return the parts that a part of an Office document refers to, by id."""
    folder, file = posixpath.split(name)
    found = Elements(archive.part(f"{folder}/_rels/{file}.rels")).found
    return {
        attributes["Id"]: posixpath.normpath(posixpath.join(f"/{folder}", attributes["Target"])).lstrip("/")
        for element, attributes, _ in found
        if element == "Relationship" and "Id" in attributes and "Target" in attributes
    }


def is_set(value: str | None) -> bool:
    """Return whether an attribute of an Office document says yes."""
    return value in ("1", "true", "on")
