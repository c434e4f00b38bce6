"""Tells a client which fields of its body the route does not have: in a header, and in `degraded` of the answer.

The compatible interfaces report the fields of their vendors themselves (compat/dialect.py).
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from contextlib import aclosing
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from fastapi import Request
from pydantic import AliasChoices, BaseModel

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.presentation.rest.http.request_scope import ADD_HEADERS, IGNORED_FIELDS

HEADER: Final = "X-Ignored-Fields"  # The response header that names fields without effect.
NAMED_FIELDS: Final = 30
# The client chose the names. Clients and proxies refuse headers of some kilobytes.
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")

Answer = TypeVar("Answer", bound=BaseModel)


class IgnoredField(NamedTuple):
    """A field that the route does not have, and the field with the most similar name that it has, or None."""

    name: str
    meant: str | None


class IgnoredFields(NamedTuple):
    """The ignored fields of a body. `unnamed` counts fields beyond NAMED_FIELDS or with unsafe names."""

    named: Sequence[IgnoredField] = ()
    unnamed: int = 0

    def header(self) -> str:
        """Return the value of the header, such as `depht;meant=depth, colour, *;count=2`."""
        fields = [f"{name};meant={meant}" if meant else name for name, meant in self.named]
        return ", ".join([*fields, f"*;count={self.unnamed}"] if self.unnamed else fields)

    def degraded(self) -> Degraded:
        fields = [f"{name} (did you mean {meant}?)" if meant else name for name, meant in self.named]
        if self.unnamed:
            fields.append(f"and {self.unnamed} more" if fields else f"{self.unnamed} with other names")
        return Degraded(
            component="request", reason=f"ignored_fields: this route has no such fields: {', '.join(fields)}"
        )


def note_ignored_fields(request: Request, model: type[BaseModel], values: Mapping[str, Any]) -> None:
    """Report fields that `model` does not have, except nulls. A model that allows extra fields reports them itself."""
    if model.model_config.get("extra") == "allow":
        return
    known = _list_field_names(model)
    unknown = [name for name, value in values.items() if value is not None and name not in known]
    if not unknown:
        return
    safe = [name for name in unknown if _SAFE_NAME.fullmatch(name)][:NAMED_FIELDS]
    ignored = IgnoredFields([IgnoredField(name, _guess_meant(name, known)) for name in safe], len(unknown) - len(safe))
    request.scope[IGNORED_FIELDS] = ignored
    request.scope[ADD_HEADERS]((HEADER.lower().encode(), ignored.header().encode()))


def tell_ignored_fields(request: Request, answer: Answer) -> Answer:
    """Return the answer with an entry in its `degraded` for the ignored fields of the request, if there are any."""
    ignored: IgnoredFields | None = request.scope.get(IGNORED_FIELDS)
    if ignored is None:
        return answer
    entries: tuple[Degraded, ...] = getattr(answer, "degraded")  # noqa: B009
    return answer.model_copy(update={"degraded": (*entries, ignored.degraded())})


async def tell_in_last_event(request: Request, events: AsyncGenerator[Answer, None]) -> AsyncGenerator[Answer, None]:
    """Yield the events, with the ignored fields of the request in the answer of the last one (`done`)."""
    async with aclosing(events):
        async for event in events:
            answer = getattr(event, "response", None)
            yield (
                event if answer is None else event.model_copy(update={"response": tell_ignored_fields(request, answer)})
            )


def _guess_meant(name: str, known: Set[str]) -> str | None:
    # The names of our fields are in lower case: `maxTokens` is near `max_tokens`.
    return next(iter(get_close_matches(name.lower(), known, 1)), None)


@cache
def _list_field_names(model: type[BaseModel]) -> Set[str]:
    """Return the names under which a body may have the fields of the model.

    The schema lacks fields that the platform sets itself, and has only one name of a field with several.
    """
    aliases = (info.validation_alias for info in model.model_fields.values())
    choices = (choice for alias in aliases if isinstance(alias, AliasChoices) for choice in alias.choices)
    return frozenset(
        {*model.model_json_schema()["properties"], *(choice for choice in choices if isinstance(choice, str))}
    )
