"""A page of the web as it was read."""

from datetime import datetime

from pydantic import BaseModel, Field

from modules.llm_platform.domain.text.page_starts import PageStarts


class PageLink(BaseModel, frozen=True):
    """A link of a page: its address, absolute and in its one spelling, and its text."""

    url: str
    text: str = ""


class Page(BaseModel, frozen=True):
    """The text of a page, and where it comes from.

    - `url` is the address after redirects.
    - `text` is Markdown or plain text without what a reader of the page would not see; quotes point into it, and
      `sha256` is the hash of its UTF-8 bytes.
    - `reader` names who read it.
    - `published` is the date as the page states it.
    - `warning` says what is missing or was guessed.
    - `extraction` is the share of the page's visible text that `text` has, 0 to 1, where the reader knows it.
    - `pages` says where the pages of a PDF begin in `text`.
    - `links` are the links of a page that is read with `keep_links`, by a reader that knows them: each address as the page
      writes it, relative to `link_base`, and its text.
    """

    url: str
    title: str
    text: str
    read_at: datetime
    reader: str
    sha256: str
    media_type: str
    published: str | None = None
    warning: str | None = None
    extraction: float | None = None
    pages: PageStarts = ()
    # Few readers look for them, and few of hundreds are followed: only these are resolved.
    links: tuple[tuple[str, str], ...] = Field(default=(), exclude_if=lambda links: not links)
    link_base: str = Field(default="", exclude_if=lambda base: not base)
