"""Implementations of ports for what is not configured: every call raises an error that names the setting."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, NoReturn, TypeVar, cast

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.exceptions import AppException

Port = TypeVar("Port")


class Unconfigured:
    """The base of all such implementations. `remedy` is the message of the error."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self.remedy = remedy


def _make_refusing(
    port: type[Port], error: type[AppException], *, has_ping: bool = False, **others: Any
) -> Callable[[str, str], Port]:
    """Return the constructor of a port whose methods raise the error, except `others`."""

    def refuse(self: Unconfigured, *_: object, **__: object) -> NoReturn:
        raise error(self.remedy)

    async def refuse_awaited(self: Unconfigured, *_: object, **__: object) -> NoReturn:
        raise error(self.remedy)

    names: frozenset[str] = getattr(port, "__abstractmethods__", frozenset())
    methods = {name: refuse_awaited if iscoroutinefunction(getattr(port, name)) else refuse for name in names}
    if has_ping:
        methods["ping"] = refuse_awaited
    made = type(f"Unconfigured{port.__name__[1:]}", (Unconfigured, port), {**methods, **others})
    return cast(Callable[[str, str], Port], made)


async def _close_nothing(self: Unconfigured) -> None:
    """Do nothing, because nothing was opened."""


# mypy rejects an abstract class here, but `_make_refusing` implements all abstract methods.
unconfigured_web_search = _make_refusing(
    IWebSearchProvider,  # type: ignore[type-abstract]
    exceptions.WebSearchConfigError,
    has_ping=True,
)
unconfigured_page_reader = _make_refusing(IPageReader, exceptions.PageConfigError)  # type: ignore[type-abstract]
unconfigured_site_reader = _make_refusing(ISiteReader, exceptions.PageConfigError)  # type: ignore[type-abstract]
unconfigured_embedder = _make_refusing(  # keyword search still works
    IEmbedder,  # type: ignore[type-abstract]
    exceptions.EmbeddingConfigError,
    dimension=0,
    window_tokens=1_000_000,
)
unconfigured_vector_store = _make_refusing(
    IVectorStore,  # type: ignore[type-abstract]
    exceptions.VectorStoreConfigError,
    aclose=_close_nothing,
)
