"""What a document is called outside its folder: `doc:<path>`, or that path below the address where it is published."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from modules.llm_platform.domain.redaction import Redactor

SCHEME: Final = "doc:"
_BEHIND_THE_PATH: Final = "#?"  # both are escaped in a document's own address


class DocumentAddresses:
    """Between paths relative to the folder and addresses. Strings only: whether a document is there is not asked here.

    A secret in a path does not stand in its address, so that such an address leads to no document.
    """

    def __init__(self, base_url: str | None = None, redactor: Redactor | None = None) -> None:
        self._prefix = f"{base_url.rstrip('/')}/" if base_url else SCHEME
        self._redactor = redactor or Redactor()

    def of(self, path: str) -> str:
        """The address of the document at `path`."""
        return self._prefix + quote(self._redactor.text(path).encode("utf-8", "surrogateescape"))

    def path_in(self, url: str) -> str | None:
        """The path that an address names, fragment and query left out; None where it is no document's address.

        With a base address `doc:<path>` is understood too: it never means anything else.
        """
        prefix = next((each for each in (self._prefix, SCHEME) if url.startswith(each)), None)
        if prefix is None:
            return None
        path = url[len(prefix) :]
        for mark in _BEHIND_THE_PATH:
            path = path.partition(mark)[0]
        return unquote(path, errors="surrogateescape")
