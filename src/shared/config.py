"""Every environment variable that the platform reads, in one flat class (docs/reference/settings.md is made from it).

Precedence: argument, environment, `.env` of the working directory, default. Of two names for one setting the first
wins. An empty variable counts as not set. A value that cannot be read is an error which names the variable, says what
is wrong and gives an example; neither it nor a repr ever holds a secret.

Over 500 lines: the class is a table of one line for each variable, and `shared` stays at three files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

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

LLMKind = Literal["openai", "kimi", "azure", "aitunnel", "ollama", "vllm"]
LLMStage = Literal["plan", "queries", "rank", "summarize", "write", "judge"]
ReaderName = Literal["jina", "direct"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
Place = Literal["argument", "environment", ".env", "default"]

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
SECRET_MIN_CHARS = 8  # a shorter secret is not searched for in what we print: it would blank out ordinary words
LONGEST_WAIT_S = 86_400  # a deadline beyond a day is a slip of the pen
OUR_PREFIXES = (
    "LLM_", "SEARXNG_", "SEARCHXNG_", "SEARCH_", "BOCHA_", "BRAVE_", "KIMI_", "AITUNNEL_", "AZURE_OPENAI_", "DOCUMENTS_",
    "RESEARCH_", "CACHE_", "READER_", "READERS", "JINA_", "STORE_", "REPORT_", "QUERY_", "LIMIT_", "QDRANT_",
    "EMBEDD", "RAG_", "KAFKA_", "OUTCOME_", "WORKER_", "CITATION_",
)  # fmt: skip
SECTIONS: Mapping[str, str] = {  # the first field of each group, and the group's heading
    "LLM_PLATFORM_HOST": "Server",
    "LLM_PLATFORM_OFFLINE": "All upstreams",
    "LOG_LEVEL": "Logs",
    "SEARCH_PROVIDERS": "Search",
    "LLM_KIND": "Language models",
    "READERS": "Reading pages",
    "REPORT_PAGES": "Reports",
    "QDRANT_URL": "Index",
    "KAFKA_BOOTSTRAP_SERVERS": "Kafka",
    "RESEARCH_TIMEOUT_S": "Research and cache",
}

_ADDRESS = re.compile(r"https?://([^\s/?#\\]+@)?[^\s/?#@\\]+(/[^\s?#\\]*)?", re.IGNORECASE)
_HOST_ENTRY = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[1-9]\d{0,4})?")
_SECRET_OPTION = re.compile(r"password|passphrase|secret|key\.pem|oauthbearer\.config")  # of librdkafka, by its name
_USER = re.compile(r"://[^\s/@]+@")
_SHOULD = re.compile(r"^(?:Input|String|Value|Tuple|List|Dictionary|URL) should\b")


class SettingsError(ValueError):
    """A setting cannot be read; the message names the variable, what is wrong and an example, never a secret."""


def _split(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _lower_split(value: Any) -> Any:
    return _split(value.lower() if isinstance(value, str) else value)


def _providers(value: Any) -> Any:
    return () if value == "auto" else _lower_split(value)


def _decoded(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("must be JSON") from None  # the decoder's own words quote what was sent


def _client_options(value: Any) -> Any:
    options = _decoded(value)
    if not isinstance(options, dict):
        raise ValueError("must be a JSON object, name to value")
    for name, option in options.items():
        if not isinstance(option, str | int | float | bool | SecretStr):
            raise ValueError(f"({name}) must be text, a number, true or false")
    return options


def _secrets_hidden(options: dict[str, Any]) -> dict[str, Any]:
    return {name: SecretStr(str(value)) if _SECRET_OPTION.search(name) else value for name, value in options.items()}


def _address(value: str, *, with_user: bool = False) -> str:
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    match = _ADDRESS.fullmatch(value)
    if match is None:
        raise ValueError("must be a plain address: a host, no blanks, no ? and no #")
    if match.group(1) and not with_user:
        raise ValueError("must hold no user name or password")
    if not _has_usable_port(value):
        raise ValueError("must have a port below 65536")
    return value.rstrip("/")


def _has_usable_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:  # the standard library's words for a port that is none, or for brackets that are not closed
        return False


def _address_with_user(value: str) -> str:
    return _address(value, with_user=True)


def _host_entry(value: str) -> str:
    if "/" in value:
        try:
            return str(ip_network(value, strict=False))
        except ValueError:
            raise ValueError("names a network that is none: write it as 10.1.0.0/16") from None
    # IPv6 may stand without brackets, hence without a port.
    entry = f"[{value}]" if value.count(":") > 1 and not value.startswith("[") else value
    if not _HOST_ENTRY.fullmatch(entry) or not _has_usable_port(f"http://{entry}"):
        raise ValueError("must name hosts, each as host, host:port or a network such as 10.1.0.0/16")
    return value.lower()


def _key(value: Any) -> Any:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        return value
    if not (text.strip().isascii() and text.strip().isprintable()):
        raise ValueError("holds a character that cannot be sent in a header: copy the key again")
    return SecretStr(text.strip())


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _keys(value: Any) -> Any:
    return [_key(part) for part in _split(value)] if isinstance(value, (str, list, tuple)) else value


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
HttpUrl = Annotated[str, AfterValidator(_address)]
UrlWithUser = Annotated[str, AfterValidator(_address_with_user)]
UrlList = Annotated[tuple[UrlWithUser, ...], NoDecode, BeforeValidator(_split)]
HostList = Annotated[tuple[Annotated[str, AfterValidator(_host_entry)], ...], NoDecode, BeforeValidator(_split)]
ReaderList = Annotated[tuple[ReaderName, ...], NoDecode, BeforeValidator(_lower_split), Field(min_length=1)]
ProviderList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_providers)]  # the table of providers knows the names
LanguageTag = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
LanguageList = Annotated[tuple[LanguageTag, ...], NoDecode, BeforeValidator(_lower_split), Field(max_length=4)]
CollectionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
Key = Annotated[SecretStr, BeforeValidator(_key)]
KeyList = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_keys)]
KafkaConfig = Annotated[
    dict[str, str | int | float | bool | SecretStr], NoDecode, BeforeValidator(_client_options), AfterValidator(_secrets_hidden)
]
Folder = Annotated[Path, AfterValidator(Path.expanduser)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_WAIT_S, allow_inf_nan=False)]
PerTime = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SecondsOrNone = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # 0: none


class Price(BaseModel):
    """US dollars for a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    price_in: float = Field(ge=0, allow_inf_nan=False)
    price_out: float = Field(ge=0, allow_inf_nan=False)


class LLMProviderSettings(BaseModel):
    """One language model. Prices: US dollars for a million tokens; left out, not known (kimi, ollama, vllm: 0)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    kind: LLMKind = "openai"
    base_url: HttpUrl | None = None
    api_key: Key | None = None
    model: str = Field(min_length=1, max_length=200)
    price_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    price_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    context_tokens: int | None = Field(default=None, ge=1000)
    api_version: str | None = None


def _also(name: str, *others: str) -> Any:
    return AliasChoices(name, *others)


class Settings(BaseSettings):
    """The platform's settings. Fields bear the names of the variables: `Settings(BOCHA_API_KEY="…")`."""

    model_config = SettingsConfigDict(
        env_file=".env",
        env_file_encoding="utf-8-sig",  # editors of Windows begin a file with a byte order mark
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        case_sensitive=True,
        populate_by_name=True,
        str_strip_whitespace=True,
        validate_default=False,
    )

    # Server
    LLM_PLATFORM_HOST: str = Field(
        "127.0.0.1", description="Address to listen on; another than loopback needs LLM_PLATFORM_API_KEYS"
    )
    LLM_PLATFORM_PORT: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0: any that is free")
    LLM_PLATFORM_API_KEYS: KeyList = Field(
        (), examples=["a-long-random-key"],
        description="Comma list; when set, all but /health, /ready and the page /docs wants `Authorization: Bearer` or "
        "`X-API-Key`",
    )  # fmt: skip
    ALLOWED_HOSTS: CommaList = Field(
        (), examples=["research.example.org"],
        description="Comma list of Host names that requests may carry; default: loopback names on loopback, else all",
    )  # fmt: skip
    CORS_ORIGINS: CommaList = Field(
        (), examples=["https://app.example.org"],
        description="Comma list of origins whose pages may call the server from a browser",
    )  # fmt: skip
    DRAIN_TIMEOUT_S: SecondsOrNone = Field(20.0, description="Seconds that a stopping server gives running requests")

    LLM_PLATFORM_DATA_DIR: Folder | None = Field(
        None, examples=["~/.local/share/llm-platform"],
        description="Folder of the store of researches; default: the user's data folder",
    )  # fmt: skip

    # All upstreams
    LLM_PLATFORM_OFFLINE: bool = Field(
        False, description="Only documents, the store, and services on loopback that are not search providers"
    )
    UPSTREAM_PROXY: UrlWithUser | None = Field(
        None, repr=False, examples=["http://localhost:3128"], description="HTTP proxy for the configured upstreams"
    )

    # Logs
    LOG_LEVEL: Annotated[LogLevel, BeforeValidator(_upper)] = Field(
        "INFO", validation_alias=_also("LOG_LEVEL", "RESEARCH_BRIDGE_LOG_LEVEL"),
        description="Lowest level that is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL",
    )  # fmt: skip
    LOG_FORMAT: Literal["auto", "console", "json"] = Field(
        "auto", description="auto, console or json; auto: console on a terminal, else JSON lines"
    )
    LOG_QUERIES: bool = Field(False, description="Write queries into the log; off, only their length is logged")

    # Search
    SEARCH_PROVIDERS: ProviderList = Field(
        (), examples=["searxng,ddgs"],
        description="Ordered comma list of search providers; auto: those that are configured, ddgs where none is. The next "
        "one answers on errors only",
    )  # fmt: skip
    SEARXNG_URL: UrlList = Field(
        (), repr=False, validation_alias=_also("SEARXNG_URL", "RESEARCH_BRIDGE_SEARXNG_URL"),
        examples=["http://localhost:8080"],
        description="Address of SearXNG; a comma list is tried in order",
    )  # fmt: skip
    SEARXNG_USERNAME: str | None = Field(
        None, validation_alias=_also("SEARXNG_USERNAME", "SEARCHXNG_BASIC_AUTH_LOGIN"), examples=["me"],
        description="User name of the Basic auth in front of SearXNG",
    )  # fmt: skip
    SEARXNG_PASSWORD: SecretStr | None = Field(
        None, validation_alias=_also("SEARXNG_PASSWORD", "SEARCHXNG_BASIC_AUTH_PASSWORD"),
        description="Password of that Basic auth",
    )  # fmt: skip
    SEARXNG_TIMEOUT_S: Seconds = Field(10.0, description="Deadline of one search in seconds")
    SEARXNG_MAX_RESULTS: int = Field(10, ge=1, le=50, description="Results of one research search")
    SEARXNG_SAFESEARCH: int = Field(0, ge=0, le=2, description="0 off, 1 moderate, 2 strict")
    SEARXNG_ENGINES_WEB: CommaList = Field(("google", "bing", "duckduckgo"), description="Engines asked for web")
    SEARXNG_ENGINES_NEWS: CommaList = Field(("google news", "bing news"), description="Engines asked for news")
    SEARXNG_ENGINES_ACADEMIC: CommaList = Field(("google scholar", "arxiv"), description="Engines asked for academic")
    SEARXNG_RPM: PerTime | None = Field(
        None, validation_alias=_also("SEARXNG_RPM", "LIMIT_SEARCHXNG_RPM"), examples=["10"],
        description="Searches a minute at most; default no limit, 10 in a report",
    )  # fmt: skip
    BOCHA_API_KEY: Key = Field(SecretStr(""), description="Key of Bocha AI web search")
    BOCHA_BASE_URL: HttpUrl = Field(
        "https://api.bochaai.com", description="Address of Bocha; the newer one is https://api.bocha.cn"
    )
    BOCHA_TIMEOUT_S: Seconds = Field(30.0, description="Deadline of one search in seconds")
    BRAVE_API_KEY: Key = Field(SecretStr(""), description="Key of the Brave Search API")
    BRAVE_BASE_URL: HttpUrl = Field("https://api.search.brave.com", description="Address of the Brave Search API")
    BRAVE_TIMEOUT_S: Seconds = Field(15.0, description="Deadline of one request in seconds")
    DOCUMENTS_DIR: Folder | None = Field(
        None, examples=["~/documents"], description="Folder of documents, or one file, that is searched"
    )
    DOCUMENTS_BASE_URL: HttpUrl | None = Field(
        None, examples=["https://wiki.example.org"],
        description="Address under which the documents can be opened; default doc:",
    )  # fmt: skip

    # Language models
    LLM_KIND: LLMKind = Field("openai", description="openai, kimi, azure, aitunnel, ollama or vllm")
    LLM_API_KEY: Key | None = Field(None, description="Key of an OpenAI-compatible service")
    LLM_BASE_URL: HttpUrl | None = Field(
        None, examples=["https://api.openai.com/v1"], description="Its address; default https://api.openai.com/v1"
    )
    LLM_MODEL: str | None = Field(None, examples=["gpt-4o-mini"], description="Its model")
    KIMI_API_KEY: Key | None = Field(
        None, validation_alias=_also("KIMI_API_KEY", "RESEARCH_BRIDGE_KIMI_API_KEY"),
        description="Key of Kimi for Coding",
    )  # fmt: skip
    KIMI_BASE_URL: HttpUrl = Field("https://api.kimi.com/coding/v1", description="Address of Kimi for Coding")
    KIMI_MODEL: str = Field("kimi-for-coding", description="Its model")
    KIMI_USER_AGENT: str = Field(
        "KimiCLI/0.77", description="User-Agent sent to Kimi; sending it is your decision under its terms"
    )
    AITUNNEL_API_KEY: Key | None = Field(None, description="Key of AITunnel")
    AITUNNEL_BASE_URL: HttpUrl = Field("https://api.aitunnel.ru/v1", description="Address of AITunnel")
    AITUNNEL_MODEL: str | None = Field(None, examples=["gpt-4o-mini"], description="Its model")
    AZURE_OPENAI_ENDPOINT: HttpUrl | None = Field(
        None, examples=["https://my-resource.openai.azure.com"], description="Address of the Azure OpenAI resource"
    )
    AZURE_OPENAI_API_KEY: Key | None = Field(None, description="Its key")
    AZURE_OPENAI_API_VERSION: str = Field("2024-10-21", description="Its API version")
    AZURE_OPENAI_DEPLOYMENT: str | None = Field(None, examples=["my-deployment"], description="Name of the deployment")
    LLM_PROVIDERS: Annotated[tuple[LLMProviderSettings, ...], NoDecode, BeforeValidator(_decoded)] = Field(
        (),
        examples=['[{"name": "local", "kind": "ollama", "base_url": "http://localhost:11434/v1", "model": "qwen3"}]'],
        description="JSON list of {name, kind, base_url, api_key, model, price_in, price_out, context_tokens, "
        "api_version} in failover order; then the variables above are not used",
    )  # fmt: skip
    LLM_PRICES: Annotated[dict[str, Price], NoDecode, BeforeValidator(_decoded)] = Field(
        {}, examples=['{"gpt-4o-mini": {"price_in": 0.15, "price_out": 0.6}}'],
        description="JSON, model to US dollars for a million tokens",
    )  # fmt: skip
    LLM_TIMEOUT_S: Seconds = Field(60.0, description="Deadline of one answer in seconds")
    LLM_MAX_TOKENS: int = Field(2048, ge=16, description="Longest answer of a synthesis in tokens")
    LLM_CONTEXT_TOKENS: int = Field(32_000, ge=1000, description="Context of a model that names none")

    LLM_RPS: PerTime | None = Field(
        None, validation_alias=_also("LLM_RPS", "LIMIT_AITUNNEL_RPS"), examples=["2"],
        description="Calls of one model a second at most; default no limit, 2 in a report",
    )  # fmt: skip
    LLM_STAGES: Annotated[dict[LLMStage, str], NoDecode, BeforeValidator(_decoded)] = Field(
        {}, examples=['{"rank": "cheap-model", "write": "strong-model"}'],
        description="JSON, stage of a report (plan, queries, rank, summarize, write, judge) to the name of a provider or model "
        "that is asked first; judge for every answer",
    )  # fmt: skip
    CITATION_JUDGE: Literal["off", "report", "all"] = Field(
        "report", examples=["all"],
        description="Whose citations a configured language model verifies after their words were compared, in one call an "
        "answer: off (nobody's), report (those of reports), all (those of every answer)",
    )  # fmt: skip

    # Reading pages
    READERS: ReaderList = Field(
        ("jina", "direct"), description="Ordered comma list of jina, direct; the next one reads when one cannot",
        examples=["direct"],
    )  # fmt: skip
    JINA_API_KEY: Key | None = Field(None, description="Key of the Jina reader; it works without, at fewer pages a minute")
    JINA_BASE_URL: HttpUrl = Field(
        "https://r.jina.ai",
        description="Address of the Jina reader, or of a server like it; it sees every address that it reads",
    )
    JINA_RPS: PerTime | None = Field(
        None, validation_alias=_also("JINA_RPS", "LIMIT_JINA_RPS"), examples=["5"],
        description="Pages a second through Jina; default 5 with a key, 0.33 without",
    )  # fmt: skip
    READER_ALLOWED_HOSTS: HostList = Field(
        (), examples=["wiki.example.internal,10.1.0.0/16"],
        description="Comma list of host, host:port or network that may be read though they are not public; without a port all",
    )  # fmt: skip
    READER_TIMEOUT_S: Seconds = Field(20.0, description="Deadline of one reader for one page in seconds, redirects included")
    READER_ROBOTS: bool = Field(False, description="Heed robots.txt where pages are read directly")

    # Reports
    REPORT_PAGES: int = Field(
        5, ge=1, le=20, description="Pages that are read for a report; of more than five the best five are written from"
    )
    REPORT_QUERIES_PER_LANGUAGE: int = Field(1, ge=1, le=3, description="Searches of each sub-question in each language")
    QUERY_LANGUAGES: LanguageList = Field(
        (), examples=["ru,en"], description="Comma list of languages to search in; default: the question's and English"
    )
    REPORT_READ_EARLY: bool = Field(
        False, description="Read the best pages from half of the ranking on: sooner done, for some pages more"
    )
    STORE_TTL_DAYS: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = Field(
        30.0, description="Days that stages of reports are kept, and folders that were read, from the last search; 0: nothing"
    )

    # Index
    QDRANT_URL: HttpUrl | None = Field(
        None, examples=["http://localhost:6333"], description="Address of a Qdrant server; default: an embedded index"
    )
    QDRANT_API_KEY: Key | None = Field(None, description="Its key")
    QDRANT_COLLECTION: CollectionName = Field("documents", description="Name of the collection that is indexed and searched")
    EMBEDDER: Literal["wordllama", "openai", "azure", "none"] = Field(
        "wordllama", description="wordllama (embedded), openai (any compatible service), azure, or none (words alone)"
    )
    EMBEDDING_BASE_URL: HttpUrl | None = Field(
        None, examples=["http://localhost:11434/v1"], description="Address of the embedding service"
    )
    EMBEDDING_API_KEY: Key | None = Field(None, description="Its key; default LLM_API_KEY or AZURE_OPENAI_API_KEY")
    EMBEDDING_MODEL: str | None = Field(None, examples=["text-embedding-3-small"], description="Its model or deployment")
    RAG_TOP_K: int = Field(5, ge=1, le=100, description="Documents of a search, and passages of an answer, if nothing is said")

    # Kafka
    KAFKA_BOOTSTRAP_SERVERS: CommaList = Field(
        (), examples=["localhost:9092"], description="Comma list of brokers that the worker connects to"
    )
    KAFKA_GROUP_ID: str = Field("rag-core", min_length=1, max_length=200, description="Consumer group of the workers")
    KAFKA_CONFIG: KafkaConfig = Field(
        {}, repr=False, examples=['{"security.protocol": "SASL_SSL"}'],
        description="JSON, further settings of librdkafka's clients; those that the delivery promise needs cannot be changed",
    )  # fmt: skip
    KAFKA_CONCURRENCY: int = Field(16, ge=1, le=1024, description="Requests whose stages run at once in one worker")
    KAFKA_STALL_S: Annotated[float, Field(ge=5, le=86_400, allow_inf_nan=False)] = Field(
        30.0, description="Seconds after which a partition that is behind and not read makes the worker not ready"
    )
    KAFKA_TENANT_FIELD: str | None = Field(
        None, examples=["tenant"], description="Field of metadata that becomes a filter of the same name; default none"
    )
    RAG_MAX_MESSAGE_BYTES: int = Field(1_000_000, ge=1000, le=100_000_000, description="Longest request that is accepted")
    RAG_TIMEOUT_S: Seconds = Field(120.0, description="Deadline of one request in seconds, retries included")
    OUTCOME_TTL_DAYS: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = Field(
        7.0, description="Days for which a repeated request gets its first outcome again"
    )
    WORKER_HTTP_PORT: int = Field(
        9100, ge=0, le=65535,
        description="Port of the worker's readiness and metrics; if not set, the next one that is free; 0: any free",
    )  # fmt: skip

    # Research and cache
    RESEARCH_TIMEOUT_S: Seconds = Field(120.0, description="Deadline of one research in seconds; of a report 900 if not set")
    CACHE_TTL_S: SecondsOrNone = Field(
        3600.0, description="Seconds that searches, questions of a deep research and syntheses are cached; 0: no cache"
    )
    CACHE_MAX_ENTRIES: int = Field(1000, ge=1, description="Entries of each cache; the least recently used go first")

    def __init__(self, **values: Any) -> None:
        """`values` are arguments and win over the environment. Raises a ValidationError that holds no input, also for a
        name that is no setting: a variable of the environment may be meant for somebody else, an argument is meant for us.
        """
        _refuse_unknown(values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _readable(error, values) from None

    @classmethod
    def load(cls, **values: Any) -> Settings:
        """The settings of this process; SettingsError with one line for each variable that cannot be read."""
        try:
            return cls(**values)
        except ValidationError as error:
            lines = [f"{detail['loc'][0]} {detail['msg']}" for detail in error.errors()]
            raise SettingsError("\n".join(dict.fromkeys(lines))) from None
        except (OSError, UnicodeDecodeError) as error:
            problem = type(error).__name__
            raise SettingsError(f".env cannot be read ({problem}): it must be a text file in UTF-8") from None

    def secrets(self) -> tuple[str, ...]:
        """Every configured secret long enough to be searched for in what we say."""
        with_user = (*self.SEARXNG_URL, *([self.UPSTREAM_PROXY] if self.UPSTREAM_PROXY else []))
        passwords = [urlsplit(url).password or "" for url in with_user]
        found = (*_secrets_of(self), *passwords, *map(unquote, passwords))
        return tuple(dict.fromkeys(s for s in found if len(s) >= SECRET_MIN_CHARS))


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
    """The variables that set a field, the one that wins first."""
    alias = Settings.model_fields[field].validation_alias
    return tuple(str(choice) for choice in alias.choices) if isinstance(alias, AliasChoices) else (field,)


def environment() -> Mapping[Place, Mapping[str, str | None]]:
    """The variables of the process and those of `.env`, as they are read for settings: what is empty is not there."""
    return {"environment": EnvSettingsSource(Settings).env_vars, ".env": DotEnvSettingsSource(Settings).env_vars}


def origin(field: str, arguments: Mapping[str, Any]) -> tuple[str, Place]:
    """The name that set a field, and where it stands."""
    places: Mapping[Place, Mapping[str, Any]] = {"argument": arguments, **environment()}
    found = ((name, place) for place, names in places.items() for name in variable_names(field) if name in names)
    return next(found, (field, "default"))


def written(value: Any) -> str:
    """A setting's value as it stands in a variable; nothing of a secret."""
    if value is None or isinstance(value, SecretStr):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not any(isinstance(item, BaseModel) for item in value):
        return ",".join(map(written, value))
    if isinstance(value, (tuple, dict)):
        plain = partial(BaseModel.model_dump, mode="json", exclude_none=True)  # pydantic masks what is secret
        return json.dumps(value, default=plain) if value else ""
    return _USER.sub("://***@", str(value))


def example(field: str) -> str:
    """`NAME=value` with a value that can be read."""
    info = Settings.model_fields[field]
    return f"{field}={info.examples[0] if info.examples else written(info.get_default(call_default_factory=True))}"


def unknown_variables(variables: Mapping[str, Any] | None = None) -> list[str]:
    """A warning for each variable that bears one of our prefixes and is none of ours, with the nearest name that is."""
    seen = {name for names in environment().values() for name in names} if variables is None else set(variables)
    unknown = [name for name in sorted(seen - _known_names()) if name.upper().startswith(OUR_PREFIXES)]
    return [f"{name} {_no_setting(name)}" for name in unknown]


def _known_names() -> set[str]:
    return {name for field in Settings.model_fields for name in variable_names(field)}


def _no_setting(name: str) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(name.upper(), sorted(_known_names()), 1)
    return "is not a setting" + "".join(f"; did you mean {each}?" for each in nearest)


def _refuse_unknown(arguments: Mapping[str, Any]) -> None:
    """ValidationError for arguments that set nothing; those with an underscore are pydantic-settings' own (`_env_file`)."""
    unknown = [name for name in arguments if name not in _known_names() and not name.startswith("_")]
    if unknown:
        kinds = {name: PydanticCustomError("unknown_setting", "{message}", {"message": _no_setting(name)}) for name in unknown}
        lines = [InitErrorDetails(type=kind, loc=(name,), input=None) for name, kind in kinds.items()]
        raise ValidationError.from_exception_data(Settings.__name__, lines, hide_input=True)


def _readable(error: ValidationError, arguments: Mapping[str, Any]) -> ValidationError:
    """The same error in our words: the variable that was set, what is wrong, an example; what was sent is left out."""
    return ValidationError.from_exception_data(
        error.title, [_line(dict(detail), arguments) for detail in error.errors(include_input=False)], hide_input=True
    )


def _line(detail: Mapping[str, Any], arguments: Mapping[str, Any]) -> InitErrorDetails:
    first, *rest = detail["loc"]
    field = next(name for name in Settings.model_fields if first in variable_names(name))
    place = ".".join(str(part) for part in rest if part != "[key]")
    inside = f"({place}) " if len(rest) > 1 else ""  # the place in JSON, not in a comma list
    shown = example(field)
    if shown.endswith("="):  # a secret: it has neither a default nor an example of its own
        shown += "the-key-that-you-were-given"
    message = f"{inside}{_in_our_words(detail['type'], detail['msg'])}. Example: {shown}"
    kind = PydanticCustomError(detail["type"], "{message}", {"message": message})
    return InitErrorDetails(type=kind, loc=(origin(field, arguments)[0],), input=None)


def _in_our_words(kind: str, text: str) -> str:
    if kind.startswith("bool"):
        return "must be true or false"
    known = {"missing": "is missing", "extra_forbidden": "is not known"}
    return known.get(kind) or _SHOULD.sub("must", text.removeprefix("Value error, ").partition(", unable to")[0])
