"""What keeps a named folder from being searched, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from modules.llm_platform.domain.exceptions import WebSearchConfigError

CLOSED: Final = "the search of the documents is closed"
NO_FOLDER: Final = "DOCUMENTS_DIR names no folder that can be opened: create it or correct the setting"
NO_PLACE: Final = "the index of the documents can be written nowhere: set LLM_PLATFORM_DATA_DIR to a writable folder"


@contextmanager
def written() -> Iterator[None]:
    """What is written where the indexes lie: what the system has against it is a mistake of the settings."""
    try:
        yield
    except OSError as error:
        raise WebSearchConfigError(NO_PLACE) from error
