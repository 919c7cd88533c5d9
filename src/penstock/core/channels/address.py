"""The address of a channel: its canonical URL, its topic, its id and its registrable domain.

Two subscribers who write the same page differently share one channel, so the spelling is made canonical:
scheme and host in lower case and ASCII, no dot after the host, no default port, no dot segments, no
fragment. The query keeps its order, because some servers depend on it. The registrable domain comes from the
public suffix list: all of `*.example.com` has one budget; `a.github.io` and `b.github.io` have two.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha1
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from yarl import URL

from penstock import limits
from penstock.errors import BadAddress, MissingTool

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

TOPIC_ROOT: Final = "web/"
"""Deltas of a channel are published below it."""

_QUOTED: Final = {"%": "%25", "+": "%2B", "#": "%23"}
"""What MQTT gives another meaning in topics, and the sign that quotes it."""


def canonical(text: str) -> str:
    """The one spelling of a URL; BadAddress says why it cannot be a channel."""
    text = text.strip()
    if len(text) > limits.URL_CHARS:
        raise BadAddress(
            text[:80] + "…", f"a URL may have {limits.URL_CHARS} characters, this has {len(text)}"
        )
    if any(sign.isspace() or not sign.isprintable() for sign in text):
        raise BadAddress(text, "there is a space or an unprintable sign in it: write it as %20 or the like")
    try:
        url = URL(text)
    except ValueError as error:
        raise BadAddress(text, str(error)) from None
    if url.scheme not in ("http", "https"):
        raise BadAddress(text, "it must begin with http:// or https://")
    if url.user is not None or url.password is not None:
        raise BadAddress(text, "leave name and password out: the address is shown to every subscriber")
    if not url.raw_host or ".." in url.raw_host or url.raw_host.startswith("."):
        raise BadAddress(text, "there is no host in it, as in https://example.org/feed")
    if url.raw_host.endswith("."):  # the same name, said to be whole
        url = url.with_host(url.raw_host[:-1])
    return str(url.with_fragment(None).with_path(url.raw_path or "/", encoded=True, keep_query=True))


def topic_of(url: str) -> str:
    """The topic of a channel, from its canonical URL."""
    return TOPIC_ROOT + "".join(_QUOTED.get(sign, sign) for sign in url)


def url_of(topic: str) -> str:
    """The canonical URL of a channel, from its topic; BadAddress if there is none in it."""
    if not topic.startswith(TOPIC_ROOT):
        raise BadAddress(topic, f"topics of channels begin with {TOPIC_ROOT}")
    text = topic.removeprefix(TOPIC_ROOT)
    for sign in ("#", "+", "%"):  # the quoting sign last, else it would quote anew
        text = text.replace(_QUOTED[sign], sign)
    return canonical(text)


def channel_id(url: str) -> int:
    """160 bits that place the channel on the ring, from its canonical URL."""
    return int.from_bytes(sha1(url.encode(), usedforsecurity=False).digest(), "big")


def registrable(url: str) -> str:
    """The registrable domain of an address; a host that has none stands for itself."""
    return _of_host((URL(url).raw_host or "").rstrip("."))


@lru_cache(maxsize=4_096)
def _of_host(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return _list().privatesuffix(host) or host


@lru_cache(maxsize=1)
def _list() -> PublicSuffixList:
    try:
        from publicsuffixlist import PublicSuffixList  # noqa: PLC0415  # optional, and slow to load
    except ImportError:
        raise MissingTool(
            "polling web pages needs more libraries: pip install 'penstock[channels]'"
        ) from None
    return PublicSuffixList()
