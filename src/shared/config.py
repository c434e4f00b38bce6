"""All settings of the platform in one flat class; docs/reference/settings.md is generated from it.

Arguments take precedence over the environment, the environment over `.env` of the working directory, and `.env` over the
defaults. If a setting has two names, the first one takes precedence. An empty variable counts as not set. An invalid value
raises an error that names the variable, the reason and an example. Errors and reprs never contain a secret.

`setting_types` has the types of the values, and `setting_names` the functions that read and check variables by name.

The file is long because the class is a table with one entry for each variable.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from shared import setting_names
from shared import setting_types as types
from shared.setting_names import setting

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
SECRET_MIN_CHARS = 8  # Shorter secrets are not redacted, because ordinary words would be redacted with them.
SAFE_KEY_CHARS = 20  # A shorter API key can be guessed.
SECTIONS: Mapping[str, str] = {  # The keys are the first fields of the sections, the values their headings.
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
FIRST_SETTINGS = (  # The reference lists these on top: they are the ones that a new user needs.
    "SEARXNG_URL",
    "BRAVE_API_KEY",
    "BOCHA_API_KEY",
    "DOCUMENTS_DIR",
    "LLM_BASE_URL",
    "LLM_API_KEY",
    "LLM_MODEL",
    "KIMI_API_KEY",
    "LLM_PLATFORM_API_KEYS",
    "LLM_PLATFORM_HOST",
    "LLM_PLATFORM_DATA_DIR",
    "LLM_PLATFORM_OFFLINE",
)

# The password of a database URL is before the host or among the parameters. `urlsplit` cannot find the former if the URL
# names several hosts.
_URL_PASSWORD = re.compile(r"(?:[a-z]+://[^:@/]*:([^@/]*)@|[?&](?:ssl)?password=([^&#]*))")
_LABELLED_KEY = re.compile(
    r"([A-Za-z0-9_-]{1,32}):(.{8,})"
)  # A shorter text after the colon is part of an unlabelled key.


log = logging.getLogger(__name__)

# The value is False while `Settings.without_environment` creates its settings.
_reads_environment: ContextVar[bool] = ContextVar("reads_environment", default=True)


class SettingsError(ValueError):
    """A setting is invalid. The message names the variable, the reason and an example, and contains no secret."""


class Settings(BaseSettings):
    """The settings of the platform. Each field has the name of its environment variable: `Settings(BOCHA_API_KEY="…")`."""

    model_config = SettingsConfigDict(
        env_file=".env",
        env_file_encoding="utf-8-sig",  # Editors on Windows may write a byte order mark.
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        case_sensitive=True,
        populate_by_name=True,
        str_strip_whitespace=True,
        validate_default=False,
    )

    # Server
    LLM_PLATFORM_HOST: str = setting(
        "127.0.0.1",
        "Address that the server listens on; any but a loopback address requires LLM_PLATFORM_API_KEYS",
        "you serve other machines, for example 0.0.0.0 in a container",
    )
    LLM_PLATFORM_PORT: int = setting(
        8000,
        "Port that the server listens on; 0: any free port",
        "you run another program on this port",
        ge=0,
        le=65535,
    )
    LLM_PLATFORM_API_KEYS: types.KeyList = setting(
        (),
        "Comma-separated list of API keys; when set, every route except /health, /ready, /metrics, and the pages / and /docs "
        "with their files requires `Authorization: Bearer` or `X-API-Key`. `label:key` gives a key a label, which names it "
        "in logs; keys with the same label count as one client",
        "you serve other machines: without keys anybody can spend your money",
        example="a-long-random-key",
    )
    RATE_LIMIT_PER_MINUTE: int = setting(
        30,
        "Requests per minute of one client (an API key, or an address if no keys are set); 0: no limit. By default "
        "programs on the server's own machine are not limited: while it listens on loopback alone, and none of RATE_LIMIT_…, "
        "TRUSTED_PROXIES, ALLOWED_HOSTS and LLM_PLATFORM_API_KEYS is set",
        "you have clients that ask more often, or upstreams that allow less",
        ge=0,
        le=types.MAX_RATE_LIMIT,
    )
    RATE_LIMIT_BURST: int = setting(
        5,
        "Requests that a limited client may send at once before RATE_LIMIT_PER_MINUTE applies",
        "you have clients that send several requests together, such as agents",
        ge=1,
        le=types.MAX_RATE_LIMIT,
    )
    RATE_LIMIT_READS_PER_MINUTE: int = setting(
        120,
        "Maximum reads per minute for one API key (searches, extractions, embeddings, stored items). Reads do not count toward "
        "other limits. With 0, or RATE_LIMIT_PER_MINUTE=0, they count toward the limits for callers without a key",
        "you have agents that search more often, or your search provider allows less",
        ge=0,
        le=types.MAX_RATE_LIMIT,
    )
    RATE_LIMIT_READS_BURST: int = setting(
        20,
        "Requests that an API key may send at once before RATE_LIMIT_READS_PER_MINUTE applies",
        "you have agents that search more at once",
        ge=1,
        le=types.MAX_RATE_LIMIT,
    )
    RATE_LIMIT_GLOBAL_PER_HOUR: int = setting(
        1000,
        "Requests per hour of all limited clients together, up to 50 at once, without what RATE_LIMIT_READS_PER_MINUTE "
        "counts; 0: no limit",
        "you have more clients than that, or want a lower bound of the cost",
        ge=0,
        le=types.MAX_RATE_LIMIT,
    )
    TRUSTED_PROXIES: types.NetworkList = setting(
        (),
        "Comma-separated list of networks of reverse proxies whose X-Forwarded-For names the client; "
        "default: the header is ignored",
        "you run the server behind a reverse proxy: otherwise all clients share one rate limit",
        example="10.0.0.0/8",
    )
    ALLOWED_HOSTS: types.CommaList = setting(
        (),
        "Comma-separated list of accepted Host headers; default: loopback names if the server listens on loopback, else all",
        "you serve under a domain name, against DNS rebinding",
        example="research.example.org",
    )
    CORS_ORIGINS: types.CommaList = setting(
        (),
        "Comma-separated list of origins whose web pages may call the server from a browser",
        "you call the server from a web application of your own",
        example="https://app.example.org",
    )
    MAX_CONCURRENT_RESEARCHES: int = setting(
        500,
        "Research runs of a server at the same time; as many more wait up to 5 seconds, others get 503; 0: no limit",
        "you have little memory, or upstreams that cannot serve so many",
        ge=0,
    )
    MAX_BACKGROUND_RESEARCHES: int = setting(
        4,
        "Maximum background reports that one server runs at once, plus four times as many shallow and deep runs. Other runs "
        "wait in the queue. 0 means that the server runs none",
        "you separate servers that accept runs (0) from servers that carry them out",
        ge=0,
        le=1000,
    )
    WEBHOOK_SECRET: types.WebhookSecretList = setting(
        (),
        "Secret that signs webhooks: `whsec_` and 24 to 64 random bytes in base64; two with a comma while one replaces "
        "the other; default: no webhooks",
        "you want to be notified when a background run ends",
        example="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    )
    SEAL_KEY: types.SealKey | None = setting(
        None,
        "Private Ed25519 key that signs sealed answers: 64 hex digits, as `openssl rand -hex 32` prints them; default: sealed "
        "answers are not signed. It needs the extra `seal`",
        "you seal answers, and others must see that they come from you",
        command="openssl rand -hex 32",
    )
    WEBHOOK_ALLOWED_HOSTS: types.HostList = setting(
        (),
        "Comma-separated list of hosts (host, host:port or network) that may get webhooks although they are not public "
        "or use http",
        "you receive webhooks inside your own network",
        example="hooks.example.internal",
    )
    WATCH_SMTP_URL: types.SmtpUrl | None = setting(
        None,
        "Mail server for notices about changed answers to watched questions: `smtps://user:password@host`, or `smtp://…` with "
        "STARTTLS; it needs WATCH_MAIL_TO; default: no mail",
        "you want changes of watched questions by mail",
        example="smtps://user:password@mail.example.org",
    )
    WATCH_MAIL_TO: types.MailAddressList = setting(
        (),
        "Comma-separated list of addresses that get this mail, for the watches of all callers",
        "you want changes of watched questions by mail",
        example="team@example.org",
    )
    WATCH_MAIL_FROM: types.MailAddress | None = setting(
        None,
        "Sender of this mail; default: the first address of WATCH_MAIL_TO",
        "you need another sender, because your mail server refuses this one",
        example="research@example.org",
    )
    DRAIN_TIMEOUT_S: types.SecondsOrZero = setting(
        20.0,
        "Seconds that running requests get to finish when the server stops",
        "you give the process less time to stop, or have long requests",
    )
    LLM_PLATFORM_DATA_DIR: types.Folder | None = setting(
        None,
        "Folder of the research store, background runs, the outcome store and the embedded index; default: the user's "
        "data folder",
        "you keep data on another disk, or in a container's volume",
        example="~/.local/share/llm-platform",
    )

    # All upstreams
    LLM_PLATFORM_OFFLINE: bool = setting(
        False,
        "Use only documents, the research store, and services on loopback that are not search providers",
        "you must be sure that nothing leaves the machine",
    )
    UPSTREAM_PROXY: types.UrlWithUser | None = setting(
        None,
        "HTTP proxy for requests to configured upstreams",
        "you reach the internet through a proxy only",
        example="http://localhost:3128",
        repr=False,
    )

    # Logs
    LOG_LEVEL: Annotated[types.LogLevel, BeforeValidator(types.to_upper)] = setting(
        "INFO",
        "Minimum log level: DEBUG, INFO, WARNING, ERROR or CRITICAL",
        "you look for the cause of a fault (DEBUG)",
        names=("LOG_LEVEL", "RESEARCH_BRIDGE_LOG_LEVEL"),
    )
    LOG_FORMAT: Literal["auto", "console", "json"] = setting(
        "auto",
        "auto, console or json; auto: console on a terminal, otherwise JSON lines",
        "you read logs in another form than the one that auto chooses",
    )
    LOG_QUERIES: bool = setting(
        False, "Log the text of queries; if false, only their length", "you debug with queries that are not private"
    )

    # Shared state
    REDIS_URL: types.RedisUrl | None = setting(
        None,
        "URL of a Redis server for caches, rate limits and daily budgets that several servers share; "
        "default: each process has its own caches and limits",
        "you run several servers",
        names=("REDIS_URL", "RESEARCH_BRIDGE_REDIS_URL"),
        example="redis://localhost:6379/0",
        repr=False,
    )
    DATABASE_URL: types.DatabaseUrl | None = setting(
        None,
        "URL of a PostgreSQL database for the stored reports, background runs and the outcomes of workers, which several "
        "machines share; default: files in the data folder",
        "you run servers or workers on several machines",
        example="postgresql://user:password@localhost:5432/llm_platform",
    )

    # Search
    SEARCH_PROVIDERS: types.ProviderList = setting(
        (),
        "Ordered comma-separated list of search providers; auto: all configured providers, or ddgs if none is configured. "
        "The next provider is called only after an error",
        "you want another order, or not all configured providers",
        example="searxng,ddgs",
    )
    SEARCH_MAX_RESULTS: int = setting(
        10,
        "Maximum results of one search of a research run, with any provider",
        "you prefer fewer results (faster, cheaper) or more to choose from",
        names=("SEARCH_MAX_RESULTS", "SEARXNG_MAX_RESULTS"),
        ge=1,
        le=50,
    )
    SEARCH_BASE_URLS: types.UrlsByName = setting(
        {},
        "Comma-separated list of provider=URL for search services with an API key that have no setting of their own for "
        "their URL",
        "you call a search service through a gateway, or another server with its interface",
        example="exa=https://gateway.example.org/exa",
    )
    SEARXNG_URL: types.UrlList = setting(
        (),
        "URL of SearXNG; the entries of a comma-separated list are tried in order",
        "you run a SearXNG",
        names=("SEARXNG_URL", "RESEARCH_BRIDGE_SEARXNG_URL"),
        example="http://localhost:8080",
        repr=False,
    )
    SEARXNG_USERNAME: str | None = setting(
        None,
        "User name for Basic authentication at SearXNG",
        "you protect SearXNG with a login",
        names=("SEARXNG_USERNAME", "SEARCHXNG_BASIC_AUTH_LOGIN"),
        example="me",
    )
    SEARXNG_PASSWORD: SecretStr | None = setting(
        None,
        "Password for Basic authentication at SearXNG",
        "you protect SearXNG with a login",
        names=("SEARXNG_PASSWORD", "SEARCHXNG_BASIC_AUTH_PASSWORD"),
    )
    SEARXNG_TIMEOUT_S: types.Seconds = setting(
        10.0, "Timeout of one search in seconds", "you have slow engines in SearXNG"
    )
    SEARXNG_SAFESEARCH: int = setting(
        0, "Safe search: 0 off, 1 moderate, 2 strict", "you serve minors, or a workplace", ge=0, le=2
    )
    SEARXNG_ENGINES_WEB: types.CommaList = setting(
        ("google", "bing", "duckduckgo"),
        "Comma-separated list of engines for web searches",
        "you have enabled other engines in SearXNG",
    )
    SEARXNG_ENGINES_NEWS: types.CommaList = setting(
        ("google news", "bing news"),
        "Comma-separated list of engines for news searches",
        "you have enabled other engines in SearXNG",
    )
    SEARXNG_ENGINES_ACADEMIC: types.CommaList = setting(
        ("google scholar", "arxiv"),
        "Comma-separated list of engines for academic searches",
        "you have enabled other engines in SearXNG",
    )
    SEARXNG_RPM: types.Rate | None = setting(
        None,
        "Maximum searches per minute; default: no limit, 10 in reports",
        "you share a SearXNG, or its engines block frequent searches",
        names=("SEARXNG_RPM", "LIMIT_SEARCHXNG_RPM"),
        example="10",
    )
    BOCHA_API_KEY: types.Key = setting(SecretStr(""), "API key of Bocha AI web search", "you search with Bocha")
    BOCHA_BASE_URL: types.HttpUrl = setting(
        "https://api.bochaai.com",
        "URL of the Bocha API; the newer one is https://api.bocha.cn",
        "you use the newer address, or a gateway",
    )
    BOCHA_TIMEOUT_S: types.Seconds = setting(
        30.0, "Timeout of one search in seconds", "you want the next provider to be tried earlier"
    )
    BRAVE_API_KEY: types.Key = setting(SecretStr(""), "API key of the Brave Search API", "you search with Brave")
    BRAVE_BASE_URL: types.HttpUrl = setting(
        "https://api.search.brave.com", "URL of the Brave Search API", "you call Brave through a gateway"
    )
    BRAVE_TIMEOUT_S: types.Seconds = setting(
        15.0, "Timeout of one search in seconds", "you want the next provider to be tried earlier"
    )
    EXA_API_KEY: types.Key = setting(SecretStr(""), "API key of Exa", "you search with Exa")
    TAVILY_API_KEY: types.Key = setting(SecretStr(""), "API key of Tavily", "you search with Tavily")
    SERPER_API_KEY: types.Key = setting(SecretStr(""), "API key of Serper", "you search with Serper")
    DOCUMENTS_DIR: types.Folder | None = setting(
        None,
        "Folder of documents, or one file, to search",
        "you ask questions about local files",
        example="~/documents",
    )
    DOCUMENTS_BASE_URL: types.HttpUrl | None = setting(
        None,
        "URL under which readers can open the documents; default: doc:",
        "you publish the folder on a web server, so that citations are links",
        example="https://wiki.example.org",
    )

    # Language models
    LLM_KIND: types.LLMKindName = setting(
        "openai",
        f"Kind of the LLM service: {', '.join(get_args(types.LLMKindName))}",
        "you use another kind of service; openai suits every compatible one",
    )
    LLM_API_KEY: types.Key | None = setting(
        None, "API key of the LLM service", "you want written answers; without a model answers quote their sources"
    )
    LLM_BASE_URL: types.HttpUrl | None = setting(
        None,
        "URL of the LLM service; default: the usual one of LLM_KIND",
        "you run a model, or use another compatible service than OpenAI",
        example="https://api.openai.com/v1",
    )
    LLM_MODEL: str | None = setting(
        None, "Name of the model", "you set LLM_API_KEY or LLM_BASE_URL", example="gpt-4o-mini"
    )
    KIMI_API_KEY: types.Key | None = setting(
        None,
        "API key of Kimi for Coding",
        "you have a Kimi subscription",
        names=("KIMI_API_KEY", "RESEARCH_BRIDGE_KIMI_API_KEY"),
    )
    KIMI_BASE_URL: types.HttpUrl = setting(
        "https://api.kimi.com/coding/v1", "URL of Kimi for Coding", "you call Kimi through a gateway"
    )
    KIMI_MODEL: str = setting("kimi-for-coding", "Name of the Kimi model", "you want another model of the subscription")
    KIMI_USER_AGENT: str = setting(
        "KimiCLI/0.77",
        "User-Agent header sent to Kimi; check that Kimi's terms of use allow you to send it",
        "you are refused with this version, or identify another client",
    )
    AITUNNEL_API_KEY: types.Key | None = setting(None, "API key of AITunnel", "you reach models through AITunnel")
    AITUNNEL_BASE_URL: types.HttpUrl = setting(
        "https://api.aitunnel.ru/v1", "URL of AITunnel", "you use another address of it"
    )
    AITUNNEL_MODEL: str | None = setting(
        None, "Name of the AITunnel model", "you set AITUNNEL_API_KEY", example="gpt-4o-mini"
    )
    AZURE_OPENAI_ENDPOINT: types.HttpUrl | None = setting(
        None,
        "URL of the Azure OpenAI resource",
        "you have models on Azure",
        example="https://my-resource.openai.azure.com",
    )
    AZURE_OPENAI_API_KEY: types.Key | None = setting(
        None, "API key of the Azure OpenAI resource", "you have models on Azure"
    )
    AZURE_OPENAI_API_VERSION: str = setting(
        "2024-10-21", "Azure OpenAI API version", "you have a deployment that needs a newer version"
    )
    AZURE_OPENAI_DEPLOYMENT: str | None = setting(
        None, "Name of the Azure OpenAI deployment", "you have models on Azure", example="my-deployment"
    )
    LLM_PROVIDERS: Annotated[tuple[types.LLMProviderSettings, ...], NoDecode, BeforeValidator(types.parse_json)] = (
        setting(
            (),
            "JSON list of {name, kind, base_url, api_key, model, price_in, price_out, context_tokens, concurrency, "
            "sources_tokens, api_version} in failover order; prices are US dollars per million tokens, concurrency is the "
            "number of calls at once (default: 1 for a local model, no limit for vllm), sources_tokens how much of the sources "
            "the prompt of a shallow or deep answer has (default: 4000, 1500 for a local model, since it reads slowly). If set, "
            "the LLM_, KIMI_, AITUNNEL_ and AZURE_OPENAI_ variables above are ignored",
            "you have several models, a budget in dollars, or a local server that answers several calls at once",
            example='[{"name": "local", "kind": "ollama", "base_url": "http://localhost:11434/v1", "model": "qwen3"}]',
        )
    )
    BUDGET_USD_PER_DAY: types.DollarsByLabel = setting(
        {},
        "US dollars that calls of language models may cost a day (UTC); then answers quote their sources. `5` limits all "
        "together, `*=1` each API key, `alice=3` the key with this label; commas separate several. Every model needs a "
        "known price. 0 allows only free models",
        "you pay for tokens and serve others",
        example="5,*=1,alice=3",
    )
    LLM_TIMEOUT_S: types.Seconds = setting(
        60.0,
        "Seconds to wait for the first token of a model; default for a local one: 600, since it reads slowly",
        "you have a slower model, or want the next one to be tried earlier",
    )
    LLM_IDLE_TIMEOUT_S: types.Seconds = setting(
        30.0, "Seconds to wait for the next token of a model", "you have a model that pauses, for example to think"
    )
    LLM_MAX_TOKENS: int = setting(
        2048,
        "Maximum length of a synthesis in tokens; a report may have twice as many",
        "you want longer texts, or have a model that thinks before it writes",
        ge=16,
    )
    LLM_CONTEXT_TOKENS: int = setting(
        32_000,
        "Context window in tokens of models without a known one; default for a local one: what the service says, as "
        "llama.cpp and vLLM do",
        "you have a model with a smaller window than its service says",
        ge=1000,
    )
    LLM_TEMPERATURE: float | None = setting(
        None,
        "Temperature of the prompts of research; default: 0.2 to write, 0 for all other steps. It is not sent to Kimi, nor to "
        "a service that refuses it",
        "you have a model whose vendor recommends another one",
        ge=0.0,
        le=2.0,
        example="0.2",
    )
    LLM_RPS: types.Rate | None = setting(
        None,
        "Maximum calls per second of one model; default: no limit, 2 in reports",
        "you have a contract with a rate limit",
        names=("LLM_RPS", "LIMIT_AITUNNEL_RPS"),
        example="2",
    )
    LLM_STAGES: Annotated[dict[types.LLMStage, str], NoDecode, BeforeValidator(types.parse_json)] = setting(
        {},
        "JSON object, report stage (plan, queries, rank, summarize, write, judge, output) to the provider or model that "
        "is called first; the judge entry applies to all answers, and a slow model is called for plan (deep answers), queries, "
        "rank or summarize only if it is named",
        "you rank with a cheap model and write with a strong one",
        example='{"rank": "cheap-model", "write": "strong-model"}',
    )
    ANTHROPIC_MODELS: Annotated[
        dict[types.ModelPattern, types.ModelPattern], Field(max_length=100), NoDecode, BeforeValidator(types.parse_json)
    ] = setting(
        {},
        "JSON object, pattern of model names that clients of /anthropic send, such as claude-*, to the model that answers "
        "for them: one of GET /anthropic/v1/models. The first pattern that fits counts",
        "you use Claude Code, or another program that names its models itself",
        example='{"claude-haiku-*": "ollama/qwen3", "claude-*": "openai/gpt-4o"}',
    )
    CITATION_JUDGE: Literal["auto", "off", "report", "all"] = setting(
        "auto",
        "Which answers have their citations verified by the language model, after the "
        "word comparison: off (none), report (reports), all, or auto (reports, and in shallow and deep answers the citations "
        "that word comparison does not rate supported; none with a local model)",
        "you pay one more call and wait for it, for surer verdicts (all), or save it (off)",
        example="all",
    )
    CITATION_ENCODER: Literal["auto", "off", "on"] = setting(
        "auto",
        "Whether the support model of the package reads what the word comparison leaves in doubt: off, on (an error if the "
        "extra `meaning` is not installed), or auto (on if it is installed). It reads Arabic, Chinese, English, French, German, "
        "Hebrew, Russian and Spanish",
        "you want the verdicts of words alone (off), or an error when the extra is missing (on)",
        example="off",
    )
    VERIFY: Literal["off", "annotate", "mark"] = setting(
        "off",
        "Whether answers of language models at /v1 and /anthropic are checked against what the model was given: off, "
        "annotate (annotations, counts and evidence beside the text), or mark (marks in the text too). The header X-Verify "
        "of a request replaces it",
        "you have clients that cannot send a header, and want their answers checked",
        example="annotate",
    )
    ANSWER_ENCODER: Literal["auto", "off", "on"] = setting(
        "auto",
        "Whether answers without a language model, and the passages for a local model, are chosen by meaning too: off, on "
        "(an error if the extra `meaning` is not installed), or auto (on if it is installed). A sentence encoder compares "
        "16 languages; the support model reads thirteen languages too, unless CITATION_ENCODER is off",
        "you want answers chosen by words alone (off), or an error when the extra is missing (on)",
        example="off",
    )
    ANSWER_ENCODER_TIMEOUT_S: types.Seconds = setting(
        10.0,
        "Seconds in which both models must have read the sentences or passages of an answer, with the wait for the weights "
        "and for other answers; then keyword ranking decides, and the answer says so in `degraded`",
        "you have a slow processor, or many answers at once, and prefer to wait for the reading by meaning",
    )

    # Reading pages
    READERS: types.ReaderList = setting(
        ("jina", "direct"),
        "Page readers in order, with commas: jina, direct, direct-robots (direct, and obeys robots.txt); the next reader "
        "is used after an error",
        "you do not want r.jina.ai to see addresses (direct), or read pages on a schedule (direct-robots)",
        example="direct",
    )
    JINA_API_KEY: types.Key | None = setting(
        None,
        "API key of the Jina reader, which reads fewer pages per minute without one, and of Jina's search, which "
        "SEARCH_PROVIDERS must name",
        "you write many reports, or search with Jina",
    )
    JINA_BASE_URL: types.HttpUrl = setting(
        "https://r.jina.ai",
        "URL of the Jina reader or a compatible server; it receives the URL of every page that it reads",
        "you run a reader with Jina's interface",
    )
    JINA_RPS: types.Rate | None = setting(
        None,
        "Maximum pages per second through Jina; default: 5 with a key, 0.33 without",
        "you have a key with another limit, or your own reader",
        names=("JINA_RPS", "LIMIT_JINA_RPS"),
        example="5",
    )
    READ_PAGES: Annotated[int, Field(ge=0, le=10)] | None = setting(
        None,
        "Pages that are read before a shallow or deep answer is written, always directly; default: 3 for a shallow answer, 4 "
        "for a deep one. Up to twice as many more, which the text cites, are read while it is written. 0 reads none, and "
        "citations are checked against the excerpts of the search engine",
        "you must not contact the servers of found pages (0), or want more evidence",
        example="0",
    )
    PAGE_FAVICONS: bool = setting(
        False,
        "Show the icons of sites on the page at /. This server asks each site of a source for /favicon.ico, as it reads "
        "pages; the site then knows that this server shows one of its pages",
        "you want icons in the place of letters",
    )
    READ_S: types.Seconds | None = setting(
        None,
        "Seconds that an answer waits for pages in all, at most a tenth of RESEARCH_TIMEOUT_S; default: 1.2 for a shallow "
        "answer, 2.5 for a deep one",
        "you have a slow network, or prefer evidence to speed",
        example="4",
    )
    READER_ALLOWED_HOSTS: types.HostList = setting(
        (),
        "Comma-separated list of hosts (host, host:port or network) that may be read although they are not public; without "
        "a port, all ports are allowed",
        "you search in an intranet",
        example="wiki.example.internal,10.1.0.0/16",
    )

    # Reports
    REPORT_PAGES: int = setting(
        5,
        "Number of pages to read for a report; a report uses at most the best five",
        "you want a better choice of pages and accept more calls",
        ge=1,
        le=20,
    )
    QUERY_LANGUAGES: types.LanguageList = setting(
        (),
        "Comma-separated list of languages to search in; default: the language of the question and English",
        "you need sources in other languages",
        example="ru,en",
    )
    STORE_TTL_DAYS: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = setting(
        30.0,
        "Days that research runs, verifications and report stages are stored, and the index of a folder after its last search; "
        "0: nothing is stored",
        "you must delete earlier, or keep research runs longer",
    )

    # Index
    QDRANT_URL: types.HttpUrl | None = setting(
        None,
        "URL of a Qdrant server; default: the embedded index",
        "you share an index between machines",
        example="http://localhost:6333",
    )
    QDRANT_API_KEY: types.Key | None = setting(None, "API key of the Qdrant server", "you protect Qdrant with a key")
    QDRANT_COLLECTION: types.CollectionName = setting(
        "documents",
        "Name of the collection to index and search",
        "you have several collections, for example one a tenant",
    )
    EMBEDDER: Literal["wordllama", "openai", "azure", "none"] = setting(
        "wordllama",
        "Embedder: wordllama (embedded), openai (any compatible service), azure, or none (keyword search only)",
        "you have a stronger embedding model than the embedded one",
    )
    EMBEDDING_BASE_URL: types.HttpUrl | None = setting(
        None, "URL of the embedding service", "you set EMBEDDER to openai", example="http://localhost:11434/v1"
    )
    EMBEDDING_API_KEY: types.Key | None = setting(
        None,
        "API key of the embedding service; default: the LLM or Azure key if the host is the same",
        "you use another service for embeddings than for text",
    )
    EMBEDDING_MODEL: str | None = setting(
        None,
        "Name of the embedding model or deployment",
        "you set EMBEDDER to openai or azure",
        example="text-embedding-3-small",
    )
    RAG_TOP_K: int = setting(
        5,
        "Default number of documents per search and of passages per answer",
        "you have long answers from many documents, or a small context window",
        ge=1,
        le=100,
    )

    # Kafka
    KAFKA_BOOTSTRAP_SERVERS: types.CommaList = setting(
        (),
        "Comma-separated list of Kafka brokers (host:port) for the worker",
        "you run a worker",
        example="localhost:9092",
    )
    KAFKA_GROUP_ID: str = setting(
        "rag-core",
        "Kafka consumer group of the workers",
        "you run groups of workers apart, for example for tenants",
        min_length=1,
        max_length=200,
    )
    KAFKA_CONFIG: types.KafkaConfig = setting(
        {},
        "JSON object, or the path of a file with one: options of librdkafka (security.protocol, sasl.password, …), "
        f"`{types.TOPIC_OPTION}rag_search_request` and the like (other names of the topics), `{types.REGISTRY_URL}`, "
        f"`{types.REGISTRY_LOGIN}` (user:password) and `{types.REGISTERS_SCHEMAS}`; options that guarantee delivery cannot "
        "be changed",
        "you have brokers with TLS or a login, other names of the topics, or a schema registry",
        example='{"group.protocol": "consumer"}',
        repr=False,
    )
    KAFKA_CONCURRENCY: int = setting(
        16,
        "Maximum number of requests that one worker processes at the same time",
        "you have a model or an index that serves fewer, or more",
        ge=1,
        le=1024,
    )
    KAFKA_TENANT_FIELD: str | None = setting(
        None,
        "Metadata field that is applied as a filter of the same name; default: none",
        "you serve several tenants from one collection",
        example="tenant",
    )
    RAG_MAX_MESSAGE_BYTES: int = setting(
        1_000_000, "Maximum size of a request in bytes", "you have brokers with another limit", ge=1000, le=100_000_000
    )
    OUTCOME_TTL_DAYS: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = setting(
        7.0,
        "Days that outcomes are stored; a duplicate request gets the stored outcome",
        "you have senders that repeat a request later, or must delete earlier",
    )
    WORKER_HTTP_PORT: int = setting(
        9100,
        "Port of the worker's readiness and metrics endpoints; default: 9100 or the next free port; 0: any free port",
        "you scrape metrics of several workers on one machine",
        ge=0,
        le=65535,
    )

    # Research and cache
    RESEARCH_TIMEOUT_S: types.Seconds = setting(
        120.0,
        "Timeout of one research run, and of one request of a worker, in seconds; default with a local model: 600, for a "
        "report: 900",
        "you have slow models, or clients that wait less",
    )
    CACHE_TTL_S: types.SecondsOrZero = setting(
        3600.0,
        "Seconds that searches, pages, plans of deep research and syntheses are cached; 0: no cache",
        "you need fresher results, or fewer calls",
    )
    CACHE_MAX_ENTRIES: int = setting(
        1000,
        "Maximum entries of each cache in memory; the least recently used entries are evicted",
        "you have little memory, or many different questions",
        ge=1,
    )

    def __init__(self, **values: Any) -> None:
        """Create settings in which `values` take precedence over the environment.

        Raises ValidationError, which does not contain the input, for an invalid value and for an unknown argument. An unknown
        environment variable is not an error, because it may belong to another program.
        """
        # Names such as `_env_file` are options of pydantic-settings.
        known = known_names()
        unknown = [name for name in values if name not in known and not name.startswith("_")]
        if unknown:
            message = setting_names.unknown_message
            details = [setting_names.error_detail("unknown_setting", name, message(name, known)) for name in unknown]
            raise ValidationError.from_exception_data(Settings.__name__, details, hide_input=True)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise setting_names.rewrite_error(error, type(self), values) from None

    @classmethod
    def without_environment(cls, **values: Any) -> Settings:
        """Create settings from `values` and the defaults alone, for tests. No environment variable and no `.env` is read.

        Raises ValidationError, like `Settings(…)`.
        """
        token = _reads_environment.set(False)
        try:
            return cls(_env_file=None, **values)
        finally:
            _reads_environment.reset(token)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        if not _reads_environment.get():
            return (init_settings,)
        return init_settings, env_settings, dotenv_settings, file_secret_settings

    @classmethod
    def load(cls, **values: Any) -> Settings:
        """Return the settings of this process. `values` take precedence over the environment.

        Each line of `.env` that is not an assignment is logged as a warning and ignored. Raises SettingsError if `.env` cannot
        be read, for invalid variables (one line each) or, if all are valid, for replaced former settings (one line each).
        """
        # The warnings of python-dotenv do not name the file, so the loop below writes its own.
        logging.getLogger("dotenv.main").setLevel(logging.ERROR)
        try:
            settings = cls(**values)
            former = setting_names.former_settings(_variables_set())
            env_file = Path(str(cls.model_config["env_file"]))
            for number in setting_names.unreadable_lines(env_file, cls.model_config["env_file_encoding"]):
                log.warning(
                    ".env line %d is ignored: it must be NAME=value, with both quotes if the value has any", number
                )
        except ValidationError as error:
            lines = [f"{detail['loc'][0]} {detail['msg']}" for detail in error.errors()]
            raise SettingsError("\n".join(dict.fromkeys(lines))) from None
        except (OSError, UnicodeDecodeError) as error:
            problem = type(error).__name__
            raise SettingsError(f".env cannot be read ({problem}): it must be a readable text file in UTF-8") from None
        if former:
            raise SettingsError("\n".join(former))
        return settings

    def lacks_api_keys(self) -> bool:
        """Return whether other machines can reach the server and no API key is set."""
        return self.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS and not self.LLM_PLATFORM_API_KEYS

    def api_keys(self) -> tuple[types.ApiKey, ...]:
        """Return the keys of LLM_PLATFORM_API_KEYS, in order.

        An entry with a label matches two values: the part after the label, and the whole entry.
        """
        keys = []
        for entry in self.LLM_PLATFORM_API_KEYS:
            text = entry.get_secret_value()
            labelled = _LABELLED_KEY.fullmatch(text)
            keys.append(types.ApiKey(labelled[1], (labelled[2], text)) if labelled else types.ApiKey(None, (text,)))
        return tuple(keys)

    def api_key_warnings(self) -> list[str]:
        """Return a sentence for each API key that is short enough to be guessed."""
        return [
            f"Key {number} of LLM_PLATFORM_API_KEYS has fewer than {SAFE_KEY_CHARS} characters, so it can be guessed: "
            "use a random one, for example of `openssl rand -hex 16`"
            for number, key in enumerate(self.api_keys(), 1)
            if min(map(len, key.values)) < SAFE_KEY_CHARS
        ]

    def kafka_topics(self) -> dict[str, str]:
        """Return the topics that KAFKA_CONFIG renames, as a mapping of names in the contract to names on the brokers."""
        options = self.KAFKA_CONFIG.items()
        prefix = types.TOPIC_OPTION
        return {name.removeprefix(prefix): str(value) for name, value in options if name.startswith(prefix)}

    def schema_registry(self) -> types.SchemaRegistry | None:
        """Return the schema registry that KAFKA_CONFIG names, or None."""
        options = self.KAFKA_CONFIG
        if types.REGISTRY_URL not in options:
            return None
        login = options.get(types.REGISTRY_LOGIN)
        user, _, password = login.get_secret_value().partition(":") if isinstance(login, SecretStr) else ("", "", "")
        return types.SchemaRegistry(
            str(options[types.REGISTRY_URL]),
            (user, password) if user else None,
            options.get(types.REGISTERS_SCHEMAS) is not False,
        )

    def secrets(self) -> tuple[str, ...]:
        """Return all configured secrets that are long enough to be redacted, with the passwords inside URLs."""
        with_user = [*self.SEARXNG_URL, *filter(None, (self.UPSTREAM_PROXY, self.REDIS_URL))]
        if self.WATCH_SMTP_URL is not None:
            with_user.append(self.WATCH_SMTP_URL.get_secret_value())
        passwords = [urlsplit(url).password or "" for url in with_user]
        if self.DATABASE_URL is not None:
            found_in_url = _URL_PASSWORD.findall(self.DATABASE_URL.get_secret_value())
            passwords += [password for match in found_in_url for password in match]
        if (registry := self.schema_registry()) and registry.login:
            passwords.append(registry.login[1])
        labelled = (value for key in self.api_keys() for value in key.values)
        found = (*_secret_values(self), *labelled, *passwords, *map(unquote, passwords))
        return tuple(dict.fromkeys(secret for secret in found if len(secret) >= SECRET_MIN_CHARS))


def _secret_values(value: Any) -> Iterator[str]:
    """Yield the text of each SecretStr in a value, in the fields of models and in the items of tuples and dicts."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secret_values(getattr(value, name))
    elif isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _secret_values(item)


known_names = partial(setting_names.known_names, Settings.model_fields)
variable_names = partial(setting_names.list_names, Settings.model_fields)
example_line = partial(setting_names.make_example, Settings.model_fields)
environment_variables = partial(setting_names.read_variables, Settings)
setting_origin = partial(setting_names.find_origin, Settings)


def opentelemetry_variables() -> Mapping[str, str]:
    """Return the OTEL_… variables of the process, without those of `.env`: OpenTelemetry's SDK does not read that file."""
    variables = environment_variables()["environment"].items()
    return {name: value for name, value in variables if value and name.startswith("OTEL_")}


def unknown_variables(variables: Mapping[str, Any] | None = None) -> list[str]:
    """Return a warning for each unknown variable that has the prefix of a setting. It names the most similar setting.

    `variables` default to those of the process and of `.env`.
    """
    return setting_names.unknown_settings(_variables_set() if variables is None else set(variables), known_names())


def _variables_set() -> set[str]:
    return {name for names in environment_variables().values() for name in names}


@cache
def list_prefixes() -> tuple[str, ...]:
    """Return the prefixes of the settings' names, such as `KAFKA_`."""
    return setting_names.prefixes(known_names())
