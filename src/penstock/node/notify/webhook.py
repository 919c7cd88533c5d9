"""Transport: changes as HTTP requests, signed as the Standard Webhooks specification says.

A receiver checks `webhook-signature` with the key of its URL, refuses an old `webhook-timestamp`, and
accepts each `webhook-id` once.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.channels.address import topic_of
from penstock.core.channels.delta import Delta
from penstock.core.channels.difference import to_json
from penstock.model import digest_wire
from penstock.model.instant import SECOND_US
from penstock.node.access.secret import derived
from penstock.node.notify.transport import Delivered, Notification, RecipientGone, RetryLater, SendOutcome

if TYPE_CHECKING:
    from penstock.node.outbound.post import Poster

GONE: Final = 410
"""The answer by which a receiver ends its subscriptions."""


def key_of(secret: bytes, target: str) -> bytes:
    """Derive the key that signs requests to one address; other addresses cannot know it."""
    return derived(secret, "webhook", target)


def key_text(key: bytes) -> str:
    """Write a key in the form that Standard Webhooks libraries read."""
    return f"whsec_{b64encode(key).decode()}"


def signature(key: bytes, *, id_: str, timestamp_s: int, body: bytes) -> str:
    """Make the value of `webhook-signature`."""
    mac = hmac.digest(key, f"{id_}.{timestamp_s}.".encode() + body, sha256)
    return f"v1,{b64encode(mac).decode()}"


def body_of(parcel: Notification) -> bytes:
    """Make the body: the type of the notification, and the change or digest."""
    what = parcel.what
    if isinstance(what, Delta):
        change = msgspec.Raw(to_json(what))
        return msgspec.json.encode({"type": "change", "topic": topic_of(what.url), "change": change})
    return msgspec.json.encode({"type": "digest", "digest": digest_wire.to_json(what)})


class WebhookTransport:
    """Sends to subscribers named webhook:https://…."""

    def __init__(self, poster: Poster, *, secret: bytes) -> None:
        self._poster = poster
        self._secret = secret
        self.sent = self.refused = 0

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def away(self, who: str) -> bool:  # noqa: ARG002
        """Return False: whether a receiver can be reached shows when sending."""
        return False

    async def send(self, parcel: Notification) -> SendOutcome:
        """Send one signed request."""
        body = body_of(parcel)
        timestamp_s = parcel.at_us // SECOND_US
        key = key_of(self._secret, parcel.address)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": parcel.id,
            "webhook-timestamp": str(timestamp_s),
            "webhook-signature": signature(key, id_=parcel.id, timestamp_s=timestamp_s, body=body),
        }
        posted = await self._poster.post(parcel.address, body, headers)
        if posted.ok:
            self.sent += 1
            return Delivered()
        self.refused += 1
        if posted.status == GONE:
            return RecipientGone("it answered 410 Gone")
        return RetryLater(posted.sentence(), posted.retry_after_s(now_us=parcel.at_us))

    def statistics(self) -> dict[str, object]:
        """Return the numbers of requests."""
        return {"sent": self.sent, "refused": self.refused}
