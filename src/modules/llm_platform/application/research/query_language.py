"""In which language a query of a report is searched (interface.md, "Which provider serves what")."""

from __future__ import annotations

from collections.abc import Sequence

from modules.llm_platform.domain.language import detect, stop_words
from modules.llm_platform.domain.text import words


def query_language(query: str, possible: Sequence[str]) -> str | None:
    """Its own, as one of the tags that are `possible` (pt-BR, not pt); None, for all languages, where nobody can say.

    A query is short, and often too little to tell one language of the world: between two its function words do.
    """
    if found := detect(query):
        return next((tag for tag in possible if tag.partition("-")[0] == found), found)
    if len(possible) == 1:
        return possible[0]
    used = set(words(query))
    met = sorted(((len(used & stop_words(tag)), tag) for tag in possible), reverse=True)
    return met[0][1] if met and met[0][0] > met[1][0] else None
