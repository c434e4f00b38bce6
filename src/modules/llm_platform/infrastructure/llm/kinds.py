"""Services that speak OpenAI's chat protocol differ by data, not by code: this is the data.

What is known of each service: its address, whether it wants a key and in which header, how it calls the longest answer,
what it costs, how much it reads at once, and the names of the settings to mention when something is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import urlsplit

from modules.llm_platform.domain.canonical_url import is_web_url

DEFAULT_TIMEOUT_S = 60.0  # LLM_TIMEOUT_S
AZURE_API_VERSION = "2024-10-21"  # the first stable one whose streams tell their usage


@dataclass(frozen=True, slots=True)
class Variables:
    """The settings that an error message names as the remedy."""

    key: str = "LLM_API_KEY"
    address: str = "LLM_BASE_URL"
    model: str = "LLM_MODEL"
    user_agent: str | None = None  # where the service looks at it

    @classmethod
    def listed(cls, name: str) -> Variables:
        """Those of an entry of LLM_PROVIDERS."""
        return cls(*(f"{field} of {name} in LLM_PROVIDERS" for field in ("api_key", "base_url", "model")))


@dataclass(frozen=True, slots=True)
class LLMKind:
    """One kind of service. Prices are US dollars for a million tokens; None: not known."""

    address: str | None
    max_tokens_field: str
    needs_key: bool = True
    key_header: str = "authorization"  # which carries `Bearer KEY`; any other header carries the bare key
    deployments: bool = False  # Azure's addresses: the model stands in the path, the version in the query
    price: float | None = None  # of either direction, where nothing else is configured
    context_tokens: int | None = None
    user_agent: str | None = None  # None: our own
    variables: Variables = Variables()


KINDS: Mapping[str, LLMKind] = MappingProxyType(
    {
        "openai": LLMKind("https://api.openai.com/v1", "max_completion_tokens"),
        "kimi": LLMKind(
            "https://api.kimi.com/coding/v1",
            "max_completion_tokens",
            price=0.0,  # a subscription, requirement RB16
            context_tokens=262_144,
            user_agent="KimiCLI/0.77",  # others are turned away; sending it is the operator's decision
            variables=Variables("KIMI_API_KEY", "KIMI_BASE_URL", "KIMI_MODEL", "KIMI_USER_AGENT"),
        ),
        "azure": LLMKind(
            None,
            "max_completion_tokens",
            key_header="api-key",
            deployments=True,
            variables=Variables("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_DEPLOYMENT"),
        ),
        "aitunnel": LLMKind(
            "https://api.aitunnel.ru/v1",
            "max_tokens",
            variables=Variables("AITUNNEL_API_KEY", "AITUNNEL_BASE_URL", "AITUNNEL_MODEL"),
        ),
        "ollama": LLMKind("http://localhost:11434/v1", "max_tokens", needs_key=False, price=0.0),
        "vllm": LLMKind("http://localhost:8000/v1", "max_tokens", needs_key=False, price=0.0),
    }
)


@dataclass(frozen=True, slots=True)
class LLMConnection:
    """One configured model: what the operator said, and what its kind says where the operator is silent."""

    name: str
    kind: str
    model: str
    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    price_in: float | None = None
    price_out: float | None = None
    context_tokens: int | None = None
    timeout: float = DEFAULT_TIMEOUT_S
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
        """The settings behind this connection: those that it was made from, else those of its kind."""
        return self.variables or self.traits.variables

    @property
    def address(self) -> str | None:
        return self.base_url or self.traits.address

    @property
    def context(self) -> int | None:
        """Tokens that prompt and answer may take together; None: not known."""
        return self.context_tokens or self.traits.context_tokens

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost in US dollars; None when a price is not known."""
        price_in = self.traits.price if self.price_in is None else self.price_in
        price_out = self.traits.price if self.price_out is None else self.price_out
        if price_in is None or price_out is None:
            return None
        return (prompt_tokens * price_in + completion_tokens * price_out) / 1_000_000


# What is missing or wrong in the settings of a model. It stops no start: it is told when the model is asked.


def configuration_error(config: LLMConnection) -> str | None:
    """What is missing, or else the first mistake, with the variables to set; None when it is well. Never a value."""
    names, key = config.settings, config.api_key
    if missing := dict(_missing(config)):
        return f"{config.name} needs {' and '.join(missing)}: set {' and '.join(missing.values())}"
    if not _fits_a_header(key):
        return f"{config.name}: {names.key} contains characters that no key has: check it"
    if not _fits_a_header(config.user_agent or ""):
        return f"{config.name}: {names.user_agent or 'its User-Agent'} must be plain ASCII"
    if not _is_address(config.address or ""):
        return f"{config.name} has no usable address: check {names.address}"
    return None


def _missing(config: LLMConnection) -> Iterator[tuple[str, str]]:
    """What there has to be, and its variable."""
    names = config.settings
    if config.traits.needs_key and not config.api_key:
        yield "a key", names.key
    if not config.address:
        yield "an address", names.address
    if not config.model:
        yield ("a deployment" if config.traits.deployments else "a model"), names.model


def _fits_a_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value) and value == value.strip()


def _is_address(text: str) -> bool:
    try:
        return is_web_url(text) and urlsplit(text).port != 0
    except ValueError:  # a port beyond 65535
        return False
