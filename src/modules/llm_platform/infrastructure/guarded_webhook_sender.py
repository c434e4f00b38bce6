"""Webhooks through the address guard of the safe reader: the name is resolved once, and the checked address is dialled."""

import asyncio
from collections.abc import Mapping
from typing import Final

from modules.llm_platform.domain.exceptions import PageConnectionError, PageRequestError, WebhookError
from modules.llm_platform.domain.ports.webhook_sender import DeliveryReply, IWebhookSender
from modules.llm_platform.infrastructure.http.client import get_user_agent
from modules.llm_platform.infrastructure.http.errors import retry_after_s
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.errors import TRANSPORT_ERRORS, make_transport_error
from modules.llm_platform.infrastructure.http.guarded.guard import Checked, Guard
from modules.llm_platform.infrastructure.http.guarded.url import parse_address

WEBHOOK_TIMEOUT_S: Final = 20.0  # limit for one attempt; the specification advises 15 to 30
MAX_REPLY_BYTES: Final = 65_536  # read and ignored
OFFLINE: Final = "webhook: in offline mode only hosts of WEBHOOK_ALLOWED_HOSTS get webhooks: see LLM_PLATFORM_OFFLINE"


class GuardedWebhookSender(IWebhookSender):
    """Sends webhooks, over a new connection for each attempt. If `offline`, it sends only to WEBHOOK_ALLOWED_HOSTS."""

    def __init__(
        self,
        guard: Guard,
        connections: PinnedConnections,
        *,
        offline: bool = False,
        timeout_s: float = WEBHOOK_TIMEOUT_S,
    ) -> None:
        self._guard = guard
        self._connections = connections
        self._offline = offline
        self._timeout_s = timeout_s

    async def check(self, url: str) -> None:
        try:
            await self._check_url(url)
        except PageConnectionError as error:
            raise WebhookError("webhook: the host of the address cannot be found") from error

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(await self._check_url(url), headers, body)
        except TimeoutError:
            return _make_failed_reply(f"no answer within {self._timeout_s:g} s")
        except (WebhookError, PageConnectionError) as error:
            return _make_failed_reply(error.message)
        except TRANSPORT_ERRORS as error:
            return _make_failed_reply(make_transport_error(error).message)

    async def _send(self, checked: Checked, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        ours = {"User-Agent": get_user_agent(), "Content-Type": "application/json", "Accept-Encoding": "identity"}
        async with self._connections.request(checked, {**ours, **headers}, "POST", body) as answer:
            status, wait_s = answer.status_code, retry_after_s(answer.headers)
            size = 0
            async for chunk in answer.aiter_raw():
                size += len(chunk)
                if size > MAX_REPLY_BYTES:
                    break
        is_delivered = status // 100 == 2
        reason = "delivered" if is_delivered else f"the receiver answered with status {status}"
        is_gone = status == 410  # the receiver wants no more
        return DeliveryReply(is_delivered, reason, is_final=is_gone, retry_after_s=wait_s or 0.0)

    async def _check_url(self, url: str) -> Checked:
        """Return the checked address. Raises WebhookError, and PageConnectionError if the name does not resolve."""
        try:
            address = parse_address(url)
        except PageRequestError as error:
            raise WebhookError("webhook: must be an address that begins with https://") from error
        if address.scheme != "https" and not self._guard.allows(url):
            raise WebhookError(
                "webhook: must begin with https://; only hosts of WEBHOOK_ALLOWED_HOSTS may be used with http://"
            )
        if self._offline and not self._guard.may_allow(address):  # before its name leaves this machine
            raise WebhookError(OFFLINE)
        try:
            checked = await self._guard.check(address)
        except PageRequestError as error:
            raise WebhookError(
                "webhook: the address is not on the public internet, or its port is not 80, 443, 8080 or 8443; "
                "WEBHOOK_ALLOWED_HOSTS can name hosts that may be used"
            ) from error
        if self._offline and not checked.is_private:
            raise WebhookError(OFFLINE)
        return checked


def _make_failed_reply(reason: str) -> DeliveryReply:
    return DeliveryReply(is_delivered=False, reason=reason)
