"""The port of mail to the operator: who gets it is a setting, never part of a request."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply


@dataclass(frozen=True, slots=True)
class Mail:
    """A message in plain text. `id` is the same at each attempt, so that a mail server can recognise a repetition."""

    id: str
    subject: str
    text: str


class IMailSender(ABC):
    """Sends mail to the recipients of the settings."""

    @abstractmethod
    async def send(self, mail: Mail) -> DeliveryReply:
        """Send the mail once. Its failure is a reply, not an error.

        It is delivered if the server takes it for one recipient: the others are logged, and not tried again.
        """
