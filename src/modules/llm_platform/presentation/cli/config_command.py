"""The command `config`: every setting, its value, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import SecretStr

from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import SECRET_MIN_CHARS, SECTIONS, Place, Settings, origin, unknown_variables, written

NAME_WIDTH = 26
SET = "(set)"


class Shown(NamedTuple):
    """One setting as it may be seen. `variable` is the name that it came by, which may be its second one."""

    name: str
    value: str
    origin: Place
    variable: str


def show(console: Console, wiring: Wiring, arguments: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the settings of this process; warnings go to standard error."""
    settings = Settings.load(**arguments)
    wiring.search_order(settings)  # names of providers are checked where these are known
    if as_json:
        from modules.llm_platform.presentation.cli.render_json import dumped

        console.verbatim(dumped({"settings": [each._asdict() for each in effective(settings, arguments)]}))
    else:
        console.lines(_lines(settings, arguments))
    for warning in warnings(settings):
        console.warn(warning)


def effective(settings: Settings, arguments: Mapping[str, Any]) -> Iterator[Shown]:
    """Every setting in the order of the documentation, without a secret."""
    for name in Settings.model_fields:
        variable, place = origin(name, arguments)
        yield Shown(name, _seen(name, getattr(settings, name)), place, variable)


def warnings(settings: Settings) -> list[str]:
    """What is likely to be a mistake: variables that are none of ours, secrets too short to be kept out of a text."""
    short = [
        f"{name} is shorter than {SECRET_MIN_CHARS} characters: it is not searched for in what is printed or logged"
        for name in Settings.model_fields
        for secret in _secrets(getattr(settings, name))
        if 0 < len(secret.get_secret_value()) < SECRET_MIN_CHARS
    ]
    return [*unknown_variables(), *dict.fromkeys(short)]


def _lines(settings: Settings, arguments: Mapping[str, Any]) -> Iterator[Line]:
    for each in effective(settings, arguments):
        if heading := SECTIONS.get(each.name):
            yield Line()
            yield Line(heading, "bold")
        where = each.origin if each.variable == each.name else f"{each.origin}, as {each.variable}"
        text = f"  {each.name:<{NAME_WIDTH}} {each.value or '-'}  ({where})"
        yield Line(text, "dim" if each.origin == "default" else "")


def _seen(name: str, value: Any) -> str:
    if secrets := _secrets(value):
        return SET if any(secret.get_secret_value() for secret in secrets) else ""
    if name == "SEARCH_PROVIDERS" and not value:
        return "auto"
    return written(value)


def _secrets(value: Any) -> list[SecretStr]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
    return [each for each in values if isinstance(each, SecretStr)]
