"""The API of Firecrawl as a whole (docs/reference/compatible-apis.md)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from modules.llm_platform.domain.exceptions import PageTimeoutError
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.firecrawl import crawl, map, scrape, search  # noqa: A004
from modules.llm_platform.presentation.rest.compat.firecrawl.examples import EXAMPLES
from modules.llm_platform.presentation.rest.compat.firecrawl.shared import PREFIXES
from shared.exceptions import AppException


def format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Return the error in the form that clients read. Clients of rerankers, which share `/v2`, read `message` and `detail`."""
    message = dialect.format_message(problem)
    content = {"success": False, "error": message, "code": problem["code"], "message": message, "detail": message}
    is_timeout = isinstance(error, PageTimeoutError)
    status = HTTPStatus.REQUEST_TIMEOUT if is_timeout else dialect.choose_readable_status(error)
    return status, content


DIALECT: Final = dialect.Dialect(
    prefix="/firecrawl",
    clients="clients of Firecrawl, version 1 and 2: API URL `http://localhost:8000/firecrawl`. The Python client of version 2 "
    "drops the path of its API URL: give it `http://localhost:8000`, where `/v2/scrape` and the others answer too",
    routers=(map.router, crawl.router, scrape.router, search.router),
    format_error=format_error,
    examples=EXAMPLES,
    read_paths={
        f"{prefix}/{name}" for prefixes in PREFIXES.values() for prefix in prefixes for name in ("scrape", "search")
    },
)
