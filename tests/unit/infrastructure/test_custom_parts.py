"""A custom model or page reader is guarded, and keeps its abilities in addition to the port."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest, LLMResponse, LLMStreamPart, LLMToken
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import LLMException, PageError
from modules.llm_platform.infrastructure.models.custom_model import OPTIONAL, CustomModel
from modules.llm_platform.infrastructure.pages.custom_page_reader import CustomPageReader
from modules.llm_platform.testing import FakeLLM, FakePageReader


class AbleModel(FakeLLM):
    async def ping(self) -> str:
        return "mine"

    async def context_tokens(self) -> int | None:
        return 8000

    def begin_loading(self) -> None:
        return


class AbleReader(FakePageReader):
    async def ping(self) -> str:
        return "mine"


@for_each(
    ("part", "names"),
    [
        (lambda: CustomModel(AbleModel()), ("context_tokens", "begin_loading", "ping")),
        (lambda: CustomPageReader(AbleReader({})), ("ping",)),
    ],
)
async def test_abilities_are_found_as_isinstance_looks_for_them(
    part: Callable[[], CustomModel | CustomPageReader], names: tuple[str, ...]
) -> None:
    """Since Python 3.12 a protocol that is checked at run time ignores `__getattr__`."""
    guarded = part()
    assert [name for name in names if not callable(inspect.getattr_static(guarded, name, None))] == []
    assert await guarded.ping() == "mine"


@for_each("name", OPTIONAL)
def test_no_ability_is_made_up(name: str) -> None:
    """A model without a health check is not asked for one."""
    assert not hasattr(CustomModel(FakeLLM()), name) or hasattr(FakeLLM, name)


class CancelledModel(FakeLLM):
    async def generate(self, request: LLMRequest) -> LLMResponse:
        raise asyncio.CancelledError

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        yield LLMToken(text="Words")
        raise asyncio.CancelledError


class CancelledReader(FakePageReader):
    async def read(self, url: str) -> Page:
        raise asyncio.CancelledError


async def test_a_cancelled_error_of_a_part_is_an_error() -> None:
    """A CancelledError raised by the part itself becomes an error of its port, and the run continues without the part."""
    request = LLMRequest(messages=(ChatMessage(role="user", content="What is it?"),))
    model = CustomModel(CancelledModel())
    with pytest.raises(LLMException):
        await model.generate(request)
    with pytest.raises(LLMException):
        [part async for part in model.stream(request)]
    with pytest.raises(PageError):
        await CustomPageReader(CancelledReader({})).read("https://a.example/")


async def test_a_cancelled_task_is_cancelled() -> None:
    """The cancellation of a task that calls a part passes through."""
    request = LLMRequest(messages=(ChatMessage(role="user", content="What is it?"),))
    call = asyncio.create_task(CustomModel(FakeLLM(["Words."], delay_s=60)).generate(request))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
