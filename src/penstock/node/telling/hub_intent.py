"""What programs ask of the hub, read with care."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from penstock.errors import BadAddress
from penstock.node.http.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.node.telling.feeds import Feeds
    from penstock.node.web.post import Poster

SECRET_BYTES: Final = 200
"""A secret must be shorter (section 5.1)."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What somebody asked for and has not confirmed yet."""

    mode: str
    callback: str
    url: str
    lease_s: int
    secret: str


def intent_of(form: Mapping[str, str], feeds: Feeds, poster: Poster, *, lease_s: int) -> Intent:
    """What a request asks for; Refused says what is wrong with it."""
    mode = form.get("hub.mode", "")
    if mode not in ("subscribe", "unsubscribe"):
        raise _wrong("hub.mode", f"subscribe or unsubscribe, not '{mode[:80]}'")
    url = feeds.channel_of(form.get("hub.topic", ""))
    if url is None:
        raise _wrong("hub.topic", "is not the address of a feed of this node")
    try:
        callback = poster.check(form.get("hub.callback", ""))
    except BadAddress as error:
        raise _wrong("hub.callback", str(error)) from None
    secret = form.get("hub.secret", "")
    if len(secret.encode()) >= SECRET_BYTES:
        raise _wrong("hub.secret", f"must be shorter than {SECRET_BYTES} bytes")
    asked = form.get("hub.lease_seconds", "") or str(lease_s)
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 16 and int(asked)):
        raise _wrong("hub.lease_seconds", f"a whole number above 0, not '{asked[:80]}'")
    return Intent(mode, callback, url, min(max(int(asked), 60), lease_s), secret)


def _wrong(where: str, problem: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, problem, where=where)
