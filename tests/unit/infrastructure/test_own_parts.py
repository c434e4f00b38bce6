"""A model or page reader of a caller is guarded, and keeps the abilities that it has beside its port."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from tests.support.cases import for_each

from modules.llm_platform.infrastructure.models.own_model import OPTIONAL, OwnModel
from modules.llm_platform.infrastructure.pages.own_page_reader import OwnPageReader
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
        (lambda: OwnModel(AbleModel()), ("context_tokens", "begin_loading", "ping")),
        (lambda: OwnPageReader(AbleReader({})), ("ping",)),
    ],
)
async def test_abilities_are_found_as_isinstance_looks_for_them(
    part: Callable[[], OwnModel | OwnPageReader], names: tuple[str, ...]
) -> None:
    """Since Python 3.12 a protocol that is checked at run time ignores `__getattr__`."""
    guarded = part()
    assert [name for name in names if not callable(inspect.getattr_static(guarded, name, None))] == []
    assert await guarded.ping() == "mine"


@for_each("name", OPTIONAL)
def test_no_ability_is_made_up(name: str) -> None:
    """A model without a health check is not asked for one."""
    assert not hasattr(OwnModel(FakeLLM()), name) or hasattr(FakeLLM, name)
