"""The services that speak OpenAI's chat protocol as data: address, fields, prices, context and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import urlsplit

from modules.llm_platform.domain.urls.canonical_url import is_web_url

DEFAULT_TIMEOUT_S = 60.0  # LLM_TIMEOUT_S
DEFAULT_IDLE_TIMEOUT_S = 30.0  # LLM_IDLE_TIMEOUT_S
OPENAI_URL = "https://api.openai.com/v1"
PATH_STEPS = frozenset({".", ".."})  # no names of deployments, which are parts of a path
AZURE_API_VERSION = "2024-10-21"  # the first stable version whose streams report their usage


@dataclass(frozen=True, slots=True)
class Variables:
    """The settings that error messages name."""

    key: str = "LLM_API_KEY"
    address: str = "LLM_BASE_URL"
    model: str = "LLM_MODEL"
    user_agent: str | None = None  # required by a service that checks it
    context: str = "LLM_CONTEXT_TOKENS"

    @classmethod
    def listed(cls, name: str) -> Variables:
        """Return the fields of an entry of LLM_PROVIDERS."""
        key, address, model, context = (
            f"{field} of {name} in LLM_PROVIDERS" for field in ("api_key", "base_url", "model", "context_tokens")
        )
        return cls(key, address, model, context=context)


@dataclass(frozen=True, slots=True)
class LLMKind:
    """One kind of service. Prices are US dollars per million tokens, or None if unknown."""

    address: str | None
    max_tokens_field: str
    needs_key: bool = True
    deployments: bool = False  # Azure: the model is part of the path, and `api_version` of the query
    price: float | None = None  # dollars for input and for output, unless configured
    context_tokens: int | None = None
    user_agent: str | None = None  # None: the default of the HTTP client
    accepts_temperature: bool = True
    batches: bool = False  # answers many calls together: no bound even where the model is local
    serves_others: bool = False  # other vendors' services use this kind, too: with a base_url, no key is required
    variables: Variables = Variables()

    def version(self, configured: str | None) -> str | None:
        """Return the version of the API, or None for a service without versions."""
        return (configured or AZURE_API_VERSION) if self.deployments else None


KINDS: Mapping[str, LLMKind] = MappingProxyType(
    {
        "openai": LLMKind(OPENAI_URL, "max_completion_tokens", serves_others=True),
        "kimi": LLMKind(
            "https://api.kimi.com/coding/v1",
            "max_completion_tokens",
            price=0.0,  # a subscription: a call costs nothing
            context_tokens=262_144,
            accepts_temperature=False,
            user_agent="KimiCLI/0.77",  # others are rejected; the operator decides to send it
            variables=Variables("KIMI_API_KEY", "KIMI_BASE_URL", "KIMI_MODEL", "KIMI_USER_AGENT"),
        ),
        "azure": LLMKind(
            None,
            "max_completion_tokens",
            deployments=True,
            variables=Variables("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_DEPLOYMENT"),
        ),
        "aitunnel": LLMKind(
            "https://api.aitunnel.ru/v1",
            "max_tokens",
            variables=Variables("AITUNNEL_API_KEY", "AITUNNEL_BASE_URL", "AITUNNEL_MODEL"),
        ),
        "ollama": LLMKind("http://localhost:11434/v1", "max_tokens", needs_key=False, price=0.0),
        "vllm": LLMKind("http://localhost:8000/v1", "max_tokens", needs_key=False, price=0.0, batches=True),
    }
)


@dataclass(frozen=True, slots=True)
class LLMConnection:
    """One configured model: the settings of the operator, and the defaults of its kind."""

    name: str
    kind: str
    model: str
    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    price_in: float | None = None
    price_out: float | None = None
    context_tokens: int | None = None
    concurrency: int | None = None  # calls at once; None: the default of the kind
    sources_tokens: int | None = None  # tokens of sources in the prompt of a short answer
    timeout: float = DEFAULT_TIMEOUT_S  # seconds until the first token
    idle_timeout: float = DEFAULT_IDLE_TIMEOUT_S  # seconds between two tokens
    temperature: float | None = None  # replaces the temperature of each request
    is_local: bool = False  # runs on the operator's hardware: free of charge, and slow unless its kind `batches`
    user_agent: str | None = None
    api_version: str | None = None
    variables: Variables | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of language model: choose one of {', '.join(KINDS)}")

    @property
    def traits(self) -> LLMKind:
        return KINDS[self.kind]

    @property
    def settings(self) -> Variables:
        """The settings from which this connection was built, by default the settings of its kind."""
        return self.variables or self.traits.variables

    @property
    def needs_key(self) -> bool:
        return self.traits.needs_key and not (self.traits.serves_others and self.base_url)

    @property
    def max_tokens_field(self) -> str:
        """The request field that limits the answer. Local servers get the older name: a server that does not know
        the newer name would write without a limit.
        """
        return "max_tokens" if self.is_local else self.traits.max_tokens_field

    @property
    def address(self) -> str | None:
        return self.base_url or self.traits.address

    @property
    def context(self) -> int | None:
        """The context window in tokens, prompt and answer together, or None if it is unknown."""
        return self.context_tokens or self.traits.context_tokens

    @property
    def reads_slowly(self) -> bool:
        """Whether it runs on hardware of the operator that may be a CPU, which reads 20 to 100 tokens a second."""
        return self.is_local and not self.traits.batches

    @property
    def max_concurrent(self) -> int:
        """The calls at once, or 0 for no bound. A slow model answers one call at a time."""
        return self.concurrency or int(self.reads_slowly)

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the cost in US dollars, or None if a price is unknown."""
        usual = 0.0 if self.is_local else self.traits.price
        price_in = usual if self.price_in is None else self.price_in
        price_out = usual if self.price_out is None else self.price_out
        if price_in is None or price_out is None:
            return None
        return (prompt_tokens * price_in + completion_tokens * price_out) / 1_000_000


def find_configuration_error(config: LLMConnection) -> str | None:
    """Return a message about missing settings or the first invalid one, with the variables to set. None means no problem.

    The first request raises it, not the start. It holds no value of a setting.
    """
    names, key = config.settings, config.api_key
    if missing := dict(_list_missing(config)):
        return f"{config.name} needs {' and '.join(missing)}: set {' and '.join(missing.values())}"
    if not fits_a_header(key):
        return f"{config.name}: {names.key} contains characters that a key cannot have: check it"
    if not fits_a_header(config.user_agent or ""):
        return f"{config.name}: {names.user_agent or 'its User-Agent'} must be plain ASCII"
    if config.traits.deployments and config.model in PATH_STEPS:
        return f"{config.name} has no such deployment: check {names.model}"
    if not _is_address(config.address or ""):
        return f"{config.name} has no usable address: check {names.address}"
    return None


def _list_missing(config: LLMConnection) -> Iterator[tuple[str, str]]:
    """Return each missing setting and its variable."""
    names = config.settings
    if config.needs_key and not config.api_key:
        if config.traits.serves_others:
            yield "a key (or the address of a service that takes none)", f"{names.key} (or {names.address})"
        else:
            yield "a key", names.key
    if not config.address:
        yield "an address", names.address
    if not config.model:
        yield ("a deployment" if config.traits.deployments else "a model"), names.model


def fits_a_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value) and value == value.strip()


def _is_address(text: str) -> bool:
    try:
        return is_web_url(text) and urlsplit(text).port != 0
    except ValueError:  # a port beyond 65535
        return False
