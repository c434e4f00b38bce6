"""Mail through a mail server on loopback, and through servers that misbehave."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest

from modules.llm_platform.domain.ports.mail_sender import Mail
from modules.llm_platform.infrastructure import smtp_mail_sender
from modules.llm_platform.infrastructure.smtp_mail_sender import SmtpMailSender

MAIL = Mail("a1.2", "1 changed:\r\nBcc: evil@example.org What is the toll?", "Now: 14 euros.\n.\nEnd — €\n")
PASSWORD = "s3cret-of-the-mail"


class MailServer:
    """Takes mail. `refuses` is a command that it refuses, and `is_silent` that it never greets."""

    refused_recipient = "nobody"

    def __init__(self, refuses: str = "", *, is_silent: bool = False, offers: str = "AUTH PLAIN") -> None:
        self.refuses, self.is_silent, self.offers = refuses, is_silent, offers
        self.commands: list[str] = []
        self.mail = b""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_silent:
            await reader.read()
            return
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().strip():
            command = line.split()[0].upper()
            self.commands.append(line)
            if command == self.refuses or f"<{self.refused_recipient}>" in line:
                writer.write(b"554 no: " + line.encode() + b"\r\n")
            elif command == "EHLO":
                writer.write(f"250-here\r\n250 {self.offers}\r\n".encode())
            elif command == "AUTH":
                writer.write(b"235 welcome\r\n")
            elif command == "DATA":
                writer.write(b"354 go on\r\n")
                self.mail = await reader.readuntil(b"\r\n.\r\n")
                writer.write(b"250 taken\r\n")
            else:
                writer.write(b"221 bye\r\n" if command == "QUIT" else b"250 fine\r\n")
            await writer.drain()


@asynccontextmanager
async def serving(
    server: MailServer, login: str = f"user:{PASSWORD}", recipients: Sequence[str] = ("a@example.org", "b@example.org")
) -> AsyncIterator[SmtpMailSender]:
    running = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]
    async with running:
        yield SmtpMailSender(f"smtp://{login}@127.0.0.1:{port}", "here@example.org", recipients)


async def test_mail_is_sent_to_the_recipients_of_the_settings() -> None:
    """The subject is one line for any question, and the message id is the notice's id."""
    server = MailServer()
    async with serving(server) as sender:
        reply = await sender.send(MAIL)
    assert (reply.is_delivered, reply.reason) == (True, "delivered")
    recipients = [line for line in server.commands if line.lower().startswith("rcpt")]
    assert [line.partition("<")[2].partition(">")[0] for line in recipients] == ["a@example.org", "b@example.org"]
    head, _, body = server.mail.decode().partition("\r\n\r\n")
    lines = head.splitlines()
    assert "Message-ID: <a1.2@llm-platform>" in lines
    assert "Auto-Submitted: auto-generated" in lines
    assert not [line for line in lines if line.startswith("Bcc")]
    assert "14 euros" in body


async def test_login_with_other_letters_is_sent_as_utf_8() -> None:
    server = MailServer()
    async with serving(server, quote("jürgen:pässwort", safe=":")) as sender:
        reply = await sender.send(MAIL)
    assert (reply.is_delivered, reply.reason) == (True, "delivered")
    [line] = [line for line in server.commands if line.startswith("AUTH")]
    assert base64.b64decode(line.split()[-1]).decode() == "\0jürgen\0pässwort"


async def test_address_that_the_server_cannot_take_is_named() -> None:
    async with serving(MailServer(), recipients=["jürgen@example.org"]) as sender:
        reply = await sender.send(MAIL)
    assert not reply.is_delivered
    assert "SMTPUTF8" in reply.reason


@pytest.mark.parametrize("login", [f"user:{PASSWORD}", f"jürgen:{PASSWORD}"])
@pytest.mark.parametrize("command", ["AUTH", "MAIL", "RCPT", "DATA"])
async def test_a_refusal_is_a_reply_without_the_login(command: str, login: str) -> None:
    server = MailServer(refuses=command)
    async with serving(server, quote(login, safe=":")) as sender:
        reply = await sender.send(MAIL)
    assert not reply.is_delivered
    assert PASSWORD not in reply.reason


async def test_a_refused_recipient_is_logged_if_another_one_gets_the_mail(caplog: pytest.LogCaptureFixture) -> None:
    """The mail counts as delivered, because a retry would reach the other recipient again. The log has no address."""
    server = MailServer()
    server.refused_recipient = "a@example.org"
    async with serving(server) as sender:
        reply = await sender.send(MAIL)
    assert reply.is_delivered
    assert b"14 euros" in server.mail
    [record] = caplog.records
    assert record.__dict__["refused"] == 1
    assert record.__dict__["statuses"] == (554,)
    assert "example.org" not in str(record.__dict__)


async def test_a_silent_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp_mail_sender, "STEP_TIMEOUT_S", 0.2)
    async with serving(MailServer(is_silent=True)) as sender:
        reply = await sender.send(MAIL)
    assert not reply.is_delivered


async def test_no_server_is_a_reply() -> None:
    reply = await SmtpMailSender("smtp://127.0.0.1:9", "a@example.org", ["b@example.org"]).send(MAIL)
    assert not reply.is_delivered
    assert "cannot be reached" in reply.reason


async def test_nothing_is_sent_in_clear_text_to_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote server without STARTTLS gets neither the login nor the mail. A server on loopback does."""
    server = MailServer()
    async with serving(server) as sender:
        monkeypatch.setattr(sender, "_is_local", False)
        reply = await sender.send(MAIL)
    assert not reply.is_delivered
    assert not [line for line in server.commands if line.startswith(("AUTH", "MAIL", "auth", "mail"))]
    assert server.mail == b""
