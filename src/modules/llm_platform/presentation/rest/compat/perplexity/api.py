"""The API of Perplexity as a whole (docs/reference/compatible-apis.md)."""

from typing import Final

from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.perplexity import agent, async_chat, chat, models
from modules.llm_platform.presentation.rest.compat.perplexity.examples import EXAMPLES

DIALECT: Final = dialect.Dialect(
    prefix="/perplexity",
    clients="clients of Perplexity: base URL `http://localhost:8000/perplexity`. `/perplexity/v1/responses` is the Agent API, "
    "and `/perplexity/v1/agent` is the same; `/perplexity/async` is the asynchronous chat",
    routers=(models.router, agent.router, chat.router, async_chat.router),
    format_error=chat.format_error,
    examples=EXAMPLES,
    read_paths={"/perplexity/search"},
)
