"""Tuples of what a stranger's file lists."""

from typing import Annotated, TypeVar

from pydantic import FailFast

Item = TypeVar("Item")

FailFastTuple = Annotated[tuple[Item, ...], FailFast()]
"""A tuple whose validation ends at its first bad item: a small file can unpack to a million of them, each with several errors."""
