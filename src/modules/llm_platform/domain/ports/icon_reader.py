"""The port of readers of the icons of sites."""

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Icon:
    """An image without scripts; its media type matches its bytes."""

    media_type: str
    data: bytes


class IIconReader(ABC):
    """Reads the icon of the site of a page whose address may be untrusted."""

    @abstractmethod
    async def read(self, url: str) -> Icon | None:
        """Return the icon; None where the site has none, or none that may be read. Raises nothing."""
