"""Send requests of OpenAI's protocol with the openai package.

The package builds the requests: addresses, deployments and versions of Azure, the header of the key, JSON. `Upstream` sends
them, so that limits, egress log and headers are the same as of every upstream. Bodies are read by the adapters.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

import httpx2
from pydantic import SecretStr

from modules.llm_platform.domain.dtos.sent import SentKind
from modules.llm_platform.infrastructure.http.client import Upstream, encode_json, read_body
from modules.llm_platform.infrastructure.http.errors import TRANSPORT_ERRORS, Rule

MAX_ERROR_BYTES: Final = 65_536
NOT_INSTALLED: Final = Rule("config", 'needs another package: pip install "llm-platform[llm]"')
# The only headers of the package that are sent. It adds others, which tell about the machine.
KEY_HEADERS: Final = frozenset({"authorization", "api-key"})
# The package reads a variable OPENAI_… for each of these that is None.
NO_VARIABLES: Final[Mapping[str, str]] = {"admin_api_key": "", "organization": "", "project": "", "webhook_secret": ""}

_sent_kind: Final[ContextVar[SentKind | None]] = ContextVar("sent_kind", default=None)  # The package cannot pass it on.


def load_openai() -> Any:
    """Import the package, which takes 0.4 s. Its variable OPENAI_LOG does not change the logging of this process."""
    root, own = logging.getLogger(), logging.getLogger("openai")
    handlers, level = root.handlers[:], own.level
    import openai

    if own.level != level:  # OPENAI_LOG is set.
        own.setLevel(level)
        root.handlers[:] = handlers
    return openai


@cache
def begin_loading() -> None:
    """Import the package in a thread, once. Without the package, `OpenAIClient.load` raises the error."""
    threading.Thread(target=_load_if_installed, name="openai").start()


def _load_if_installed() -> None:
    with suppress(ImportError):
        load_openai()


class OpenAIClient:
    """The client of one service. `api_version` is the version of an Azure service, and None for any other service."""

    def __init__(self, upstream: Upstream, api_key: str, api_version: str | None) -> None:
        self._upstream = upstream
        self._api_key = SecretStr(api_key)  # Nothing that shows this object shows the key.
        self._api_version = api_version
        self._openai: Any = None
        self._client: Any = None

    async def load(self) -> None:
        """Import the package in a thread. Raises the error for a wrong setting if the package is not installed."""
        if self._openai is None:
            try:
                self._openai = await asyncio.to_thread(load_openai)
            except ImportError as error:
                raise self._upstream.rule_error(NOT_INSTALLED) from error

    async def post(self, path: str, body: Mapping[str, Any], *, sent_kind: SentKind) -> httpx2.Response:
        """POST a JSON object, and return the response of any status. Call `load` first.

        The body of a response with status 2xx is unread: the caller closes the response, and sets the deadline and the size
        limit. Another response has at most MAX_ERROR_BYTES of its body, or none. Raises TRANSPORT_ERRORS.
        """
        token = _sent_kind.set(sent_kind)
        try:
            return await self._request("post", path, body=body)
        except UnicodeEncodeError:  # A text contains half of a surrogate pair.
            return await self._request("post", path, body=json.loads(encode_json(body)))
        finally:
            _sent_kind.reset(token)

    async def get(self, path: str) -> httpx2.Response:
        """GET a path without data of the user, and return a response as `post` does."""
        return await self._request("get", path)

    async def _request(self, method: str, path: str, **body: Any) -> httpx2.Response:
        openai = self._openai
        client = self._client = self._client or self._connect()
        options = {} if self._api_key else {"headers": {"Authorization": openai.omit}}
        send = getattr(client, method)
        failure: BaseException | None
        try:
            # With this type the package returns the response as it is, and with `stream` its body unread.
            response: httpx2.Response = await send(
                path, cast_to=httpx2.Response, options=options, stream=True, stream_cls=openai.AsyncStream, **body
            )
            return response
        except openai.APIStatusError as error:
            refusal: httpx2.Response = error.response
            return refusal
        except openai.APIConnectionError as error:
            failure = error.__cause__
        # The package also wraps an error of anyio that httpx2 passes on.
        raise failure if isinstance(failure, TRANSPORT_ERRORS) else httpx2.NetworkError("the connection broke")

    def _connect(self) -> Any:
        openai, upstream = self._openai, self._upstream
        key = self._api_key.get_secret_value()
        options = {"api_key": key, "http_client": _Sender(upstream), "max_retries": 0, **NO_VARIABLES}
        # Headers of the client itself could come from OPENAI_CUSTOM_HEADERS, which can even replace the key.
        bare: dict[str, Any] = {"default_headers": {}}
        if self._api_version is None:
            return type("BareOpenAI", (openai.AsyncOpenAI,), bare)(base_url=upstream.base_url, **options)
        return type("BareAzureOpenAI", (openai.AsyncAzureOpenAI,), bare)(
            azure_endpoint=upstream.base_url, api_version=self._api_version, **options
        )


class _Sender(httpx2.AsyncClient):
    """The HTTP client of the package, which builds and sends every request through `upstream`."""

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(transport=httpx2.AsyncBaseTransport(), trust_env=False)  # Its own transport is never used.
        self._upstream = upstream

    def build_request(
        self,
        method: str,
        url: httpx2.URL | str,
        *,
        content: Any = None,
        headers: Any = (),
        params: Any = None,
        **_: Any,
    ) -> httpx2.Request:
        keys: Iterable[tuple[str, str]] = ((name, value) for name, value in headers if name.lower() in KEY_HEADERS)
        return self._upstream.build_request(
            method.upper(), f"{url}?{params}" if params else str(url), content or b"", keys
        )

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        """Return a successful response with its body unread. The package reads the body of any other without a limit."""
        response = await self._upstream.send(request, sent_kind=_sent_kind.get())
        if response.is_success:
            return response
        body = await read_body(response, MAX_ERROR_BYTES)
        # The package decodes the text, so it gets no charset and no encoding to decode it with.
        headers = {name: value for name, value in response.headers.items() if name == "retry-after"}
        return httpx2.Response(response.status_code, headers=headers, content=body or b"", request=request)
