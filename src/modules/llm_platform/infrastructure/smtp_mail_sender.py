"""Mail through the SMTP server of WATCH_SMTP_URL, with a connection for each message."""

import asyncio
import base64
import logging
import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final
from urllib.parse import unquote, urlsplit

from modules.llm_platform.domain.ports.mail_sender import IMailSender, Mail
from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply
from modules.llm_platform.infrastructure.resources import is_loopback

log = logging.getLogger(__name__)

STEP_TIMEOUT_S: Final = 10.0  # limit for each reply of the server
SMTP_TIMEOUT_S: Final = 40.0  # limit for one attempt
PORTS: Final = {"smtp": 587, "smtps": 465}
MAX_SUBJECT_CHARS: Final = 150
LOGGED_IN: Final = 235  # status of the mail server


class SmtpMailSender(IMailSender):
    """Sends mail in a thread, because mail is rare.

    `smtps://` encrypts from the start. `smtp://` upgrades with STARTTLS, and sends nothing to a server that does not offer it,
    unless the server is on loopback.
    """

    def __init__(self, url: str, sender: str, recipients: Sequence[str]) -> None:
        parts = urlsplit(url)
        self._is_encrypted = parts.scheme == "smtps"
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        self._login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        self._is_local = is_loopback(url)
        self._sender = sender
        self._recipients = tuple(recipients)

    async def send(self, mail: Mail) -> DeliveryReply:
        try:
            async with asyncio.timeout(SMTP_TIMEOUT_S):
                refused = await asyncio.to_thread(self._send, self._write(mail))
        except TimeoutError:
            return DeliveryReply(
                is_delivered=False, reason=f"the mail server did not answer within {SMTP_TIMEOUT_S:g} s"
            )
        except smtplib.SMTPResponseException as error:  # its text may repeat the login
            return DeliveryReply(is_delivered=False, reason=f"the mail server answered with {error.smtp_code}")
        except smtplib.SMTPNotSupportedError as error:  # its text names the extension alone
            return DeliveryReply(is_delivered=False, reason=f"the mail server cannot take this mail: {error}")
        except smtplib.SMTPException as error:
            return DeliveryReply(is_delivered=False, reason=f"the mail server failed: {type(error).__name__}")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            return DeliveryReply(is_delivered=False, reason=f"the mail server cannot be reached: {reason}")
        if refused:  # a repetition would reach those again who have the mail
            log.warning("mail refused for some recipients", extra={"refused": len(refused), "statuses": refused})
        return DeliveryReply(is_delivered=True, reason="delivered")

    def _write(self, mail: Mail) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"] = self._sender, ", ".join(self._recipients)
        message["Subject"] = " ".join(mail.subject.split())[:MAX_SUBJECT_CHARS]
        message["Date"], message["Message-ID"] = formatdate(), f"<{mail.id}@llm-platform>"
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office replies
        message.set_content(mail.text)
        return message

    def _send(self, message: EmailMessage) -> tuple[int, ...]:
        """Send the message. Return the status of each recipient that the server refused while it took another one."""
        context = ssl.create_default_context()
        if self._is_encrypted:
            server: smtplib.SMTP = smtplib.SMTP_SSL(self._host, self._port, timeout=STEP_TIMEOUT_S, context=context)
        else:
            server = smtplib.SMTP(self._host, self._port, timeout=STEP_TIMEOUT_S)
        with server:
            server.ehlo()
            if not self._is_encrypted and (not self._is_local or server.has_extn("starttls")):
                server.starttls(context=context)
            if self._login is not None:
                _authenticate(server, *self._login)
            refused = server.send_message(message)
        return tuple(status for status, _ in refused.values())


def _authenticate(server: smtplib.SMTP, user: str, password: str) -> None:
    """Log in. smtplib writes ASCII alone, so another login is sent as UTF-8 with the method PLAIN (RFC 4616)."""
    if (user + password).isascii():
        server.login(user, password)
        return
    server.ehlo_or_helo_if_needed()
    plain = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
    status, answer = server.docmd("AUTH", f"PLAIN {plain}")
    if status != LOGGED_IN:
        raise smtplib.SMTPAuthenticationError(status, answer)
