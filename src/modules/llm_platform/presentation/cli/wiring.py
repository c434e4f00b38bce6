"""What the commands need from above: they know the services, not who wires them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.presentation.kafka.parts import WorkerParts
    from shared.config import Settings


@dataclass(frozen=True, slots=True)
class Wiring:
    """Handed to the commands by the entry point; each part is imported when it is called, not before."""

    build_platform: Callable[[Settings], LLMPlatform]
    search_order: Callable[[Settings], tuple[str, ...]]  # names of the search providers that will be asked, in order
    has_model: Callable[[Settings], bool]
    serve: Callable[[Settings], None]  # until it is stopped
    worker_parts: Callable[[Settings], AbstractAsyncContextManager[WorkerParts]]
    search_providers: Callable[[], tuple[str, ...]] = tuple  # the names that `--provider` may have
    uses_fallback: Callable[[Settings], bool] = lambda settings: False  # whether queries go to the keyless web unasked

    def has_model_online(self, settings: Settings) -> bool:
        """Whether there would be a language model if the network could be used."""
        return self.has_model(settings.model_copy(update={"LLM_PLATFORM_OFFLINE": False}))


@contextmanager
def not_there(*names: str) -> Iterator[None]:
    """Inside, importing one of these modules fails as if it were not installed; those already imported stay.

    For libraries that look for others when they are imported, merely to know their classes. Only where no other thread
    imports: at the start of a process.
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is the import system's "not there"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
