"""The command `config`, which prints the settings, their values and their origins."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import typer
from pydantic import SecretStr

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Line
from modules.llm_platform.presentation.cli.output import print_result
from modules.llm_platform.presentation.cli.setup import get_command_context
from shared.config import SECRET_MIN_CHARS, SECTIONS, Settings, setting_origin, unknown_variables
from shared.setting_names import SettingOrigin, format_value

NAME_WIDTH = max(map(len, Settings.model_fields))
SET = "(set)"


class SettingValue(NamedTuple):
    """One setting without its secret. `variable` is the name that it was set by, which may be its second name."""

    name: str
    value: str
    origin: SettingOrigin
    variable: str


def config(
    ctx: typer.Context,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: options.PlainJson = False,
) -> None:
    """Show every setting and where it comes from."""
    console, wiring = get_command_context(ctx)
    arguments = options.make_setting_arguments(provider=provider, documents=documents, offline=offline)
    settings = Settings.load(**arguments)
    wiring.search_order(settings)  # Raises SettingsError for an unknown provider.
    values = [value._asdict() for value in list_setting_values(settings, arguments)]
    print_result(console, {"settings": values}, _describe_settings(settings, arguments), as_json=as_json)
    for warning in list_setting_warnings(settings):
        console.warn(warning)


def list_setting_values(settings: Settings, arguments: Mapping[str, Any]) -> Iterator[SettingValue]:
    """Yield the value of each setting, in the order of the documentation."""
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if secrets := _find_secrets(value):
            text = SET if any(secret.get_secret_value() for secret in secrets) else ""
        else:
            text = "auto" if name == "SEARCH_PROVIDERS" and not value else format_value(value)
        variable, value_origin = setting_origin(name, arguments)
        yield SettingValue(name, text, value_origin, variable)


def list_setting_warnings(settings: Settings) -> list[str]:
    """Return likely mistakes: unknown variables, secrets too short to be redacted, API keys that can be guessed."""
    too_short = [
        f"{name} is shorter than {SECRET_MIN_CHARS} characters, so it is not removed from answers and logs: use a longer one"
        for name in Settings.model_fields
        for secret in _find_secrets(getattr(settings, name))
        if 0 < len(secret.get_secret_value()) < SECRET_MIN_CHARS
    ]
    return [*unknown_variables(), *dict.fromkeys(too_short), *settings.api_key_warnings()]


def _describe_settings(settings: Settings, arguments: Mapping[str, Any]) -> Iterator[Line]:
    for setting in list_setting_values(settings, arguments):
        if heading := SECTIONS.get(setting.name):
            yield Line()
            yield Line(heading, "bold")
        alias = "" if setting.variable == setting.name else f", as {setting.variable}"
        text = f"  {setting.name:<{NAME_WIDTH}} {setting.value or '-'}  ({setting.origin}{alias})"
        yield Line(text, "dim" if setting.origin == "default" else "")


def _find_secrets(value: Any) -> list[SecretStr]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
    return [secret for secret in values if isinstance(secret, SecretStr)]
