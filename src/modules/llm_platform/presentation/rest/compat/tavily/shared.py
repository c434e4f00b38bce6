"""The common part of the routes of Tavily's API."""

import time
from typing import Annotated, Any, Final, Literal

from fastapi import Request
from pydantic import ConfigDict, Field, model_validator

from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_server_state, request_id

Endpoint = Literal["search", "extract", "crawl", "map", "research"]
ENDPOINTS: Final[tuple[Endpoint, ...]] = ("search", "extract", "crawl", "map", "research")


def _admit_nulls(schema: dict[str, Any]) -> None:
    """Describe what `_without_nulls` takes away."""
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()) and {"type": "null"} not in field.get("anyOf", ()):
            default = {"default": field.pop("default")} if "default" in field else {}
            schema["properties"][name] = {"anyOf": [field, {"type": "null"}], **default}


class TavilyBody(dialect.StringValuesBody, frozen=True):
    """A request. Clients send null for what they leave out. Older ones send `api_key`, which the middleware reads."""

    model_config = ConfigDict(json_schema_extra=_admit_nulls)

    api_key: str | None = Field(default=None, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: object) -> object:
        return (
            {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else values
        )


class TavilyDomains(TavilyBody, frozen=True):
    """A request that can be restricted to sites, and leave sites out."""

    include_domains: dialect.Sites | None = None
    exclude_domains: Annotated[dialect.Sites | None, dialect.limit_sites_with("include_domains")] = None

    @property
    def domains(self) -> tuple[str, ...]:
        return dialect.join_domains(self.include_domains, self.exclude_domains)


def count_call(request: Request, endpoint: Endpoint) -> None:
    """Count a call of the API key for `/tavily/usage`."""
    get_server_state(request).calls[get_caller_id(request), f"tavily/{endpoint}"] += 1


def make_footer(request: Request, began: float) -> dict[str, Any]:
    return {"response_time": round(time.perf_counter() - began, 3), "request_id": request_id(request)}
