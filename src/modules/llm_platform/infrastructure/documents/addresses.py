"""Build the addresses of documents: `doc:<path>`, or the path below the address at which the folder is published."""

from typing import Final
from urllib.parse import quote, unquote

from modules.llm_platform.domain.privacy.redaction import Redactor

SCHEME: Final = "doc:"


class DocumentAddresses:
    """Converts relative paths to addresses and back, whether or not the document exists. A secret in a path is
    redacted: such an address leads to no document.
    """

    def __init__(self, base_url: str | None = None, redactor: Redactor | None = None) -> None:
        self._prefix = f"{base_url.rstrip('/')}/" if base_url else SCHEME
        self._redactor = redactor or Redactor()

    def of(self, path: str) -> str:
        return self._prefix + quote(self._redactor.text(path).encode("utf-8", "surrogateescape"))

    def find_path(self, url: str) -> str | None:
        """Return the path in the address of a document, without fragment and query, or None for any other address.

        `doc:<path>` is valid with a base address, too.
        """
        prefix = next((start for start in (self._prefix, SCHEME) if url.startswith(start)), None)
        if prefix is None:
            return None
        path = url[len(prefix) :]
        for mark in "#?":
            path = path.partition(mark)[0]
        return unquote(path, errors="surrogateescape")
