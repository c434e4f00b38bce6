"""Check the prompt that a request becomes for a language model, with errors that name what the client sent."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import to_json

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError

Place = tuple[str | int, ...]
Locate = Callable[[int, str], Place]


def validate_prompt(
    values: Mapping[str, Any], locate: Locate, field: str = "messages", names: Mapping[str, str] | None = None
) -> LLMRequest:
    """Return the prompt.

    - `locate` returns the place in the body for a message of the prompt, by its number, and for one of its fields.
    - `field` is the name of the conversation in the body.
    - `names` has the names of the fields in `extra`, where the API has others than chat completions.

    Raises InvalidRequestError.
    """
    try:
        return validate(LLMRequest, values, "body")
    except InvalidRequestError as error:
        for problem in error.errors:
            problem["loc"][1:] = _find_sent_place(problem["loc"][1:], values["extra"], locate, field, names or {})
        raise


def _find_sent_place(
    location: list[str | int], extra: Mapping[str, Any], locate: Locate, field: str, names: Mapping[str, str]
) -> Place:
    match location:
        case ["messages", int(number), str(name), *_]:
            return locate(number, name)
        case ["messages", *_]:
            return (field,)
        case ["extra", *_] if extra:  # They are too long together: the longest one is the reason.
            longest = max(extra, key=lambda name: len(to_json(extra[name])))
            return (names.get(longest, longest),)
        case _:
            return tuple(location)
