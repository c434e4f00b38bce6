"""The stored texts that the quotes of an answer point into."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict

from modules.llm_platform.domain.dtos.research_dtos import Source


class HeldSource(BaseModel):
    """One source as it was read; `sha256` is the hex digest of the text in UTF-8."""

    model_config = ConfigDict(frozen=True)

    index: int
    url: str
    title: str
    text: str
    sha256: str


class HeldSources(BaseModel):
    """All sources of one research."""

    model_config = ConfigDict(frozen=True)

    sources: tuple[Source, ...]

    def find(self, index: int) -> HeldSource | None:
        """Source number `index`, or None when the research had no such source."""
        for source in self.sources:
            if source.index == index:
                digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()
                return HeldSource(index=index, url=source.url, title=source.title, text=source.text, sha256=digest)
        return None
