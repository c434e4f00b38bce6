"""The compatible interfaces of the server."""

from collections.abc import Mapping
from typing import Final

from modules.llm_platform.presentation.rest.compat import jina, open_webui, rerank, searxng
from modules.llm_platform.presentation.rest.compat.anthropic import messages as anthropic
from modules.llm_platform.presentation.rest.compat.dialect import Dialect
from modules.llm_platform.presentation.rest.compat.firecrawl import api as firecrawl
from modules.llm_platform.presentation.rest.compat.openai import chat as openai
from modules.llm_platform.presentation.rest.compat.perplexity import api as perplexity
from modules.llm_platform.presentation.rest.compat.tavily import api as tavily
from modules.llm_platform.presentation.rest.http.access import get_first_segment

DIALECTS: Final[tuple[Dialect, ...]] = (
    perplexity.DIALECT,
    tavily.DIALECT,
    searxng.DIALECT,
    open_webui.DIALECT,
    openai.DIALECT,
    firecrawl.DIALECT,
    jina.DIALECT,
    rerank.DIALECT,
    anthropic.DIALECT,
)
DIALECT_OF_PREFIX: Final[Mapping[str, Dialect]] = {get_first_segment(dialect.prefix): dialect for dialect in DIALECTS}
