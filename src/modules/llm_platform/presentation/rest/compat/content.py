"""Read the content of a message: a text, or parts. A research run reads texts. A language model gets images and files, too."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from modules.llm_platform.domain.dtos.llm_dtos import MAX_PARTS
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError

PART_TYPE_CHARS: Final = 100
TEXTS: Final = ("text", "input_text", "output_text")


class ContentPart(BaseModel, extra="allow", frozen=True):
    """A part of a message: a text, or for a language model an image, a sound or a file, with its data."""

    type: Annotated[str, Field(max_length=PART_TYPE_CHARS)]
    text: str | None = None

    @model_validator(mode="after")
    def _require_text(self) -> "ContentPart":
        if self.type in TEXTS and self.text is None:
            raise PydanticCustomError("content", "needs a text")
        return self


_Parts = Annotated[tuple[ContentPart, ...], Field(max_length=MAX_PARTS)]
_PARTS: Final = TypeAdapter(_Parts)


def _check_text_or_parts(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Validate a content by its kind, so that an error of a list has the place of the part alone."""
    return _PARTS.validate_python(value) if isinstance(value, list) else handler(value)


Content = Annotated[str | _Parts, WrapValidator(_check_text_or_parts)]


def join_text(content: str | Sequence[ContentPart]) -> str:
    return content if isinstance(content, str) else "\n".join(part.text or "" for part in content if part.type in TEXTS)


def require_text(content: str | Sequence[ContentPart] | None, *location: str | int) -> None:
    """Raise InvalidRequestError for a part that is not a text. `location` is the place of the content in the body."""
    for number, part in enumerate(() if isinstance(content, str) else content or ()):
        if part.type not in TEXTS:
            raise InvalidRequestError.at(
                ("body", *location, number, "type"), "must be 'text', 'input_text' or 'output_text'", "literal_error"
            )


def convert_for_model(content: str | Sequence[ContentPart] | None) -> dict[str, Any]:
    if content is None or isinstance(content, str) or all(part.type in TEXTS for part in content):
        return {"content": "" if content is None else join_text(content)}
    return {"content": join_text(content), "parts": [_convert_part(part) for part in content]}


def _convert_part(part: ContentPart) -> dict[str, Any]:
    """Return a part of any of OpenAI's APIs in the form of chat completions.

    An unknown part does not change: the check of the prompt refuses it.
    """
    more: Mapping[str, Any] = part.model_extra or {}
    if part.type in TEXTS:
        return {"type": "text", "text": part.text}
    if part.type in ("image_url", "input_image"):
        image = more.get("image_url")
        detail = {"detail": more["detail"]} if isinstance(more.get("detail"), str) else {}
        return {"type": "image_url", "image_url": image if isinstance(image, dict) else {"url": image, **detail}}
    if part.type == "input_file":
        return {
            "type": "file",
            "file": {name: more[name] for name in ("filename", "file_data", "file_id") if name in more},
        }
    if part.type == "refusal":
        return {"type": "text", "text": str(more.get("refusal", ""))}
    return {"type": part.type, **more}
