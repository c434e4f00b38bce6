"""The types of settings: how a variable is parsed and checked. Errors never quote a value, which may be a secret."""

import json
import re
from base64 import b64decode
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

LLMKindName = Literal["openai", "kimi", "azure", "aitunnel", "ollama", "vllm"]
LOCAL_EMBEDDERS = ("none", "wordllama")  # Values of EMBEDDER that cost nothing and send nothing.
LLMStage = Literal["plan", "queries", "rank", "summarize", "write", "judge", "output"]
ReaderName = Literal["jina", "direct", "direct-robots"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

MAX_TIMEOUT_S = 86_400  # a timeout beyond a day is a typing error
MAX_RATE_LIMIT = 100_000_000
WEBHOOK_SECRET_PREFIX = "whsec_"
WEBHOOK_SECRET_BYTES = range(24, 65)
# Options of KAFKA_CONFIG that are not librdkafka's; those of a registry have the names of Confluent's clients.
KAFKA_TOPICS = ("rag_search_request", "rag_search_result", "rag_answer_request", "rag_answer_result", "rag_failed")
TOPIC_OPTION = "topic."
REGISTRY_URL = "schema.registry.url"
REGISTRY_LOGIN = "schema.registry.basic.auth.user.info"
REGISTERS_SCHEMAS = "auto.register.schemas"
UNENCODED = "must have special characters of user and password percent-encoded, such as %40 for @ and %2F for /"
KafkaValue = str | int | float | bool | SecretStr

_URL = re.compile(r"https?://([^\s/?#\\]+@)?[^\s/?#@\\]+(/[^\s?#\\]*)?", re.IGNORECASE)
_AT_SIGN_AFTER_HOST = re.compile(r"[a-z]+://[^\s/?#\\]*[\s/?#\\].*@", re.IGNORECASE | re.DOTALL)  # ends a password
_REDIS_URL = re.compile(r"(?:rediss?://(?:[^\s/?#@\\]*@)?[^\s/?#@\\]+(?:/\d*)?|unix:///[^\s?#@\\]+)(?:\?[^\s#@]*)?")
_REDIS_OPTIONS = {"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}  # another one may hold a secret
_SMTP_URL = re.compile(r"smtps?://(?:[^\s/?#@\\]*@)?[^\s/?#@\\]+/?")
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[1-9]\d{0,4})?")
_SECRET_OPTION = re.compile(r"password|passphrase|secret|key\.pem|oauthbearer\.config|user\.info")
_SEAL_KEY = re.compile(r"[0-9a-fA-F]{64}")
_LABEL_WITHOUT_KEY = re.compile(r"[A-Za-z0-9_-]{1,32}:")
_PUBLISHED_SEAL_KEY = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"  # RFC 8032, 7.1, test 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def _split_list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _split_lower(value: Any) -> Any:
    return _split_list(value.lower() if isinstance(value, str) else value)


def _split_providers(value: Any) -> Any:
    return () if value == "auto" else _split_lower(value)


ModelPattern = Annotated[str, Field(min_length=1, max_length=320)]


def parse_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("must be JSON") from None  # the decoder's message quotes the value


def parse_kafka_config(value: Any) -> Any:
    """Return the options of a JSON object, or of the file at a path, with secrets masked."""
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[")):
        try:
            value = Path(value).expanduser().read_text("utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            problem = type(error).__name__
            raise ValueError(f"must be a JSON object, or the path of a file with one ({problem})") from None
    options = parse_json(value)
    if not isinstance(options, dict):
        raise ValueError("must be a JSON object, name to value")
    for name, option in options.items():
        if not isinstance(option, str | int | float | bool | SecretStr):
            raise ValueError(f"({name}) must be text, a number, true or false")
    options = dict(options)  # an argument belongs to the caller
    _check_topics({name: str(option) for name, option in options.items() if name.startswith(TOPIC_OPTION)})
    _check_registry(options)
    return {
        name: SecretStr(str(option)) if _SECRET_OPTION.search(name) and not isinstance(option, SecretStr) else option
        for name, option in options.items()
    }


def _check_topics(options: dict[str, str]) -> None:
    """Raise ValueError for an unknown topic, an invalid name, and names that collide.

    Kafka refuses topic names that differ only in `.` and `_`, because they are equal in the names of its metrics.
    """
    for option, name in options.items():
        if option.removeprefix(TOPIC_OPTION) not in KAFKA_TOPICS:
            raise ValueError(f"({option}) must be {TOPIC_OPTION} followed by one of {', '.join(KAFKA_TOPICS)}")
        if not _TOPIC.fullmatch(name) or name in (".", ".."):
            raise ValueError(f"({option}) must be 1 to 249 letters, digits, dots, underscores and hyphens")
    used = [options.get(f"{TOPIC_OPTION}{topic}", topic).replace(".", "_") for topic in KAFKA_TOPICS]
    if len(set(used)) < len(used):
        raise ValueError("must give each of the five topics another name; a dot and an underscore count as equal")


def _check_registry(options: dict[str, Any]) -> None:
    for name in options:
        if name.startswith("schema.registry.") and name not in (REGISTRY_URL, REGISTRY_LOGIN):
            raise ValueError(f"({name}) must be {REGISTRY_URL} or {REGISTRY_LOGIN}")
    if REGISTRY_LOGIN in options:
        login = options[REGISTRY_LOGIN]
        user, _, password = (login.get_secret_value() if isinstance(login, SecretStr) else str(login)).partition(":")
        if not user or not password:
            raise ValueError(f"({REGISTRY_LOGIN}) must be user:password")
        if REGISTRY_URL not in options:
            raise ValueError(f"({REGISTRY_LOGIN}) needs {REGISTRY_URL}")
    if REGISTRY_URL in options:
        try:
            options[REGISTRY_URL] = _check_url(str(options[REGISTRY_URL]))
        except ValueError as error:
            raise ValueError(f"({REGISTRY_URL}) {error}") from None
    if not isinstance(options.get(REGISTERS_SCHEMAS, True), bool):
        raise ValueError(f"({REGISTERS_SCHEMAS}) must be true or false")


def split_amounts(value: Any) -> Any:
    """Parse `5,*=1,alice=3` into {"": "5", "*": "1", "alice": "3"}, or a JSON object. Raises ValueError for a repeated label."""
    if isinstance(value, int | float):
        return {"": value}
    if not isinstance(value, str) or value.startswith("{"):
        return parse_json(value)
    parts = [part.strip().rpartition("=") for part in value.split(",") if part.strip()]
    amounts = {label.strip(): amount.strip() for label, _, amount in parts}
    if len(amounts) < len(parts):
        raise ValueError("must have each label, and the number without a label, at most once")
    return amounts


def split_urls(value: Any) -> Any:
    """Parse `exa=https://one.example,tavily=https://two.example`, or a JSON object, into a mapping of names to URLs."""
    if not isinstance(value, str) or value.startswith("{"):
        return parse_json(value)
    parts = [part.strip().partition("=") for part in value.split(",") if part.strip()]
    return {name.strip().lower(): url.strip() for name, _, url in parts}


def _check_url(value: str, *, with_user: bool = False) -> str:
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if with_user and _AT_SIGN_AFTER_HOST.match(value):
        raise ValueError(UNENCODED)
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
        raise ValueError("must be a comma-separated list of host, host:port or networks such as 10.1.0.0/16")
    return value.lower()


def _parse_network(value: str) -> str:
    try:
        return str(ip_network(value, strict=False))
    except ValueError:
        raise ValueError("must be a comma-separated list of addresses or networks such as 10.0.0.0/8") from None


def _clean_key(value: Any) -> Any:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        return value
    if not (text.strip().isascii() and text.strip().isprintable()):
        raise ValueError("contains a character that cannot be sent in a header: copy the key again")
    return SecretStr(text.strip())


def to_upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _split_keys(value: Any) -> Any:
    return [_clean_key(part) for part in _split_list(value)] if isinstance(value, (str, list, tuple)) else value


def _check_api_keys(keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    """Raise ValueError for a label without a key, such as `alice:` from an unset shell variable: it would become the key."""
    for number, key in enumerate(keys, 1):
        if _LABEL_WITHOUT_KEY.fullmatch(key.get_secret_value()):
            raise ValueError(f"must have a key after the label of entry {number}")
    return keys


def decode_webhook_secret(secret: str) -> bytes:
    """Return the key bytes of a `whsec_…` secret. Raises ValueError if it is not a valid Standard Webhooks secret."""
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


def _check_seal_key(value: SecretStr) -> SecretStr:
    if not _SEAL_KEY.fullmatch(value.get_secret_value()):
        raise ValueError("must be 64 hex digits")
    if value.get_secret_value().lower() == _PUBLISHED_SEAL_KEY:
        raise ValueError("must be a key of your own: RFC 8032 publishes this one, so anybody can sign with it")
    return value


def _clean_database_url(value: Any) -> Any:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        return value
    if not text.strip().startswith(("postgresql://", "postgres://")):
        raise ValueError("must begin with postgresql://")
    before_query = text.partition("?")[0]
    if before_query.count("@") > 1 or "@" in before_query.partition("://")[2].partition("/")[2]:  # of a password
        raise ValueError(UNENCODED)
    return SecretStr(text.strip())


def _clean_smtp_url(value: Any) -> Any:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        return value
    if not _SMTP_URL.fullmatch(text.strip()) or not _has_valid_port(text.strip()):
        raise ValueError("must be smtps://user:password@host:port or smtp://…, with special characters percent-encoded")
    return SecretStr(text.strip())


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_list)]
HttpUrl = Annotated[str, AfterValidator(_check_url)]
UrlWithUser = Annotated[str, AfterValidator(_check_url_with_user)]
RedisUrl = Annotated[str, AfterValidator(_check_redis_url)]
UrlList = Annotated[tuple[UrlWithUser, ...], NoDecode, BeforeValidator(_split_list)]
UrlsByName = Annotated[dict[str, HttpUrl], NoDecode, BeforeValidator(split_urls)]
HostList = Annotated[tuple[Annotated[str, AfterValidator(_parse_host)], ...], NoDecode, BeforeValidator(_split_list)]
NetworkList = Annotated[
    tuple[Annotated[str, AfterValidator(_parse_network)], ...], NoDecode, BeforeValidator(_split_list)
]
KafkaConfig = Annotated[dict[str, KafkaValue], NoDecode, BeforeValidator(parse_kafka_config)]
ReaderList = Annotated[tuple[ReaderName, ...], NoDecode, BeforeValidator(_split_lower), Field(min_length=1)]
ProviderList = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_split_providers)
]  # check_providers checks the names
LanguageTag = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
LanguageList = Annotated[tuple[LanguageTag, ...], NoDecode, BeforeValidator(_split_lower), Field(max_length=4)]
CollectionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
Key = Annotated[SecretStr, BeforeValidator(_clean_key)]
SmtpUrl = Annotated[SecretStr, BeforeValidator(_clean_smtp_url)]
MailAddress = Annotated[str, Field(pattern=r"^[^@\s,:;<>()\[\]\\\"\x00-\x1f\x7f]{1,64}@[A-Za-z0-9.-]{1,253}$")]
MailAddressList = Annotated[tuple[MailAddress, ...], NoDecode, BeforeValidator(_split_list), Field(max_length=20)]
SealKey = Annotated[Key, AfterValidator(_check_seal_key)]
# Secret as a whole, since it holds the password.
DatabaseUrl = Annotated[SecretStr, BeforeValidator(_clean_database_url)]
KeyList = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split_keys), AfterValidator(_check_api_keys)]
WebhookSecretList = Annotated[
    tuple[Annotated[SecretStr, AfterValidator(_check_webhook_secret)], ...], NoDecode, BeforeValidator(_split_keys)
]
Folder = Annotated[Path, AfterValidator(Path.expanduser)]
Seconds = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
DollarsByLabel = Annotated[dict[str, Dollars], NoDecode, BeforeValidator(split_amounts)]
SecondsOrZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ApiKey(NamedTuple):
    """An API key: `label` if it has one, and the values that a client may send.

    `label:key` is accepted as a whole too, because a key without a label may contain a colon.
    """

    label: str | None
    values: tuple[str, ...]


class SchemaRegistry(NamedTuple):
    """A schema registry. `login` has the user name and password. If `registers`, the worker registers its schemas there."""

    url: str
    login: tuple[str, str] | None
    registers: bool


class LLMProviderSettings(BaseModel, extra="forbid", frozen=True):
    """One language model. Prices are in US dollars per million tokens; None: unknown (0 for kimi, ollama and vllm)."""

    name: str = Field(min_length=1, max_length=100)
    kind: LLMKindName = "openai"
    base_url: HttpUrl | None = None
    api_key: Key | None = None
    model: str = Field(min_length=1, max_length=200)
    price_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    price_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    context_tokens: int | None = Field(default=None, ge=1000)
    concurrency: int | None = Field(default=None, ge=1)
    sources_tokens: int | None = Field(default=None, ge=256)
    api_version: str | None = None
