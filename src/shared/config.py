"""All settings of the platform in one flat class; docs/reference/settings.md is generated from it.

Precedence: argument, environment, `.env` of the working directory, default. If a setting has two names, the first one
takes precedence. An empty variable counts as not set. An invalid value raises an error that names the variable, the
reason and an example. Errors and reprs never contain a secret.

Over 500 lines: the class is a table with one entry per variable, and `shared` is limited to three modules.
"""

from __future__ import annotations

import json
import logging
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import cache, partial
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from dotenv.parser import parse_stream
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, NoDecode, SettingsConfigDict

LLMKindName = Literal["openai", "kimi", "azure", "aitunnel", "ollama", "vllm"]
KafkaTopic = Literal[
    "rag_search_request", "rag_search_result", "rag_answer_request", "rag_answer_result", "rag_failed"
]
LLMStage = Literal["plan", "queries", "rank", "summarize", "write", "judge"]
ReaderName = Literal["jina", "direct"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
SettingOrigin = Literal["argument", "environment", ".env", "default"]

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
SECRET_MIN_CHARS = 8  # shorter secrets are not redacted: that would also blank out ordinary words
MAX_TIMEOUT_S = 86_400  # a timeout beyond a day is a typing error
MAX_RATE_LIMIT = 100_000_000
WEBHOOK_SECRET_PREFIX = "whsec_"
WEBHOOK_SECRET_BYTES = range(24, 65)
# First words that variables of other programs have, too: our prefix is then two words long.
SHARED_WORDS = frozenset({"ALLOWED", "AZURE", "CORS", "DATABASE", "LOG", "MAX", "RATE", "READ", "REDIS", "UPSTREAM", "WEBHOOK"})
SECTIONS: Mapping[str, str] = {  # first field of each section to the heading of the section
    "LLM_PLATFORM_HOST": "Server",
    "LLM_PLATFORM_OFFLINE": "All upstreams",
    "LOG_LEVEL": "Logs",
    "REDIS_URL": "Shared state",
    "SEARCH_PROVIDERS": "Search",
    "LLM_KIND": "Language models",
    "READERS": "Reading pages",
    "REPORT_PAGES": "Reports",
    "QDRANT_URL": "Index",
    "KAFKA_BOOTSTRAP_SERVERS": "Kafka",
    "RESEARCH_TIMEOUT_S": "Research and cache",
}

# Also of several hosts, which urlsplit refuses, and among the parameters.
_URL_PASSWORD = re.compile(r"(?:[a-z]+://[^:@/]*:([^@/]*)@|[?&](?:ssl)?password=([^&#]*))")
_URL = re.compile(r"https?://([^\s/?#\\]+@)?[^\s/?#@\\]+(/[^\s?#\\]*)?", re.IGNORECASE)
_REDIS_URL = re.compile(r"(?:rediss?://(?:[^\s/?#@\\]*@)?[^\s/?#@\\]+(?:/\d*)?|unix:///[^\s?#@\\]+)(?:\?[^\s#@]*)?")
_REDIS_OPTIONS = {"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}  # another one may hold a secret
_LABELLED_KEY = re.compile(r"([A-Za-z0-9_-]{1,32}):(.{8,})")  # an older key with a colon may be shorter
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[1-9]\d{0,4})?")
_SECRET_OPTION = re.compile(r"password|passphrase|secret|key\.pem|oauthbearer\.config")  # names of librdkafka options
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_URL_USER = re.compile(r"://[^\s/@]+@")
_PYDANTIC_SHOULD = re.compile(r"^(?:Input|String|Value|Tuple|List|Dictionary|URL) should\b")


UNREADABLE_LINE = ".env line %d is ignored: it must be NAME=value, with both quotes if the value has any"

log = logging.getLogger(__name__)


class SettingsError(ValueError):
    """A setting is invalid. The message names the variable, the reason and an example, and contains no secret."""


def _split_list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _split_lower(value: Any) -> Any:
    return _split_list(value.lower() if isinstance(value, str) else value)


def _split_providers(value: Any) -> Any:
    return () if value == "auto" else _split_lower(value)


def _parse_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("must be JSON") from None  # the decoder's message quotes the value


def _parse_kafka_config(value: Any) -> Any:
    options = _parse_json(value)
    if not isinstance(options, dict):
        raise ValueError("must be a JSON object, name to value")
    for name, option in options.items():
        if not isinstance(option, str | int | float | bool | SecretStr):
            raise ValueError(f"({name}) must be text, a number, true or false")
    return options


def _check_topics(names: dict[str, str]) -> dict[str, str]:
    """Kafka refuses names that differ in a dot and an underscore only, since its metrics confuse them."""
    for contract_name, name in names.items():
        if not _TOPIC.fullmatch(name) or name in (".", ".."):
            raise ValueError(f"({contract_name}) must be 1 to 249 letters, digits, dots, underscores and hyphens")
    used = [names.get(each, each).replace(".", "_") for each in get_args(KafkaTopic)]
    if len(set(used)) < len(used):
        raise ValueError("must give each of the five topics another name; a dot and an underscore count as equal")
    return names


def _split_amounts(value: Any) -> Any:
    """`1,alice=3` to {"": "1", "alice": "3"}."""
    if isinstance(value, int | float):
        return {"": value}
    if not isinstance(value, str) or value.startswith("{"):
        return _parse_json(value)
    parts = [part.strip().rpartition("=") for part in value.split(",") if part.strip()]
    amounts = {label.strip(): amount.strip() for label, _, amount in parts}
    if len(amounts) < len(parts):
        raise ValueError("must have each label, and the number for all keys, at most once")
    return amounts


def _mask_secrets(options: dict[str, Any]) -> dict[str, Any]:
    return {name: SecretStr(str(value)) if _SECRET_OPTION.search(name) else value for name, value in options.items()}


def _check_url(value: str, *, with_user: bool = False) -> str:
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    match = _URL.fullmatch(value)
    if match is None:
        raise ValueError("must be a URL with a host and without spaces, ? and #")
    if match.group(1) and not with_user:
        raise ValueError("must not contain a user name or password")
    if not _has_valid_port(value):
        raise ValueError("must have a port below 65536")
    return value.rstrip("/")


def _has_valid_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:  # an invalid port, or an unclosed bracket
        return False


def _check_url_with_user(value: str) -> str:
    return _check_url(value, with_user=True)


def _check_redis_url(value: str) -> str:
    if not value.startswith(("redis://", "rediss://", "unix:///")):
        raise ValueError("must begin with redis://, rediss:// (TLS) or unix:///")
    if not _REDIS_URL.fullmatch(value) or not _has_valid_port(value):
        raise ValueError("must be redis://user:password@host:port/db, with special characters percent-encoded")
    options = dict(parse_qsl(urlsplit(value).query, keep_blank_values=True))
    if not options.keys() <= _REDIS_OPTIONS:
        raise ValueError(f"must have no options other than {', '.join(sorted(_REDIS_OPTIONS))}")
    if not options.get("db", "0").isdecimal():
        raise ValueError("must have a number as db")
    return value


def _parse_host(value: str) -> str:
    if "/" in value:
        try:
            return str(ip_network(value, strict=False))
        except ValueError:
            raise ValueError("contains an invalid network: write it as 10.1.0.0/16") from None
    # An IPv6 address without brackets has no port.
    entry = f"[{value}]" if value.count(":") > 1 and not value.startswith("[") else value
    if not _HOST.fullmatch(entry) or not _has_valid_port(f"http://{entry}"):
        raise ValueError("must be a comma list of host, host:port or networks such as 10.1.0.0/16")
    return value.lower()


def _parse_network(value: str) -> str:
    try:
        return str(ip_network(value, strict=False))
    except ValueError:
        raise ValueError("must be a comma list of addresses or networks such as 10.0.0.0/8") from None


def _clean_key(value: Any) -> Any:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        return value
    if not (text.strip().isascii() and text.strip().isprintable()):
        raise ValueError("contains a character that cannot be sent in a header: copy the key again")
    return SecretStr(text.strip())


def _to_upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _split_keys(value: Any) -> Any:
    return [_clean_key(part) for part in _split_list(value)] if isinstance(value, (str, list, tuple)) else value


def _read_secret(value: Any) -> Any:
    """The text of a file, without the line break at its end."""
    if not isinstance(value, (str, Path)):
        return value
    try:
        text = Path(value).expanduser().read_text("utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"must be a text file that can be read ({type(error).__name__})") from None
    if not text:
        raise ValueError("must be a file with a password; this one is empty")
    return SecretStr(text)


def decode_webhook_secret(secret: str) -> bytes:
    """Return the key of `whsec_…`; ValueError if it is none of Standard Webhooks."""
    key = b64decode(secret.removeprefix(WEBHOOK_SECRET_PREFIX), validate=True)
    if not secret.startswith(WEBHOOK_SECRET_PREFIX) or len(key) not in WEBHOOK_SECRET_BYTES:
        raise ValueError
    return key


def _check_webhook_secret(value: SecretStr) -> SecretStr:
    try:
        decode_webhook_secret(value.get_secret_value())
    except ValueError:
        raise ValueError("must be whsec_ and 24 to 64 random bytes in base64") from None
    return value


def _clean_database_url(value: Any) -> Any:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        return value
    if not text.strip().startswith(("postgresql://", "postgres://")):
        raise ValueError("must begin with postgresql://")
    return SecretStr(text.strip())


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_list)]
HttpUrl = Annotated[str, AfterValidator(_check_url)]
UrlWithUser = Annotated[str, AfterValidator(_check_url_with_user)]
RedisUrl = Annotated[str, AfterValidator(_check_redis_url)]
UrlList = Annotated[tuple[UrlWithUser, ...], NoDecode, BeforeValidator(_split_list)]
HostList = Annotated[tuple[Annotated[str, AfterValidator(_parse_host)], ...], NoDecode, BeforeValidator(_split_list)]
NetworkList = Annotated[
    tuple[Annotated[str, AfterValidator(_parse_network)], ...], NoDecode, BeforeValidator(_split_list)
]
ReaderList = Annotated[tuple[ReaderName, ...], NoDecode, BeforeValidator(_split_lower), Field(min_length=1)]
ProviderList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_providers)]  # wiring.search checks the names
LanguageTag = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
LanguageList = Annotated[tuple[LanguageTag, ...], NoDecode, BeforeValidator(_split_lower), Field(max_length=4)]
CollectionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
Key = Annotated[SecretStr, BeforeValidator(_clean_key)]
DatabaseUrl = Annotated[SecretStr, BeforeValidator(_clean_database_url)]  # as a whole, since it holds the password
KeyList = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split_keys)]
WebhookSecretList = Annotated[
    tuple[Annotated[SecretStr, AfterValidator(_check_webhook_secret)], ...], NoDecode, BeforeValidator(_split_keys)
]
KafkaConfig = Annotated[
    dict[str, str | int | float | bool | SecretStr],
    NoDecode,
    BeforeValidator(_parse_kafka_config),
    AfterValidator(_mask_secrets),
]
SecretFile = Annotated[SecretStr, BeforeValidator(_read_secret)]  # set to a path; the value is the text of the file
Folder = Annotated[Path, AfterValidator(Path.expanduser)]
Seconds = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
DollarsByKey = Annotated[dict[str, Dollars], NoDecode, BeforeValidator(_split_amounts)]
SecondsOrZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ApiKey(NamedTuple):
    """An API key: `label` if it has one, and the values that a client may send.

    `label:key` is accepted as a whole too, because a key without a label may contain a colon.
    """

    label: str | None
    values: tuple[str, ...]


class Price(BaseModel):
    """Prices in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    price_in: float = Field(ge=0, allow_inf_nan=False)
    price_out: float = Field(ge=0, allow_inf_nan=False)


class LLMProviderSettings(BaseModel):
    """One language model. Prices are in US dollars per million tokens; None: unknown (0 for kimi, ollama and vllm)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    kind: LLMKindName = "openai"
    base_url: HttpUrl | None = None
    api_key: Key | None = None
    model: str = Field(min_length=1, max_length=200)
    price_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    price_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    context_tokens: int | None = Field(default=None, ge=1000)
    api_version: str | None = None


def _setting(
    default: Any, description: str, *, names: tuple[str, ...] = (), example: str | None = None, **options: Any
) -> Any:
    """Return the field of a setting. `names`: all its variables if there are several, the one with precedence first."""
    return Field(
        default,
        description=description,
        validation_alias=AliasChoices(*names) if names else None,
        examples=None if example is None else [example],
        **options,
    )


class Settings(BaseSettings):
    """The settings. Fields have the names of the environment variables: `Settings(BOCHA_API_KEY="…")`."""

    model_config = SettingsConfigDict(
        env_file=".env",
        env_file_encoding="utf-8-sig",  # editors on Windows write a byte order mark
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        case_sensitive=True,
        populate_by_name=True,
        str_strip_whitespace=True,
        validate_default=False,
    )

    # Server
    LLM_PLATFORM_HOST: str = _setting(
        "127.0.0.1", "Address that the server listens on; any but a loopback address requires LLM_PLATFORM_API_KEYS"
    )
    LLM_PLATFORM_PORT: int = _setting(8000, "Port that the server listens on; 0: any free port", ge=0, le=65535)
    LLM_PLATFORM_API_KEYS: KeyList = _setting(
        (),
        "Comma list of API keys; when set, every route except /health, /ready, /metrics and /docs requires `Authorization: "
        "Bearer` or `X-API-Key`. `label:key` gives a key a label, which names it in logs; keys with the same label count "
        "as one client",
        example="a-long-random-key",
    )
    RATE_LIMIT_PER_MINUTE: int = _setting(
        30,
        "Requests per minute of one client (an API key, or an address if no keys are set); 0: no limit",
        ge=0,
        le=MAX_RATE_LIMIT,
    )
    RATE_LIMIT_BURST: int = _setting(
        5, "Requests that one client may send at once before RATE_LIMIT_PER_MINUTE applies", ge=1, le=MAX_RATE_LIMIT
    )
    RATE_LIMIT_GLOBAL_PER_HOUR: int = _setting(
        1000, "Requests per hour of all clients together, up to 50 at once; 0: no limit", ge=0, le=MAX_RATE_LIMIT
    )
    TRUSTED_PROXIES: NetworkList = _setting(
        (),
        "Comma list of networks of reverse proxies whose X-Forwarded-For names the client; default: the header is ignored",
        example="10.0.0.0/8",
    )
    ALLOWED_HOSTS: CommaList = _setting(
        (),
        "Comma list of accepted Host headers; default: loopback names if the server listens on loopback, else all",
        example="research.example.org",
    )
    CORS_ORIGINS: CommaList = _setting(
        (),
        "Comma list of origins whose web pages may call the server from a browser",
        example="https://app.example.org",
    )
    MAX_CONCURRENT_RESEARCHES: int = _setting(
        500,
        "Maximum researches that the server runs at the same time; as many more wait up to 5 seconds, others get 503; 0: "
        "no limit",
        ge=0,
    )
    MAX_BACKGROUND_RESEARCHES: int = _setting(
        4,
        "Maximum background researches that the server runs at the same time; others wait in the queue; 0: it runs none",
        ge=0,
        le=1000,
    )
    WEBHOOK_SECRET: WebhookSecretList = _setting(
        (),
        "Secret that signs webhooks: `whsec_` and 24 to 64 random bytes in base64; a comma list of two while one replaces "
        "the other; default: no webhooks",
        example="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    )
    WEBHOOK_ALLOWED_HOSTS: HostList = _setting(
        (),
        "Comma list of hosts (host, host:port or network) that may get webhooks although they are not public or use http",
        example="hooks.example.internal",
    )
    DRAIN_TIMEOUT_S: SecondsOrZero = _setting(20.0, "Seconds that running requests get to finish when the server stops")

    LLM_PLATFORM_DATA_DIR: Folder | None = _setting(
        None,
        "Folder of the research store, background researches, the outcome store and the embedded index; default: the user's "
        "data folder",
        example="~/.local/share/llm-platform",
    )

    # All upstreams
    LLM_PLATFORM_OFFLINE: bool = _setting(
        False, "Use only documents, the research store, and services on loopback that are not search providers"
    )
    UPSTREAM_PROXY: UrlWithUser | None = _setting(
        None, "HTTP proxy for requests to configured upstreams", example="http://localhost:3128", repr=False
    )

    # Logs
    LOG_LEVEL: Annotated[LogLevel, BeforeValidator(_to_upper)] = _setting(
        "INFO",
        "Minimum log level: DEBUG, INFO, WARNING, ERROR or CRITICAL",
        names=("LOG_LEVEL", "RESEARCH_BRIDGE_LOG_LEVEL"),
    )
    LOG_FORMAT: Literal["auto", "console", "json"] = _setting(
        "auto", "auto, console or json; auto: console on a terminal, otherwise JSON lines"
    )
    LOG_QUERIES: bool = _setting(False, "Log the text of queries; if false, only their length")

    # Shared state
    REDIS_URL: RedisUrl | None = _setting(
        None,
        "URL of a Redis server for caches, rate limits and daily budgets that several servers share; "
        "default: each process has its own caches and limits",
        names=("REDIS_URL", "RESEARCH_BRIDGE_REDIS_URL"),
        example="redis://localhost:6379/0",
        repr=False,
    )
    DATABASE_URL: DatabaseUrl | None = _setting(
        None,
        "URL of a PostgreSQL database for the stored reports, background researches and the outcomes of workers, which several "
        "machines share; default: files in the data folder",
        example="postgresql://user:password@localhost:5432/llm_platform",
    )

    # Search
    SEARCH_PROVIDERS: ProviderList = _setting(
        (),
        "Ordered comma list of search providers; auto: all configured providers, or ddgs if none is configured. "
        "The next provider is called only after an error",
        example="searxng,ddgs",
    )
    SEARXNG_URL: UrlList = _setting(
        (),
        "URL of SearXNG; the entries of a comma list are tried in order",
        names=("SEARXNG_URL", "RESEARCH_BRIDGE_SEARXNG_URL"),
        example="http://localhost:8080",
        repr=False,
    )
    SEARXNG_USERNAME: str | None = _setting(
        None,
        "User name for Basic authentication at SearXNG",
        names=("SEARXNG_USERNAME", "SEARCHXNG_BASIC_AUTH_LOGIN"),
        example="me",
    )
    SEARXNG_PASSWORD: SecretStr | None = _setting(
        None,
        "Password for Basic authentication at SearXNG",
        names=("SEARXNG_PASSWORD", "SEARCHXNG_BASIC_AUTH_PASSWORD"),
    )
    SEARXNG_TIMEOUT_S: Seconds = _setting(10.0, "Timeout of one search in seconds")
    SEARXNG_MAX_RESULTS: int = _setting(
        10, "Maximum results of one search of a research request, with any provider", ge=1, le=50
    )
    SEARXNG_SAFESEARCH: int = _setting(0, "Safe search: 0 off, 1 moderate, 2 strict", ge=0, le=2)
    SEARXNG_ENGINES_WEB: CommaList = _setting(
        ("google", "bing", "duckduckgo"), "Comma list of engines for web searches"
    )
    SEARXNG_ENGINES_NEWS: CommaList = _setting(("google news", "bing news"), "Comma list of engines for news searches")
    SEARXNG_ENGINES_ACADEMIC: CommaList = _setting(
        ("google scholar", "arxiv"), "Comma list of engines for academic searches"
    )
    SEARXNG_RPM: Rate | None = _setting(
        None,
        "Maximum searches per minute; default: no limit, 10 in reports",
        names=("SEARXNG_RPM", "LIMIT_SEARCHXNG_RPM"),
        example="10",
    )
    BOCHA_API_KEY: Key = _setting(SecretStr(""), "API key of Bocha AI web search")
    BOCHA_BASE_URL: HttpUrl = _setting(
        "https://api.bochaai.com", "URL of the Bocha API; the newer one is https://api.bocha.cn"
    )
    BOCHA_TIMEOUT_S: Seconds = _setting(30.0, "Timeout of one search in seconds")
    BRAVE_API_KEY: Key = _setting(SecretStr(""), "API key of the Brave Search API")
    BRAVE_BASE_URL: HttpUrl = _setting("https://api.search.brave.com", "URL of the Brave Search API")
    BRAVE_TIMEOUT_S: Seconds = _setting(15.0, "Timeout of one search in seconds")
    DOCUMENTS_DIR: Folder | None = _setting(None, "Folder of documents, or one file, to search", example="~/documents")
    DOCUMENTS_BASE_URL: HttpUrl | None = _setting(
        None, "URL under which readers can open the documents; default: doc:", example="https://wiki.example.org"
    )

    # Language models
    LLM_KIND: LLMKindName = _setting("openai", f"Kind of the LLM service: {', '.join(get_args(LLMKindName))}")
    LLM_API_KEY: Key | None = _setting(None, "API key of the LLM service")
    LLM_BASE_URL: HttpUrl | None = _setting(
        None, "URL of the LLM service; default: the usual one of LLM_KIND", example="https://api.openai.com/v1"
    )
    LLM_MODEL: str | None = _setting(None, "Name of the model", example="gpt-4o-mini")
    KIMI_API_KEY: Key | None = _setting(
        None, "API key of Kimi for Coding", names=("KIMI_API_KEY", "RESEARCH_BRIDGE_KIMI_API_KEY")
    )
    KIMI_BASE_URL: HttpUrl = _setting("https://api.kimi.com/coding/v1", "URL of Kimi for Coding")
    KIMI_MODEL: str = _setting("kimi-for-coding", "Name of the Kimi model")
    KIMI_USER_AGENT: str = _setting(
        "KimiCLI/0.77", "User-Agent header sent to Kimi; check that Kimi's terms of use allow you to send it"
    )
    AITUNNEL_API_KEY: Key | None = _setting(None, "API key of AITunnel")
    AITUNNEL_BASE_URL: HttpUrl = _setting("https://api.aitunnel.ru/v1", "URL of AITunnel")
    AITUNNEL_MODEL: str | None = _setting(None, "Name of the AITunnel model", example="gpt-4o-mini")
    AZURE_OPENAI_ENDPOINT: HttpUrl | None = _setting(
        None, "URL of the Azure OpenAI resource", example="https://my-resource.openai.azure.com"
    )
    AZURE_OPENAI_API_KEY: Key | None = _setting(None, "API key of the Azure OpenAI resource")
    AZURE_OPENAI_API_VERSION: str = _setting("2024-10-21", "Azure OpenAI API version")
    AZURE_OPENAI_DEPLOYMENT: str | None = _setting(None, "Name of the Azure OpenAI deployment", example="my-deployment")
    LLM_PROVIDERS: Annotated[tuple[LLMProviderSettings, ...], NoDecode, BeforeValidator(_parse_json)] = _setting(
        (),
        "JSON list of {name, kind, base_url, api_key, model, price_in, price_out, context_tokens, api_version} in "
        "failover order; if set, the LLM_, KIMI_, AITUNNEL_ and AZURE_OPENAI_ variables above are ignored",
        example='[{"name": "local", "kind": "ollama", "base_url": "http://localhost:11434/v1", "model": "qwen3"}]',
    )
    LLM_PRICES: Annotated[dict[str, Price], NoDecode, BeforeValidator(_parse_json)] = _setting(
        {},
        "JSON object, model name to US dollars per million tokens",
        example='{"gpt-4o-mini": {"price_in": 0.15, "price_out": 0.6}}',
    )
    BUDGET_USD_PER_DAY: Dollars | None = _setting(
        None,
        "US dollars that calls of language models may cost a day (UTC); then answers quote their sources. Every model needs "
        "a known price. 0 allows only free models",
        example="5",
    )
    BUDGET_USD_PER_DAY_PER_KEY: DollarsByKey = _setting(
        {},
        "US dollars a day for each API key: one number for all keys, label=number for one, or a comma list of both",
        example="1,alice=3",
    )
    LLM_TIMEOUT_S: Seconds = _setting(
        60.0, "Seconds to wait for the first token of a model; default for a local one: 600, since it reads slowly"
    )
    LLM_IDLE_TIMEOUT_S: Seconds = _setting(30.0, "Seconds to wait for the next token of a model")
    LLM_MAX_TOKENS: int = _setting(
        2048, "Maximum length of a synthesis in tokens; a report may have twice as many", ge=16
    )
    LLM_CONTEXT_TOKENS: int = _setting(
        32_000,
        "Context window in tokens of models without a known one; default for a local one: what the service says, as "
        "llama.cpp and vLLM do",
        ge=1000,
    )
    LLM_SOURCES_TOKENS: int | None = _setting(
        None,
        "Tokens of sources in the prompt of a shallow or deep answer; default: 4000, 1500 for a local model, since it reads "
        "slowly. A report uses the whole context",
        ge=256,
        example="4000",
    )
    LLM_TEMPERATURE: float | None = _setting(
        None,
        "Temperature of the prompts of research; default: 0.2 to write, 0 for all other steps. It is not sent to Kimi, nor to "
        "a service that refuses it",
        ge=0.0,
        le=2.0,
        example="0.2",
    )
    LLM_CONCURRENCY: int | None = _setting(
        None, "Calls of one model that run at once; default: 1 for a local one, else no limit, 8 in reports", ge=1, example="4"
    )

    LLM_RPS: Rate | None = _setting(
        None,
        "Maximum calls per second of one model; default: no limit, 2 in reports",
        names=("LLM_RPS", "LIMIT_AITUNNEL_RPS"),
        example="2",
    )
    LLM_STAGES: Annotated[dict[LLMStage, str], NoDecode, BeforeValidator(_parse_json)] = _setting(
        {},
        "JSON object, report stage (plan, queries, rank, summarize, write, judge) to the provider or model that "
        "is called first; the judge entry applies to all answers",
        example='{"rank": "cheap-model", "write": "strong-model"}',
    )
    CITATION_JUDGE: Literal["auto", "off", "report", "all"] = _setting(
        "auto",
        "Which answers have their citations verified by the language model, with one call per answer, after the "
        "word comparison: off (none), report (reports), all, or auto (reports, and what the words doubt in quick and "
        "deep answers; none with a local model)",
        example="all",
    )

    # Reading pages
    READERS: ReaderList = _setting(
        ("jina", "direct"),
        "Ordered comma list of page readers: jina, direct; the next reader is used after an error",
        example="direct",
    )
    JINA_API_KEY: Key | None = _setting(
        None, "API key of the Jina reader; without a key fewer pages per minute are read"
    )
    JINA_BASE_URL: HttpUrl = _setting(
        "https://r.jina.ai",
        "URL of the Jina reader or a compatible server; it receives the URL of every page that it reads",
    )
    JINA_RPS: Rate | None = _setting(
        None,
        "Maximum pages per second through Jina; default: 5 with a key, 0.33 without",
        names=("JINA_RPS", "LIMIT_JINA_RPS"),
        example="5",
    )
    READ_PAGES: Annotated[int, Field(ge=0, le=10)] | None = _setting(
        None,
        "Pages that are read before a quick or deep answer is written, always directly; default: 3 for a quick answer, 5 "
        "for a deep one. Up to twice as many more are read while a model writes. 0 reads none, and citations are checked "
        "against the excerpts of the search engine",
        example="0",
    )
    READ_S: Seconds | None = _setting(
        None,
        "Seconds that an answer waits for pages in all, at most a tenth of RESEARCH_TIMEOUT_S; default: 1.2 for a quick "
        "answer, 2.5 for a deep one",
        example="4",
    )
    READER_ALLOWED_HOSTS: HostList = _setting(
        (),
        "Comma list of hosts (host, host:port or network) that may be read although they are not public; without "
        "a port, all ports are allowed",
        example="wiki.example.internal,10.1.0.0/16",
    )
    READER_TIMEOUT_S: Seconds = _setting(20.0, "Timeout of one reader for one page in seconds, including redirects")
    READER_ROBOTS: bool = _setting(False, "Obey robots.txt when the direct reader fetches pages")

    # Reports
    REPORT_PAGES: int = _setting(
        5, "Number of pages to read for a report; a report uses at most the best five", ge=1, le=20
    )
    REPORT_QUERIES_PER_LANGUAGE: int = _setting(1, "Number of searches per sub-question and language", ge=1, le=3)
    QUERY_LANGUAGES: LanguageList = _setting(
        (), "Comma list of languages to search in; default: the language of the question and English", example="ru,en"
    )
    REPORT_READ_EARLY: bool = _setting(
        False, "Start to read the best pages when half of the ranking is done: faster, but reads more pages"
    )
    STORE_TTL_DAYS: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = _setting(
        30.0,
        "Days that report stages are stored, and the index of a folder after its last search; 0: nothing is stored",
    )

    # Index
    QDRANT_URL: HttpUrl | None = _setting(
        None, "URL of a Qdrant server; default: the embedded index", example="http://localhost:6333"
    )
    QDRANT_API_KEY: Key | None = _setting(None, "API key of the Qdrant server")
    QDRANT_COLLECTION: CollectionName = _setting("documents", "Name of the collection to index and search")
    EMBEDDER: Literal["wordllama", "openai", "azure", "none"] = _setting(
        "wordllama",
        "Embedder: wordllama (embedded), openai (any compatible service), azure, or none (keyword search only)",
    )
    EMBEDDING_BASE_URL: HttpUrl | None = _setting(
        None, "URL of the embedding service", example="http://localhost:11434/v1"
    )
    EMBEDDING_API_KEY: Key | None = _setting(
        None, "API key of the embedding service; default: the LLM or Azure key if the host is the same"
    )
    EMBEDDING_MODEL: str | None = _setting(
        None, "Name of the embedding model or deployment", example="text-embedding-3-small"
    )
    RAG_TOP_K: int = _setting(5, "Default number of documents per search and of passages per answer", ge=1, le=100)

    # Kafka
    KAFKA_BOOTSTRAP_SERVERS: CommaList = _setting(
        (), "Comma list of Kafka brokers (host:port) for the worker", example="localhost:9092"
    )
    KAFKA_GROUP_ID: str = _setting("rag-core", "Kafka consumer group of the workers", min_length=1, max_length=200)
    KAFKA_SECURITY_PROTOCOL: Annotated[
        Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], BeforeValidator(_to_upper)
    ] | None = _setting(
        None,
        "PLAINTEXT, SSL (TLS), SASL_SSL (TLS and a password) or SASL_PLAINTEXT; default: PLAINTEXT",
        example="SASL_SSL",
    )
    KAFKA_SSL_CA_FILE: Folder | None = _setting(
        None, "PEM file of the CA that signed the brokers' certificates; default: the CAs of the system",
        example="/etc/llm-platform/tls/ca.pem",
    )  # fmt: skip
    KAFKA_SSL_CERTIFICATE_FILE: Folder | None = _setting(
        None, "PEM file of the worker's certificate, for brokers that require one",
        example="/etc/llm-platform/tls/worker.crt.pem",
    )  # fmt: skip
    KAFKA_SSL_KEY_FILE: Folder | None = _setting(
        None, "PEM file of the certificate's private key", example="/etc/llm-platform/tls/worker.key.pem"
    )
    KAFKA_SSL_KEY_PASSWORD_FILE: SecretFile | None = _setting(
        None, "File with the password of the private key", example="/run/secrets/worker-key-password"
    )
    KAFKA_SASL_MECHANISM: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], BeforeValidator(_to_upper)
    ] | None = _setting(
        None, "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; others through KAFKA_CONFIG", example="SCRAM-SHA-512"
    )
    KAFKA_SASL_USERNAME: str | None = _setting(None, "User at the brokers", example="rag-worker")
    KAFKA_SASL_PASSWORD: SecretStr | None = _setting(None, "Password at the brokers")
    KAFKA_SASL_PASSWORD_FILE: SecretFile | None = _setting(
        None, "File with the password at the brokers, instead of KAFKA_SASL_PASSWORD", example="/run/secrets/kafka-password"
    )
    KAFKA_CONFIG: KafkaConfig = _setting(
        {},
        "JSON object, additional librdkafka settings; settings that guarantee delivery cannot be changed",
        example='{"group.protocol": "consumer"}',
        repr=False,
    )
    KAFKA_TOPICS: Annotated[dict[KafkaTopic, str], NoDecode, BeforeValidator(_parse_json), AfterValidator(_check_topics)] = (
        _setting(
            {},
            "JSON object, name of a topic in the contract to its name on the brokers; default: the names of the contract",
            example='{"rag_search_request": "acme.search.request", "rag_failed": "acme.failed"}',
        )
    )
    SCHEMA_REGISTRY_URL: HttpUrl | None = _setting(
        None,
        "URL of a schema registry with Confluent's API: outcomes then have the header with the id of their schema, and "
        "requests may have one; default: plain JSON",
        example="http://localhost:8081",
    )
    SCHEMA_REGISTRY_USERNAME: str | None = _setting(
        None, "User name or API key for the schema registry", example="rag-worker"
    )
    SCHEMA_REGISTRY_PASSWORD: Key | None = _setting(None, "Password or API secret for the schema registry")
    SCHEMA_REGISTRY_REGISTER: bool = _setting(
        True, "Register the schemas of the messages at the start of a worker; false: they must be registered already"
    )
    KAFKA_CONCURRENCY: int = _setting(
        16, "Maximum number of requests that one worker processes at the same time", ge=1, le=1024
    )
    KAFKA_STALL_S: Annotated[float, Field(ge=5, le=86_400, allow_inf_nan=False)] = _setting(
        30.0, "Seconds without progress on a partition with lag after which the worker is not ready"
    )
    KAFKA_TENANT_FIELD: str | None = _setting(
        None, "Metadata field that is applied as a filter of the same name; default: none", example="tenant"
    )
    RAG_MAX_MESSAGE_BYTES: int = _setting(1_000_000, "Maximum size of a request in bytes", ge=1000, le=100_000_000)
    RAG_TIMEOUT_S: Seconds = _setting(
        120.0, "Timeout of one request in seconds, including retries; default with a local model: 600"
    )
    OUTCOME_TTL_DAYS: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = _setting(
        7.0, "Days that outcomes are stored; a duplicate request gets the stored outcome"
    )
    FAILED_REQUESTS_MAX_MB: int = _setting(
        0,
        "Megabytes of failed requests that workers store for `outcomes replay`, with their texts and metadata, the oldest "
        "are dropped; 0: none",
        ge=0,
        le=100_000,
    )
    FAILED_REQUESTS_TTL_DAYS: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = _setting(
        1.0, "Days that failed requests are stored"
    )
    WORKER_HTTP_PORT: int = _setting(
        9100,
        "Port of the worker's readiness and metrics endpoints; default: 9100 or the next free port; 0: any free port",
        ge=0,
        le=65535,
    )

    # Research and cache
    RESEARCH_TIMEOUT_S: Seconds = _setting(
        120.0, "Timeout of one research request in seconds; default with a local model: 600, for a report: 900"
    )
    CACHE_TTL_S: SecondsOrZero = _setting(
        3600.0, "Seconds that searches, plans of deep research and syntheses are cached; 0: no cache"
    )
    CACHE_MAX_ENTRIES: int = _setting(
        1000, "Maximum entries of each cache in memory; the least recently used entries are evicted", ge=1
    )

    def __init__(self, **values: Any) -> None:
        """`values` take precedence over the environment.

        Raises ValidationError without the input, also for an unknown name: an unknown environment variable may belong to
        another program, an unknown argument is a mistake.
        """
        _refuse_unknown(values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _rewrite_error(error, values) from None

    @classmethod
    def load(cls, **values: Any) -> Settings:
        """Return the settings of this process. Raises SettingsError with one line for each invalid variable.

        Warns of each line of `.env` that is no assignment.
        """
        logging.getLogger("dotenv.main").setLevel(logging.ERROR)  # its warnings do not name the file
        try:
            settings = cls(**values)
            for number in _unreadable_lines():
                log.warning(UNREADABLE_LINE, number)
            return settings
        except ValidationError as error:
            lines = [f"{detail['loc'][0]} {detail['msg']}" for detail in error.errors()]
            raise SettingsError("\n".join(dict.fromkeys(lines))) from None
        except (OSError, UnicodeDecodeError) as error:
            problem = type(error).__name__
            raise SettingsError(f".env cannot be read ({problem}): it must be a text file in UTF-8") from None

    def lacks_api_keys(self) -> bool:
        """Return whether other machines can reach the server and no API key is set."""
        return self.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS and not self.LLM_PLATFORM_API_KEYS

    def api_keys(self) -> tuple[ApiKey, ...]:
        """Return the keys of LLM_PLATFORM_API_KEYS, in order."""
        return tuple(_parse_api_key(key.get_secret_value()) for key in self.LLM_PLATFORM_API_KEYS)

    def secrets(self) -> tuple[str, ...]:
        """Return all configured secrets that are long enough to be redacted."""
        with_user = [*self.SEARXNG_URL, *filter(None, (self.UPSTREAM_PROXY, self.REDIS_URL))]
        passwords = [urlsplit(url).password or "" for url in with_user]
        if self.DATABASE_URL is not None:
            found_in_url = _URL_PASSWORD.findall(self.DATABASE_URL.get_secret_value())
            passwords += [password for match in found_in_url for password in match]
        labelled = (value for key in self.api_keys() for value in key.values)
        found = (*_secrets_of(self), *labelled, *passwords, *map(unquote, passwords))
        return tuple(dict.fromkeys(s for s in found if len(s) >= SECRET_MIN_CHARS))


def _parse_api_key(key: str) -> ApiKey:
    labelled = _LABELLED_KEY.fullmatch(key)
    return ApiKey(labelled[1], (labelled[2], key)) if labelled else ApiKey(None, (key,))


def _secrets_of(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets_of(getattr(value, name))
    elif isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _secrets_of(item)


def variable_names(field: str) -> tuple[str, ...]:
    """Return the variables that set a field, the one with precedence first."""
    alias = Settings.model_fields[field].validation_alias
    return tuple(str(choice) for choice in alias.choices) if isinstance(alias, AliasChoices) else (field,)


def environment_variables() -> Mapping[SettingOrigin, Mapping[str, str | None]]:
    """Return the variables of the process and of `.env`, without empty ones."""
    return {"environment": EnvSettingsSource(Settings).env_vars, ".env": DotEnvSettingsSource(Settings).env_vars}


def opentelemetry_variables() -> Mapping[str, str]:
    """Return the OTEL_… variables of the process. OpenTelemetry's SDK reads them itself, and does not read `.env`."""
    variables = environment_variables()["environment"].items()
    return {name: value for name, value in variables if value and name.startswith("OTEL_")}


def _unreadable_lines() -> Iterator[int]:
    """Yield the number of each line of `.env` that is no assignment."""
    path = Path(str(Settings.model_config["env_file"]))
    if not path.is_file():
        return
    with path.open(encoding=Settings.model_config["env_file_encoding"]) as file:
        for each in parse_stream(file):
            if each.error:
                text = each.original.string
                blank = text[: len(text) - len(text.lstrip())]
                yield each.original.line + blank.count("\n")


def setting_origin(field: str, arguments: Mapping[str, Any]) -> tuple[str, SettingOrigin]:
    """Return the name that set a field and where it was set."""
    sources: Mapping[SettingOrigin, Mapping[str, Any]] = {"argument": arguments, **environment_variables()}
    matches = ((name, source) for source, names in sources.items() for name in variable_names(field) if name in names)
    return next(matches, (field, "default"))


def format_value(value: Any) -> str:
    """Return a value as it is written in a variable; a secret becomes an empty string."""
    if value is None or isinstance(value, SecretStr):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not any(isinstance(item, BaseModel) for item in value):
        return ",".join(map(format_value, value))
    if isinstance(value, (tuple, dict)):
        plain = partial(BaseModel.model_dump, mode="json", exclude_none=True)  # pydantic masks secrets
        return json.dumps(value, default=plain) if value else ""
    return _URL_USER.sub("://***@", str(value))


def example_line(field: str) -> str:
    """Return `NAME=value` with a valid value."""
    info = Settings.model_fields[field]
    return f"{field}={info.examples[0] if info.examples else format_value(info.get_default(call_default_factory=True))}"


def unknown_variables(variables: Mapping[str, Any] | None = None) -> list[str]:
    """Return a warning for each unknown variable that has a prefix of a setting, with the most similar setting."""
    seen = (
        {name for names in environment_variables().values() for name in names} if variables is None else set(variables)
    )
    unknown = [name for name in sorted(seen - _known_names()) if name.upper().startswith(setting_prefixes())]
    return [f"{name} {_unknown_setting_message(name)}" for name in unknown]


@cache
def setting_prefixes() -> tuple[str, ...]:
    """Return what the names of our variables begin with: `BRAVE_` of BRAVE_API_KEY, `AZURE_OPENAI_` of a shared word."""
    words = [name.split("_") for name in _known_names()]
    starts = {"_".join(parts[: 2 if parts[0] in SHARED_WORDS else 1]) for parts in words}
    return tuple(sorted(start if start in _known_names() else f"{start}_" for start in starts))


def _known_names() -> set[str]:
    return {name for field in Settings.model_fields for name in variable_names(field)}


def _unknown_setting_message(name: str) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(name.upper(), sorted(_known_names()), 1)
    return "is not a setting" + "".join(f"; did you mean {each}?" for each in nearest)


def _refuse_unknown(arguments: Mapping[str, Any]) -> None:
    """Raise ValidationError for unknown arguments; `_env_file` and the like belong to pydantic-settings."""
    unknown = [name for name in arguments if name not in _known_names() and not name.startswith("_")]
    if unknown:
        details = [_error_detail("unknown_setting", name, _unknown_setting_message(name)) for name in unknown]
        raise ValidationError.from_exception_data(Settings.__name__, details, hide_input=True)


def _rewrite_error(error: ValidationError, arguments: Mapping[str, Any]) -> ValidationError:
    """Return the error with messages that name the variable, the reason and an example, but not the value."""
    return ValidationError.from_exception_data(
        error.title,
        [_rewrite_detail(dict(detail), arguments) for detail in error.errors(include_input=False)],
        hide_input=True,
    )


def _rewrite_detail(detail: Mapping[str, Any], arguments: Mapping[str, Any]) -> InitErrorDetails:
    first, *rest = detail["loc"]
    field = next(name for name in Settings.model_fields if first in variable_names(name))
    place = ".".join(str(part) for part in rest if part != "[key]")
    inside = f"({place}) " if len(rest) > 1 else ""  # for JSON values, not for comma lists
    shown = example_line(field)
    if shown.endswith("="):  # a secret has no default and no example
        shown += "your-key"
    message = f"{inside}{_plain_message(detail['type'], detail['msg'])}. Example: {shown}"
    return _error_detail(detail["type"], setting_origin(field, arguments)[0], message)


def _error_detail(kind: str, name: str, message: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(kind, "{message}", {"message": message}), loc=(name,), input=None)


def _plain_message(kind: str, text: str) -> str:
    if kind.startswith("bool"):
        return "must be true or false"
    known = {"missing": "is missing", "extra_forbidden": "is not known"}
    return known.get(kind) or _PYDANTIC_SHOULD.sub(
        "must", text.removeprefix("Value error, ").partition(", unable to")[0]
    )
