"""The address of a channel: its canonical URL, its topic, its id and its registrable domain.

Subscribers who spell the same address differently share one channel, so the spelling is made canonical:
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
"""Root of the topics under which deltas are published."""

_QUOTED: Final = {"%": "%25", "+": "%2B", "#": "%23"}
"""Characters with a meaning in topic filters, and the escape character itself, percent-encoded."""


def canonical(text: str) -> str:
    """Canonical spelling of a URL; BadAddress says why it cannot be a channel."""
    text = text.strip()
    if len(text) > limits.URL_CHARS:
        raise BadAddress(text[:80] + "…", f"{len(text)} characters; at most {limits.URL_CHARS}")
    if any(sign.isspace() or not sign.isprintable() for sign in text):
        raise BadAddress(text, "contains a space or control character; percent-encode it (%20)")
    try:
        url = URL(text)
    except ValueError as error:
        raise BadAddress(text, str(error)) from None
    if url.scheme not in ("http", "https"):
        raise BadAddress(text, "must begin with http:// or https://")
    if url.user is not None or url.password is not None:
        raise BadAddress(text, "contains a user name or password; every subscriber would see it")
    if not url.raw_host or ".." in url.raw_host or url.raw_host.startswith("."):
        raise BadAddress(text, "has no host, as in https://example.org/feed")
    if url.raw_host.endswith("."):  # a trailing dot marks an absolute name; same host
        url = url.with_host(url.raw_host[:-1])
    return str(url.with_fragment(None).with_path(url.raw_path or "/", encoded=True, keep_query=True))


def topic_of(url: str) -> str:
    """Topic of a channel, from its canonical URL."""
    return TOPIC_ROOT + "".join(_QUOTED.get(sign, sign) for sign in url)


def url_of(topic: str) -> str:
    """Canonical URL of a channel, from its topic; BadAddress if the topic is not that of a channel."""
    if not topic.startswith(TOPIC_ROOT):
        raise BadAddress(topic, f"not a channel topic: these begin with {TOPIC_ROOT}")
    text = topic.removeprefix(TOPIC_ROOT)
    for sign in ("#", "+", "%"):  # % last, else %2523 would be decoded twice
        text = text.replace(_QUOTED[sign], sign)
    return canonical(text)


def channel_id(url: str) -> int:
    """The channel's id on the ring, 160 bits, from its canonical URL."""
    return int.from_bytes(sha1(url.encode(), usedforsecurity=False).digest(), "big")


def registrable(url: str) -> str:
    """Registrable domain of a URL; the host itself if it has none."""
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
        from publicsuffixlist import PublicSuffixList  # noqa: PLC0415  # optional dependency, slow to load
    except ImportError:
        raise MissingTool(
            "polling web pages needs more libraries: pip install 'penstock[channels]'"
        ) from None
    return PublicSuffixList()
