"""A named folder as a search provider: by meaning and by words, as the index is searched, and in step with its files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    VectorStoreConfigError,
    VectorStoreError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchTimeoutError,
)
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearchAdapter
from modules.llm_platform.infrastructure.adapters.index_web_search import IndexWebSearch
from modules.llm_platform.infrastructure.documents.words import words_about
from modules.llm_platform.infrastructure.folders.folder_index import FolderIndex
from modules.llm_platform.infrastructure.folders.state import FolderView
from modules.llm_platform.infrastructure.folders.words_meanwhile import WordsMeanwhile
from modules.llm_platform.infrastructure.indexing.file_source import INDEXED

FIRST_LOOK_S: Final = 90.0  # where nothing else can answer; reading goes on, and the next search finds it read
WORDS_AFTER_S: Final = 5.0  # of looking and reading: a few hundred documents are in their index by then
PING_S: Final = 0.5  # a health check waits no longer for a folder that is being read
BY_WORDS: Final = "the documents are still being read for meaning{}: found by words alone"
NOTHING_READABLE: Final = "the documents folder holds nothing that can be read"
BAD_FILES_NAMED: Final = 5
NO_LINES: Final = "files of JSON lines are searched once that is done"

Answer = TypeVar("Answer")


class FolderWebSearch(IWebSearchProvider):
    """Searches the files below a folder, and reads again what has changed there.

    One hit for each document: `snippet` is a verbatim stretch of its text, the best passage and what adjoins it. Its URL is
    `doc:<path below the folder>`, or that path under `base_url`. Files that could not be read are named in `degraded`.

    While a large folder is being read, `words` answer: a search of the same files that begins when it is made, and is closed
    once the index is in step. Without them a search waits up to `timeout` seconds.
    """

    name = "documents"

    def __init__(
        self,
        folder: FolderIndex,
        base_url: str | None = None,
        redactor: Redactor | None = None,
        *,
        timeout: float = FIRST_LOOK_S,
        words: Callable[[], DocumentWebSearchAdapter] | None = None,
        words_after_s: float = WORDS_AFTER_S,
    ) -> None:
        self._folder = folder
        self._base_url = base_url
        self._redactor = redactor or Redactor()
        self._timeout = timeout
        self._words = WordsMeanwhile(words, folder.held_up) if words else None
        self._words_after_s = words_after_s
        self._following: asyncio.Task[None] | None = None
        self._found: IndexWebSearch | None = None

    @property
    def found(self) -> IndexWebSearch:
        """The search of what was read, which remembers what it has shown."""
        if self._found is None:
            retrieval = lambda: self._folder.retrieval  # noqa: E731  it may be made anew
            self._found = IndexWebSearch(retrieval, self._base_url, self._redactor, needs_words=True)
        return self._found

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        return await self.answered(partial(self._by_meaning, request), partial(self._by_words, request))

    async def _by_words(self, request: WebSearchRequest, words: DocumentWebSearchAdapter) -> WebSearchResponse:
        answer = await words.search(request)
        return answer.model_copy(update={"degraded": (*answer.degraded, *self._of_words())})

    async def _by_meaning(self, request: WebSearchRequest, view: FolderView) -> WebSearchResponse:
        if not view.documents:
            raise WebSearchConfigError(self._redactor.text(nothing_readable(view)))
        answer = await self.found.search(request)
        words = words_about(self.name, {**view.bad, **view.notes}, self._redactor)
        unread = (Degraded(component=self.name, reason=view.unread),) if view.unread else ()
        return answer.model_copy(update={"degraded": (*answer.degraded, *words, *unread)})

    async def answered(
        self,
        by_meaning: Callable[[FolderView], Awaitable[Answer]],
        by_words: Callable[[DocumentWebSearchAdapter], Awaitable[Answer]],
    ) -> Answer:
        """By meaning where the folder is in step soon, else by whichever can answer first. Raises web search errors, and what
        the two raise.
        """
        view = await self.in_step_soon()
        if view is not None:
            return await by_meaning(view)
        words = asyncio.create_task(self._with_words(by_words))
        stepping = asyncio.create_task(self._folder.in_step())
        try:
            await asyncio.wait([words, stepping], return_when=asyncio.FIRST_COMPLETED)
            if words.done() or stepping.exception():
                return await words
            return await by_meaning(stepping.result())
        finally:
            words.cancel()
            stepping.cancel()
            await asyncio.gather(words, stepping, return_exceptions=True)  # what came too late is nobody's

    async def _with_words(self, by_words: Callable[[DocumentWebSearchAdapter], Awaitable[Answer]]) -> Answer:
        async with self.by_words() as words:
            return await by_words(words)

    async def in_step_soon(self) -> FolderView | None:
        """The folder as it is now; None while it is being read and words are to answer. Whoever comes when that has taken long
        already does not wait. Raises web search errors.
        """
        if self._words is None:
            return await self.in_step()
        try:
            view = await self._within(max(0.0, self._words_after_s - self._folder.under_way_s))
        except TimeoutError:
            only_lines = self._folder.lines and self._folder.lines == self._folder.of_all
            return await self.in_step() if only_lines else None
        await self._words.release()
        return view

    async def in_step(self) -> FolderView:
        """The folder as it is now. Raises web search errors: WebSearchTimeoutError while it is being read."""
        try:
            return await self._within(self._timeout)
        except TimeoutError as error:
            raise WebSearchTimeoutError(
                f"the documents are still being read ({self._folder.so_far} so far): try again in a moment"
            ) from error

    async def _within(self, limit_s: float) -> FolderView:
        async with asyncio.timeout(limit_s):
            with _translated():
                return await self._folder.in_step()

    # --- meanwhile --------------------------------------------------------------------------------------------------------

    @property
    def lacks_lines(self) -> bool:
        """Whether there are documents that words do not find."""
        return self._folder.lines > 0

    @asynccontextmanager
    async def by_words(self) -> AsyncIterator[DocumentWebSearchAdapter]:
        """The search that answers meanwhile, after `in_step_soon` said None."""
        if self._words is None:
            raise WebSearchConfigError(BY_WORDS.format(""))
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._until_in_step(self._words))
        async with self._words.using() as words:
            yield words

    async def _until_in_step(self, words: WordsMeanwhile) -> None:
        """Gives the memory of the words back, whether or not somebody searches again."""
        with suppress(WebSearchError), _translated():  # the next search meets what went wrong
            await self._folder.in_step()
            await words.release()

    def _of_words(self) -> Iterator[Degraded]:
        so_far, of_all = self._folder.so_far, self._folder.of_all
        share = f" ({so_far:,} of {of_all:,})" if 0 < so_far <= of_all else ""
        yield Degraded(component=self.name, reason=BY_WORDS.format(share))
        if self.lacks_lines:
            yield Degraded(component=self.name, reason=NO_LINES)

    async def ping(self) -> str:
        """How many documents can be searched. Raises web search errors where none can."""
        try:
            async with asyncio.timeout(PING_S):
                with _translated():
                    view = await self._folder.in_step()
        except TimeoutError:
            return f"{self._folder.so_far} documents so far, still reading"
        return f"{view.documents} documents"

    async def aclose(self) -> None:
        """Stop reading."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])
        if self._words is not None:
            await self._words.aclose()
        await self._folder.aclose()


def nothing_readable(view: FolderView) -> str:
    """Why there is nothing to search, and what to do about it."""
    bad = [f"{place}: {word}" for place, word in sorted(view.bad.items())]
    shown = [*bad[:BAD_FILES_NAMED], *([f"and {len(bad) - BAD_FILES_NAMED} more files"] if len(bad) > BAD_FILES_NAMED else [])]
    why = "; ".join([*([view.unread] if view.unread else []), *shown]) or "there are no files"
    return f"{NOTHING_READABLE} ({why}): put documents there, or name another folder. Read are {', '.join(INDEXED)}"


@contextmanager
def _translated() -> Iterator[None]:
    """What keeps a folder from being read, as a search provider tells it."""
    try:
        yield
    except (VectorStoreConfigError, EmbeddingConfigError) as error:
        raise WebSearchConfigError(error.message) from error
    except (VectorStoreError, EmbeddingError) as error:
        raise WebSearchConnectionError(error.message) from error
