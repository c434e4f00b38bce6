"""The port of webhooks: requests to addresses that callers of the platform chose."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeliveryReply:
    """The result of one attempt to deliver a message.

    - `is_final` is True if another attempt would not succeed.
    - `reason` is for the log, without the address.
    """

    is_delivered: bool
    reason: str
    is_final: bool = False
    retry_after_s: float = 0.0


class IWebhookSender(ABC):
    """Sends to addresses on the public internet and to those that the operator allowed, and follows no redirect."""

    @abstractmethod
    async def check(self, url: str) -> None:
        """Raise WebhookError if nothing may be sent there."""

    @abstractmethod
    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        """Send one POST request with a JSON body. Its failure is a reply, not an error."""
