"""Search providers: a table with one row per provider, and the providers in use.

A new provider needs an adapter, its settings, a row in `SEARCH_PROVIDERS` and a subclass of the contract class. The choices
of the setting SEARCH_PROVIDERS and of `--provider`, the order of `auto`, the checks of `doctor`, the flags of /health, the
rate limits and the table in docs/reference/settings.md derive from the rows.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.resources import Resources, has_index, reveal_secret
from modules.llm_platform.infrastructure.unconfigured import unconfigured_web_search
from shared.config import Settings, SettingsError, example_line

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.search.keyed_service import KeyedWebSearch

SEARXNG: Final = "searxng"
ADAPTERS: Final = "modules.llm_platform.infrastructure.search"
BASE_URLS: Final = "SEARCH_BASE_URLS"
OWN_SETTINGS: Final[Mapping[str, tuple[str, str]]] = {  # services with more settings than their key: address, timeout
    "brave": ("BRAVE_BASE_URL", "BRAVE_TIMEOUT_S"),
    "bocha": ("BOCHA_BASE_URL", "BOCHA_TIMEOUT_S"),
}

REPORT_SEARXNG_RPM = 10.0  # searches per minute of all reports if SEARXNG_RPM is not set

_INSTANCE_NUMBER = re.compile(r"-\d+$")  # the second instance of a provider is `searxng-2`


@dataclass(frozen=True, slots=True)
class SearchParts:
    """The parts from which search adapters are built. `documents` creates the search in the folder and the index."""

    settings: Settings
    resources: Resources
    documents: Callable[[], IWebSearchProvider]


@dataclass(frozen=True, slots=True)
class SearchProviderSpec:
    """The description of one search provider.

    - `build` yields one adapter, or one for each configured instance. An adapter without its settings raises an error when
      it is called.
    - `configured` returns whether the provider's settings exist. `auto` then uses it, unless it is `named_only`.
    - `paid` is True if a search costs money. `doctor` then searches only with --yes.
    - `source_kinds` are the kinds of sources that it supports. For others it searches the web, and reports that in `degraded`.
    - `settings` are the names of its settings. The first one configures it.
    - `addresses` returns its URLs, which are part of the keys of stored reports.
    - `rpm_setting` is the name of the setting for the maximum of searches per minute, or None if it has no limit.
    - `report_rpm` is that maximum for all reports if the setting is not set.
    - `fallback` is True if it is used when no provider is configured.
    - `named_only` is True if its settings serve another purpose too, so that they do not choose it.
    """

    name: str
    build: Callable[[SearchParts], Iterator[IWebSearchProvider]]
    configured: Callable[[Settings], bool]
    paid: bool
    source_kinds: tuple[SourceKind, ...]
    label: str
    settings: tuple[str, ...]
    addresses: Callable[[Settings], Iterable[str]] = lambda settings: ()
    rpm_setting: str | None = None
    report_rpm: float | None = None
    fallback: bool = False
    named_only: bool = False

    def find_missing_setting(self, settings: Settings) -> str | None:
        """Return the required setting that is missing, if any. The documents provider reports that itself."""
        can_search = self.configured(settings) or self.fallback or self.name == DOCUMENTS
        return None if can_search else self.settings[0]


def _build_searxng(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter

    settings = parts.settings
    if not settings.SEARXNG_URL:
        yield unconfigured_web_search(
            SEARXNG, "SearXNG needs an address: set SEARXNG_URL, for instance http://localhost:8080"
        )
    for number, url in enumerate(settings.SEARXNG_URL, 1):
        yield SearXNGWebSearchAdapter(
            url,
            name=SEARXNG if number == 1 else f"{SEARXNG}-{number}",
            engines={
                "web": settings.SEARXNG_ENGINES_WEB,
                "news": settings.SEARXNG_ENGINES_NEWS,
                "academic": settings.SEARXNG_ENGINES_ACADEMIC,
            },
            username=settings.SEARXNG_USERNAME,
            password=reveal_secret(settings.SEARXNG_PASSWORD) or None,
            timeout=settings.SEARXNG_TIMEOUT_S,
            safesearch=settings.SEARXNG_SAFESEARCH,
            client=parts.resources.client(url, settings.SEARXNG_TIMEOUT_S),
            redactor=parts.resources.redactor,
        )


def _build_ddgs(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.search.ddgs import DdgsWebSearchAdapter

    adapter = DdgsWebSearchAdapter(proxy=parts.settings.UPSTREAM_PROXY, redactor=parts.resources.redactor)
    yield parts.resources.closing(adapter)


def _build_keyed_service(
    name: str, adapter: str, label: str, source_kinds: tuple[SourceKind, ...], *, named_only: bool = False
) -> SearchProviderSpec:
    """Return the row of a service with a key, in NAME_API_KEY. Its address is in NAME_BASE_URL and the timeout of a search in
    NAME_TIMEOUT_S if there are such settings of its own (`OWN_SETTINGS`), else in SEARCH_BASE_URLS and in its adapter.

    `adapter` is the name of a KeyedWebSearch in `infrastructure/search/<name>.py`.
    """
    key_setting = f"{name.upper()}_API_KEY"
    url_setting, timeout_setting = OWN_SETTINGS.get(name, (BASE_URLS, None))

    def get_key(settings: Settings) -> str:
        return reveal_secret(getattr(settings, key_setting))

    def get_url(settings: Settings) -> str | None:
        return settings.SEARCH_BASE_URLS.get(name) if url_setting == BASE_URLS else getattr(settings, url_setting)

    def build(parts: SearchParts) -> Iterator[IWebSearchProvider]:
        adapter_type: type[KeyedWebSearch] = getattr(import_module(f"{ADAPTERS}.{name}"), adapter)
        url = get_url(parts.settings) or adapter_type.base_url
        timeout_s = getattr(parts.settings, timeout_setting) if timeout_setting else adapter_type.timeout_s
        client, redactor = parts.resources.client(url, timeout_s), parts.resources.redactor
        yield adapter_type(get_key(parts.settings), url, timeout_s, client, redactor)

    return SearchProviderSpec(
        name=name,
        build=build,
        configured=lambda settings: bool(get_key(settings)),
        paid=True,
        source_kinds=source_kinds,
        label=label,
        settings=tuple(filter(None, (key_setting, url_setting, timeout_setting))),
        addresses=lambda settings: filter(None, (get_url(settings),)),
        named_only=named_only,
    )


SEARCH_PROVIDERS: tuple[SearchProviderSpec, ...] = (  # `auto` tries them in this order
    SearchProviderSpec(
        name=SEARXNG,
        build=_build_searxng,
        configured=lambda settings: bool(settings.SEARXNG_URL),
        paid=False,
        source_kinds=("web", "news", "academic"),
        label="SearXNG, a self-hosted metasearch engine",
        settings=tuple(name for name in Settings.model_fields if name.startswith("SEARXNG_")),
        addresses=lambda settings: settings.SEARXNG_URL,
        rpm_setting="SEARXNG_RPM",
        report_rpm=REPORT_SEARXNG_RPM,
    ),
    _build_keyed_service("brave", "BraveWebSearchAdapter", "Brave Search API", ("web", "news")),
    _build_keyed_service("bocha", "BochaWebSearchAdapter", "Bocha AI web search", ("web",)),
    _build_keyed_service("exa", "ExaWebSearchAdapter", "Exa, semantic search", ("web", "news", "academic")),
    _build_keyed_service("tavily", "TavilyWebSearchAdapter", "Tavily", ("web", "news")),
    _build_keyed_service("serper", "SerperWebSearchAdapter", "Serper, Google results", ("web", "news", "academic")),
    _build_keyed_service(
        "jina", "JinaWebSearchAdapter", "Jina Search, Google results", ("web", "news"), named_only=True
    ),
    SearchProviderSpec(
        name=DOCUMENTS,
        build=lambda parts: iter([parts.documents()]),
        configured=lambda settings: settings.DOCUMENTS_DIR is not None,
        paid=False,
        source_kinds=(DOCUMENTS,),
        label="a folder of documents, or the index",
        settings=("DOCUMENTS_DIR", "DOCUMENTS_BASE_URL"),
        addresses=lambda settings: (str(settings.DOCUMENTS_DIR or ""),),
    ),
    SearchProviderSpec(
        name="ddgs",
        build=_build_ddgs,
        configured=lambda settings: False,
        paid=False,
        source_kinds=("web", "news"),
        label="public search engines, without an API key",
        settings=(),
        fallback=True,
    ),
)


def find_spec(provider: str) -> SearchProviderSpec | None:
    """Return the row of an adapter (`searxng-2` has the row of SearXNG), or None for an adapter of the caller."""
    name = _INSTANCE_NUMBER.sub("", provider)
    return next((spec for spec in SEARCH_PROVIDERS if spec.name == name), None)


def list_provider_names() -> tuple[str, ...]:
    """Return the valid values of SEARCH_PROVIDERS and `--provider`."""
    return tuple(spec.name for spec in SEARCH_PROVIDERS)


def check_providers(settings: Settings) -> None:
    """Raise SettingsError if SEARCH_PROVIDERS or SEARCH_BASE_URLS names an unknown provider."""
    _check_names("SEARCH_PROVIDERS must be", settings.SEARCH_PROVIDERS, list_provider_names())
    with_address = [spec.name for spec in SEARCH_PROVIDERS if BASE_URLS in spec.settings]
    _check_names(f"{BASE_URLS} must name", settings.SEARCH_BASE_URLS, with_address)


def _check_names(rule: str, named: Iterable[str], known: Sequence[str]) -> None:
    if not set(named) <= set(known):
        *others, last = map(repr, known)
        raise SettingsError(f"{rule} {', '.join(others)} or {last}. Example: {example_line(rule.partition(' ')[0])}")


def search_order(settings: Settings) -> tuple[str, ...]:
    """Return the providers in use, in order: the named ones, else the configured ones, else the fallback.

    Offline: only documents, if there are any. Raises SettingsError like `check_providers`.
    """
    check_providers(settings)
    configured = tuple(spec.name for spec in SEARCH_PROVIDERS if spec.configured(settings) and not spec.named_only)
    fallback = tuple(spec.name for spec in SEARCH_PROVIDERS if spec.fallback)
    order = settings.SEARCH_PROVIDERS or configured or fallback
    if not settings.LLM_PLATFORM_OFFLINE:
        return order
    return (DOCUMENTS,) if DOCUMENTS in order or has_index(settings) else ()


def uses_fallback(settings: Settings) -> bool:
    """Return whether no provider is configured, so that queries go to the provider without an API key."""
    specs = map(find_spec, search_order(settings))
    return not settings.SEARCH_PROVIDERS and any(spec is not None and spec.fallback for spec in specs)


def list_search_addresses(settings: Settings) -> tuple[str, ...]:
    """Return the URLs of all providers."""
    return tuple(address for spec in SEARCH_PROVIDERS for address in spec.addresses(settings))
