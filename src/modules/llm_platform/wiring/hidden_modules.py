"""Keeps optional imports of libraries out of processes that do not use them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hide_modules(*names: str) -> Iterator[None]:
    """In the block, importing one of these modules fails as if it were not installed; imported ones stay.

    Only for the start of a process: no other thread may import meanwhile.
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None makes the import system fail
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
