"""Hubs that pages name: where one is found, and whether it signed what it sent (WebSub, sections 4 and 7)."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Final

from yarl import URL

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.errors import BadAddress

_PARAMETER: Final = r';\s*([\w!#$&+.^`|~*-]+)(?:\s*=\s*(?:"([^"]*)"|([^\s;,"]+)))?\s*'
_LINK: Final = re.compile(rf"<([^<>]*)>\s*((?:{_PARAMETER})*)")
_PARAMETERS: Final = re.compile(_PARAMETER)
_METHODS: Final = ("sha1", "sha256", "sha384", "sha512")
"""Of signatures (section 7.1)."""


@dataclass(frozen=True, slots=True)
class Hub:
    """Where a page can be subscribed to, and by which name."""

    url: str
    topic: str


def discovered(*, url: str, link: str = "", hub: str = "", self_url: str = "") -> Hub | None:
    """The hub that a page names, in its Link header or else in itself; None if it names none.

    A Link header counts more than the content (section 4).
    """
    named: dict[str, str] = {}
    for target, rest, *_ in _LINK.findall(link[: limits.LINK_CHARS]):
        said = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETERS.findall(rest)[::-1]}
        for word in said.get("rel", "").lower().split():
            named.setdefault(word, target)
    if "hub" in named:
        hub, self_url = named["hub"], named.get("self", self_url)
    if not hub:
        return None
    try:
        base = URL(url)
        topic = str(base.join(URL(self_url))) if self_url else url
        return Hub(canonical(str(base.join(URL(hub)))), topic)
    except (ValueError, BadAddress):
        return None


def signed(body: bytes, signature: str, key: str) -> bool:
    """Whether a signature belongs to a body."""
    method, _, found = signature.partition("=")
    if method not in _METHODS:
        return False
    wanted = hmac.digest(key.encode(), body, method).hex()
    return hmac.compare_digest(wanted.encode(), found.strip().lower().encode())
