"""Writes .env.example and docs/reference/settings.md from shared.config.Settings; --check fails when they are stale."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import SecretStr

from modules.llm_platform.wiring.search import SEARCH_PROVIDERS, SearchProviderSpec, provider_names
from shared.config import SECTIONS, Settings, example, variable_names, written

ROOT = Path(__file__).resolve().parent.parent
ENV_EXAMPLE = ROOT / ".env.example"
REFERENCE = ROOT / "docs" / "reference" / "settings.md"
COMMAND = "python scripts/settings_reference.py"
WIDTH = 100  # columns of a comment
PROVIDERS = "SEARCH_PROVIDERS"
PROVIDERS_HEAD = """
The search providers, in the order of `auto`. One that is asked for a kind of source that it does not serve searches what
it has and says so in `degraded`; `llm-platform doctor` tries one that costs money only with `--yes`.

| provider | what it is | serves | `auto` takes it when | costs money |
|---|---|---|---|---|
"""

ENV_HEAD = f"""\
# Copy this file to .env and remove the # before what you set. Made by `{COMMAND}`.
# The environment wins over this file. What is empty counts as not set. Keep keys out of version control.
"""
REFERENCE_HEAD = f"""\
# Settings

Every setting is an environment variable. Precedence: argument, environment, `.env` of the working directory, default.
Where a setting has two names, the first one wins. An empty variable counts as not set. A variable that bears one of
our prefixes and is no setting is named in a warning; a value that cannot be read stops the start with the variable's
name, what is wrong and an example. `llm-platform config` shows what is in force and where it comes from.

In Python the same names are fields: `Settings(BOCHA_API_KEY="…")`.

<!-- Made by `{COMMAND}`; do not edit. -->
"""


def sections() -> Mapping[str, list[str]]:
    """Heading to fields, in the order of the class."""
    found: dict[str, list[str]] = {}
    heading = ""
    for name in Settings.model_fields:
        heading = SECTIONS.get(name, heading)
        found.setdefault(heading, []).append(name)
    return found


def default_of(name: str) -> str:
    """The default as it stands in a variable; empty where there is none."""
    if name == PROVIDERS:
        return "auto"
    return written(Settings.model_fields[name].get_default(call_default_factory=True))


def description_of(name: str) -> str:
    """What a setting is for; the names of the providers come from the table that knows them."""
    text = Settings.model_fields[name].description or ""
    return f"{text}. Providers: {', '.join(provider_names())}" if name == PROVIDERS else text


def is_secret(name: str) -> bool:
    """Whether the field holds a secret."""
    return SecretStr.__name__ in str(Settings.model_fields[name].annotation)


def env_example() -> str:
    """The text of .env.example: every setting commented out, at its default or with an example."""
    return ENV_HEAD + "".join(_env_lines())


def _env_lines() -> Iterator[str]:
    for heading, names in sections().items():
        yield f"\n# --- {heading} ---\n"
        for name in names:
            yield from _wrapped(description_of(name))
            also = variable_names(name)[1:]
            if also:
                yield f"# (also read: {', '.join(also)})\n"
            yield f"#{_assignment(name)}\n"


def _assignment(name: str) -> str:
    if default := default_of(name):
        return f"{name}={_quoted(default)}"
    if is_secret(name):
        return f"{name}="
    value = example(name).partition("=")[2]
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
    """The text of docs/reference/settings.md: one table for each section."""
    return REFERENCE_HEAD + "".join(_tables())


def _tables() -> Iterator[str]:
    for heading, names in sections().items():
        yield f"\n## {heading}\n\n| name (also read) | default | what |\n|---|---|---|\n"
        for name in names:
            first, *also = (f"`{each}`" for each in variable_names(name))
            default = default_of(name)
            what = description_of(name).replace("|", "\\|")
            named = first + (f" ({', '.join(also)})" if also else "")
            yield f"| {named} | {f'`{default}`' if default else 'none'} | {what} |\n"
        if PROVIDERS in names:
            yield PROVIDERS_HEAD
            yield from map(_provider_row, SEARCH_PROVIDERS)


def _provider_row(spec: SearchProviderSpec) -> str:
    chosen = f"`{spec.settings[0]}` is set" if spec.settings else "nothing else is configured"
    kinds, paid = ", ".join(spec.source_kinds), "yes" if spec.paid else "no"
    return f"| `{spec.name}` | {spec.label} | {kinds} | {chosen} | {paid} |\n"


def main(arguments: list[str]) -> int:
    """Write both files, or with --check say which is stale."""
    wanted = {ENV_EXAMPLE: env_example(), REFERENCE: reference()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run {COMMAND}", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
