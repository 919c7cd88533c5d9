"""Feed, page, JSON or text: what a body is, by what it looks like and then by what it is called.

Content types of feeds are wrong so often (text/html, text/plain, application/octet-stream) that what the body
begins with decides, where it says anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.errors import ChannelError

if TYPE_CHECKING:
    from penstock.core.channels.difference.content import Kind

_LOOKED_AT: Final = 2_048
_ROOT: Final = re.compile(r"<(?![!?])(?:[\w.-]{1,40}:)?([\w.-]{1,40})")
_BEFORE_ROOT: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!DOCTYPE[^>\[]*", re.DOTALL | re.IGNORECASE
)
_FEED_ROOTS: Final = frozenset({"rss", "feed", "rdf"})
_BINARY: Final = ("image/", "audio/", "video/", "font/", "application/pdf", "application/zip")
_MAGIC: Final = ("%PDF-", "PK\x03\x04", "\x89PNG", "GIF8", "ÿØÿ", "\x1f\x8b", "\x7fELF", "RIFF")


def kind_of(text: str, *, content_type: str) -> Kind:
    """What a text is; ChannelError if it is nothing that has lines."""
    called = content_type.partition(";")[0].strip().lower()
    start = text[:_LOOKED_AT].lstrip("\ufeff \t\r\n")
    if called.startswith(_BINARY) and not start.startswith(("<", "{", "[")):
        raise ChannelError(
            f"{called} has no lines to compare: only feeds, pages, JSON and text can be watched"
        )
    if start.startswith(_MAGIC) or _is_binary(start):
        raise ChannelError("the body is no text: only feeds, pages, JSON and text can be watched")
    if start.startswith("<"):
        root = _ROOT.search(_BEFORE_ROOT.sub("", start))
        name = root.group(1).lower() if root else ""
        if name in _FEED_ROOTS:
            return "feed"
        if called == "text/plain":
            return "text"
        return "html"
    if start.startswith(("{", "[")) and called != "text/html":
        return "feed" if _is_json_feed(start, called) else "json"
    if "json" in called:
        return "json"
    if called in ("text/html", "application/xhtml+xml"):
        return "html"
    return "text"


def _is_json_feed(start: str, called: str) -> bool:
    return called == "application/feed+json" or "jsonfeed.org/version" in start.replace("\\/", "/")


def _is_binary(start: str) -> bool:
    odd = sum(1 for sign in start if sign == "\ufffd" or (sign < " " and sign not in "\t\n\r\f\x1b"))
    return odd > max(4, len(start) // 10)
