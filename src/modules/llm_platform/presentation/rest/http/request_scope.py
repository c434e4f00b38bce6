"""The values in the ASGI scope of a request that the middleware and the routes share: server, caller and sent data."""

from fastapi import Request

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest.http.problems import REQUEST_ID, NotServingError
from modules.llm_platform.presentation.rest.http.server_state import ServerState

ANSWER = "llm_platform.answer"  # key in the ASGI scope: the answer that is sent, for the log line of the request
ERROR = "llm_platform.error"  # key in the ASGI scope: the code of the error that is sent, for the log line
CALLER = "llm_platform.caller"  # key in the ASGI scope: the Caller, set by GuardMiddleware
SERVER = "llm_platform.server"  # key in the ASGI scope: the ServerState, set by GuardMiddleware
KNOW = (
    "llm_platform.know"  # key in the ASGI scope: called with texts that the client sent, now or in an earlier request
)
IGNORED_FIELDS = (
    "llm_platform.ignored_fields"  # key in the ASGI scope: the IgnoredFields of the body; absent without any
)
ADD_HEADERS = "llm_platform.add_headers"  # key in the ASGI scope: called with headers of the response, also of an error

# Plain functions instead of `Depends`, which costs 10 us of CPU each: a tenth of a whole request.


def get_server_state(request: Request) -> ServerState:
    state: ServerState = request.scope[SERVER]
    return state


def get_services(request: Request) -> LLMPlatform:
    """Return the platform. Raises NotServingError before the server has started."""
    platform = get_server_state(request).platform
    if platform is None:
        raise NotServingError
    return platform


def request_id(request: Request) -> str:
    value: str = request.scope[REQUEST_ID]
    return value


def get_caller_id(request: Request) -> str:
    """Return an identifier of the API key of the request, or an empty text if no keys are set."""
    value: str = request.scope[CALLER].id
    return value
