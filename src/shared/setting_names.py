"""Functions for the names and values of environment variables, and for errors that name a variable."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from dotenv.parser import parse_stream
from pydantic import AliasChoices, BaseModel, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource

SettingOrigin = Literal["argument", "environment", ".env", "default"]
Fields = Mapping[str, FieldInfo]

# First words that other programs also use in variables. A prefix that begins with one of them has two words.
SHARED_WORDS = frozenset({
    "ALLOWED", "ANTHROPIC", "AZURE", "CORS", "DATABASE", "LOG", "MAX", "RATE", "READ", "REDIS", "UPSTREAM", "WATCH",
    "WEBHOOK",
})  # fmt: skip
_OPTION = "{} of KAFKA_CONFIG, which may be the path of a JSON file"
REPLACED: Mapping[str, str] = {  # maps a former setting to its replacement; while it is set, the program does not start
    "KAFKA_SECURITY_PROTOCOL": _OPTION.format("security.protocol"),
    "KAFKA_SSL_CA_FILE": _OPTION.format("ssl.ca.location"),
    "KAFKA_SSL_CERTIFICATE_FILE": _OPTION.format("ssl.certificate.location"),
    "KAFKA_SSL_KEY_FILE": _OPTION.format("ssl.key.location"),
    "KAFKA_SSL_KEY_PASSWORD_FILE": _OPTION.format("ssl.key.password"),
    "KAFKA_SASL_MECHANISM": _OPTION.format("sasl.mechanism"),
    "KAFKA_SASL_USERNAME": _OPTION.format("sasl.username"),
    "KAFKA_SASL_PASSWORD": _OPTION.format("sasl.password"),
    "KAFKA_SASL_PASSWORD_FILE": _OPTION.format("sasl.password"),
    "KAFKA_TOPICS": _OPTION.format("topic.rag_search_request and the like"),
    "SCHEMA_REGISTRY_URL": _OPTION.format("schema.registry.url"),
    "SCHEMA_REGISTRY_USERNAME": _OPTION.format("schema.registry.basic.auth.user.info (user:password)"),
    "SCHEMA_REGISTRY_PASSWORD": _OPTION.format("schema.registry.basic.auth.user.info (user:password)"),
    "SCHEMA_REGISTRY_REGISTER": _OPTION.format("auto.register.schemas"),
    "BUDGET_USD_PER_DAY_PER_KEY": "BUDGET_USD_PER_DAY, as in *=1,alice=3",
    "LLM_PRICES": "price_in and price_out of the model in LLM_PROVIDERS",
    "LLM_CONCURRENCY": "concurrency of the model in LLM_PROVIDERS",
    "READER_ROBOTS": "READERS=direct-robots, or jina,direct-robots",
    "FAILED_REQUESTS_MAX_MB": "`llm-platform worker --keep-failed` instead",
    "RAG_TIMEOUT_S": "RESEARCH_TIMEOUT_S",
}
FIXED: Mapping[str, str] = {  # maps a former setting to its fixed value; it is ignored with a warning
    "FAILED_REQUESTS_TTL_DAYS": "1",
    "KAFKA_STALL_S": "30",
    "READER_TIMEOUT_S": "20",
    "REPORT_QUERIES_PER_LANGUAGE": "1",
    "REPORT_READ_EARLY": "false",
}
_URL_USER = re.compile(r"://[^\s/@]+@")
_PYDANTIC_SHOULD = re.compile(r"^(?:Input|String|Value|Tuple|List|Dictionary|URL) should\b")


def setting(
    default: Any,
    description: str,
    set_if: str,
    *,
    names: tuple[str, ...] = (),
    example: str | None = None,
    command: str | None = None,
    **options: Any,
) -> Any:
    """Return the field of a setting.

    - `set_if` says who sets it and why. It is the rest of "Set it if", and begins with "you".
    - `names` are all its variables if there are several. The first one takes precedence.
    - `command` prints a valid value of a secret that only some texts are. An example would be copied, and then known to all.
    """
    return Field(
        default,
        description=description,
        json_schema_extra={"set_if": set_if, "command": command},
        validation_alias=AliasChoices(*names) if names else None,
        examples=None if example is None else [example],
        **options,
    )


def list_names(fields: Fields, field: str) -> tuple[str, ...]:
    """Return the variables that set a field, the one with precedence first."""
    alias = fields[field].validation_alias
    return tuple(str(choice) for choice in alias.choices) if isinstance(alias, AliasChoices) else (field,)


def known_names(fields: Fields) -> set[str]:
    """Return all variables of all settings."""
    return {name for field in fields for name in list_names(fields, field)}


def prefixes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes of the names: `BRAVE_` of BRAVE_API_KEY, and `AZURE_OPENAI_`, which begins with a shared word."""
    known = set(names)
    words = [name.split("_") for name in known]
    starts = {"_".join(parts[: 2 if parts[0] in SHARED_WORDS else 1]) for parts in words}
    return tuple(sorted(start if start in known else f"{start}_" for start in starts))


def read_variables(table: type[BaseSettings]) -> Mapping[SettingOrigin, Mapping[str, str | None]]:
    """Return the variables of the process and of `.env`, without empty ones."""
    return {"environment": EnvSettingsSource(table).env_vars, ".env": DotEnvSettingsSource(table).env_vars}


def find_origin(table: type[BaseSettings], field: str, arguments: Mapping[str, Any]) -> tuple[str, SettingOrigin]:
    """Return the name that set a field and where it was set."""
    sources: Mapping[SettingOrigin, Mapping[str, Any]] = {"argument": arguments, **read_variables(table)}
    names = list_names(table.model_fields, field)
    return next(
        ((name, source) for source, held in sources.items() for name in names if name in held), (field, "default")
    )


def unreadable_lines(path: Path, encoding: str | None) -> Iterator[int]:
    """Yield the number of each line of `.env` that is not an assignment."""
    if not path.is_file():
        return
    with path.open(encoding=encoding) as file:
        for binding in parse_stream(file):
            if binding.error:
                text = binding.original.string
                blank = text[: len(text) - len(text.lstrip())]
                yield binding.original.line + blank.count("\n")


# --- values ----------------------------------------------------------------------------------------------------------------


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


def make_example(fields: Fields, field: str) -> str:
    """Return `NAME=value` with a valid value."""
    info = fields[field]
    return f"{field}={info.examples[0] if info.examples else format_value(info.get_default(call_default_factory=True))}"


# --- errors ----------------------------------------------------------------------------------------------------------------


def former_settings(names: Iterable[str]) -> list[str]:
    """Return an error for each former setting that was replaced and would have changed the behaviour."""
    return [f"{name} {_former_message(name)}" for name in sorted(names) if name in REPLACED]


def unknown_settings(names: set[str], known: set[str]) -> list[str]:
    """Return a warning for each unknown name that has a prefix of a setting, with the most similar setting."""
    watched = prefixes(known)
    unknown = sorted(name for name in names - known if name in FIXED or name.upper().startswith(watched))
    return [f"{name} {unknown_message(name, known)}" for name in unknown if name not in REPLACED]


def unknown_message(name: str, known: set[str]) -> str:
    from difflib import get_close_matches

    if name in REPLACED or name in FIXED:
        return _former_message(name)
    nearest = get_close_matches(name.upper(), sorted(known), 1)
    return "is not a setting" + "".join(f"; did you mean {name}?" for name in nearest)


def _former_message(name: str) -> str:
    if name in FIXED:
        return f"is not a setting any more: the value is always {FIXED[name]}"
    return f"is not a setting any more: set {REPLACED[name]}"


def error_detail(kind: str, name: str, message: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(kind, "{message}", {"message": message}), loc=(name,), input=None)


def rewrite_error(error: ValidationError, table: type[BaseSettings], arguments: Mapping[str, Any]) -> ValidationError:
    """Return the error with messages that name the variable, the reason and an example, but not the value."""
    return ValidationError.from_exception_data(
        error.title,
        [_rewrite_detail(dict(detail), table, arguments) for detail in error.errors(include_input=False)],
        hide_input=True,
    )


def _rewrite_detail(
    detail: Mapping[str, Any], table: type[BaseSettings], arguments: Mapping[str, Any]
) -> InitErrorDetails:
    first, *rest = detail["loc"]
    field = next(name for name in table.model_fields if first in list_names(table.model_fields, name))
    position = ".".join(str(part) for part in rest if part != "[key]")
    inside = f"({position}) " if len(rest) > 1 else ""  # JSON values need it, comma-separated lists do not
    shown = make_example(table.model_fields, field)
    if shown.endswith("="):  # a secret has no default and no example
        shown += _describe_secret(table.model_fields[field])
    message = f"{inside}{_plain_message(detail['type'], detail['msg'])}. Example: {shown}"
    return error_detail(detail["type"], find_origin(table, field, arguments)[0], message)


def _describe_secret(info: FieldInfo) -> str:
    """Return an example of a secret, or how to make one. A shell would run a command anew at each start, and .env never."""
    command = info.json_schema_extra.get("command") if isinstance(info.json_schema_extra, dict) else None
    return f" followed by what `{command}` prints once" if command else "your-key"


def _plain_message(kind: str, text: str) -> str:
    if kind.startswith("bool"):
        return "must be true or false"
    known = {"missing": "is missing", "extra_forbidden": "is not known"}
    return known.get(kind) or _PYDANTIC_SHOULD.sub(
        "must", text.removeprefix("Value error, ").partition(", unable to")[0]
    )
