"""The compatible interfaces of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from modules.llm_platform.presentation.rest.compat import open_webui, openai, perplexity, searxng, tavily
from modules.llm_platform.presentation.rest.compat.dialect import Dialect
from modules.llm_platform.presentation.rest.http.access import first_segment

DIALECTS: Final[tuple[Dialect, ...]] = (
    perplexity.DIALECT,
    tavily.DIALECT,
    searxng.DIALECT,
    open_webui.DIALECT,
    openai.DIALECT,
)
DIALECT_OF_PREFIX: Final[Mapping[str, Dialect]] = {first_segment(dialect.prefix): dialect for dialect in DIALECTS}
