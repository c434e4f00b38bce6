"""Whether the server is open, and what stands behind it."""

from __future__ import annotations

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest.errors import NotServingError


class Door:
    """One server's state: `platform` is there once it has started, `draining` is set when it begins to stop."""

    def __init__(self, platform: LLMPlatform | None = None) -> None:
        self.platform = platform
        self.draining = False

    @property
    def open(self) -> bool:
        return self.platform is not None and not self.draining

    def services(self) -> LLMPlatform:
        """What stands behind the door; NotServingError before it has started."""
        if self.platform is None:
            raise NotServingError
        return self.platform
