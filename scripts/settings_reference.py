"""The texts of .env.example and docs/reference/settings.md, made from shared.config.Settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import SecretStr

from modules.llm_platform.infrastructure.search.from_settings.providers import (
    SEARCH_PROVIDERS,
    SearchProviderSpec,
    list_provider_names,
)
from shared.config import FIRST_SETTINGS, SECTIONS, Settings, example_line, variable_names
from shared.setting_names import format_value

WIDTH = 100  # columns of a comment
PROVIDERS = "SEARCH_PROVIDERS"
PROVIDERS_HEAD = """
The search providers, in the order of `auto`. A provider that does not support a requested source searches another one
and reports that in `degraded`. `llm-platform doctor` sends a search to a paid provider only with `--yes`.

| provider | description | sources | used by `auto` if | paid |
|---|---|---|---|---|
"""

ENV_HEAD = """\
# Copy this file to .env and remove the # before the settings that you change. Written by `make docs`.
# Environment variables take precedence over this file. Empty values count as not set. Do not commit keys.
"""
REFERENCE_HEAD = """\
# Settings

Every setting is an environment variable. Precedence: argument, environment, `.env` of the working directory, default.
If a setting has two names, the first one takes precedence. An empty variable counts as not set. An unknown variable with
the prefix of a setting causes a warning. An invalid value stops the start; the message names the variable, the reason and
an example. A former setting that another one replaces stops the start too, and the message names the replacement.
`llm-platform config` shows the effective settings and where each was set.

In Python the fields have the same names: `Settings(BOCHA_API_KEY="…")`.

<!-- Written by `make docs`; do not edit. -->

## The first settings

Nothing has to be set. These are the settings that most installations need; all of them are explained below.

| name | set it if |
|---|---|
"""


def sections() -> Mapping[str, list[str]]:
    """Return the fields by section, in the order of the class."""
    found: dict[str, list[str]] = {}
    heading = ""
    for name in Settings.model_fields:
        heading = SECTIONS.get(name, heading)
        found.setdefault(heading, []).append(name)
    return found


def default_of(name: str) -> str:
    """Return the default as it is written in a variable; empty if there is none."""
    if name == PROVIDERS:
        return "auto"
    return format_value(Settings.model_fields[name].get_default(call_default_factory=True))


def description_of(name: str) -> str:
    """Return the description of a setting; the provider names come from the table of providers."""
    text = Settings.model_fields[name].description or ""
    return f"{text}. Providers: {', '.join(list_provider_names())}" if name == PROVIDERS else text


def condition_of(name: str) -> str:
    """Return who sets a setting and why, as the rest of "Set it if"."""
    extra = Settings.model_fields[name].json_schema_extra
    return str(extra["set_if"]) if isinstance(extra, dict) else ""


def is_secret(name: str) -> bool:
    """Return whether the field is a secret."""
    return SecretStr.__name__ in str(Settings.model_fields[name].annotation)


def env_example() -> str:
    """Return the text of .env.example: every setting, commented out, with its default or an example."""
    return ENV_HEAD + "".join(_env_lines())


def _env_lines() -> Iterator[str]:
    for heading, names in sections().items():
        yield f"\n# --- {heading} ---\n"
        for name in names:
            yield from _wrapped(f"{description_of(name)}. Set it if {condition_of(name)}.")
            aliases = variable_names(name)[1:]
            if aliases:
                yield f"# (alias: {', '.join(aliases)})\n"
            yield f"#{_assignment(name)}\n"


def _assignment(name: str) -> str:
    if default := default_of(name):
        return f"{name}={_quoted(default)}"
    if is_secret(name):
        return f"{name}="
    value = example_line(name).partition("=")[2]
    return f"{name}={_quoted(value)}"


def _quoted(value: str) -> str:
    return f"'{value}'" if set(value) & set(' "#') else value


def _wrapped(text: str) -> Iterator[str]:
    line = "#"
    for word in text.split():
        if len(line) + len(word) >= WIDTH:
            yield f"{line}\n"
            line = "#"
        line += f" {word}"
    yield f"{line}\n"


def reference() -> str:
    """Return the text of docs/reference/settings.md: the first settings, then one table per section."""
    first = "".join(f"| `{name}` | {condition_of(name)} |\n" for name in FIRST_SETTINGS)
    return REFERENCE_HEAD + first + "".join(_tables())


def _tables() -> Iterator[str]:
    for heading, names in sections().items():
        yield f"\n## {heading}\n\n| name (alias) | default | description | set it if |\n|---|---|---|---|\n"
        for name in names:
            first, *aliases = (f"`{variable}`" for variable in variable_names(name))
            default = default_of(name)
            description = description_of(name).replace("|", "\\|")
            named = first + (f" ({', '.join(aliases)})" if aliases else "")
            yield f"| {named} | {f'`{default}`' if default else 'none'} | {description} | {condition_of(name)} |\n"
        if PROVIDERS in names:
            yield PROVIDERS_HEAD
            yield from map(_provider_row, SEARCH_PROVIDERS)


def _provider_row(spec: SearchProviderSpec) -> str:
    chosen = f"`{spec.settings[0]}` is set" if spec.settings else "no other provider is configured"
    chosen = f"never: name it, and set `{spec.settings[0]}`" if spec.named_only else chosen
    kinds, paid = ", ".join(spec.source_kinds), "yes" if spec.paid else "no"
    return f"| `{spec.name}` | {spec.label} | {kinds} | {chosen} | {paid} |\n"
