"""A lazily compiled pattern behaves like a compiled one."""

from __future__ import annotations

import re

import pytest

from modules.llm_platform.domain.text.lazy_pattern import METHODS, lazy_pattern


def test_it_is_compiled_at_its_first_use() -> None:
    """An invalid pattern raises the error of `re` at its first use, not at its creation."""
    invalid = lazy_pattern("(")
    with pytest.raises(re.error):
        invalid.search("text")


@pytest.mark.parametrize("flags", [0, re.IGNORECASE])
def test_it_finds_what_the_compiled_one_finds(flags: int) -> None:
    """With its flags, and also after its first use."""
    compiled, late = re.compile("b+", flags), lazy_pattern("b+", flags)
    for _ in range(2):
        assert late.findall("abbBc") == compiled.findall("abbBc")
        assert late.sub("-", "abbBc") == compiled.sub("-", "abbBc")
        assert (late.pattern, late.flags) == (compiled.pattern, compiled.flags)
    with pytest.raises(AttributeError):
        late.unknown  # type: ignore[attr-defined]  # noqa: B018


def test_it_has_every_method_of_a_pattern() -> None:
    """`scanner` is not documented; groups are asked of a match."""
    public = {name for name in dir(re.compile("")) if not name.startswith("_")}
    assert public - set(METHODS) == {"groups", "groupindex", "scanner"}
