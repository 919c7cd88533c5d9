"""`read` turns a body into content: decode, recognise the kind, read lines, remove ignored lines.

The kind (feed, page, JSON or text) is recognised by the beginning of the body first, because content types of
feeds are often wrong (text/html, text/plain, application/octet-stream).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.difference.charset import decoded
from penstock.core.channels.difference.content import Content, ContentLines
from penstock.core.channels.difference.feed import read_feed
from penstock.core.channels.difference.html import modified_of, page_lines, title_of, tree_of
from penstock.core.channels.difference.json_document import document, json_lines
from penstock.core.channels.difference.rules import Rules, pattern
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.difference.content import ContentKind, FeedItem

_LOOKED_AT: Final = 4_096
_ROOT: Final = re.compile(r"<(?![!?])(?:[\w.-]{1,40}:)?([\w.-]{1,40})")
_BEFORE_ROOT: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!DOCTYPE[^>\[]*", re.DOTALL | re.IGNORECASE
)
_FEED_ROOTS: Final = frozenset({"rss", "feed", "rdf"})
_LATE_FEED: Final = re.compile(
    r"<rss\b[^<>]{0,2000}\bversion\s*=|<(?:[\w.-]{1,40}:)?feed\b[^<>]{0,2000}w3\.org/2005/Atom|<rdf:RDF[\s>]",
    re.IGNORECASE,
)
"""Root of a feed that has something in front of it, such as the warning of a program."""
_PAGE: Final = re.compile(r"<(?:html|body|head|!doctype\s+html)\b", re.IGNORECASE)
_ODD: Final = re.compile("[\ufffd\\x00-\\x08\\x0b\\x0e-\\x1a\\x1c-\\x1f]")
_BINARY: Final = ("image/", "audio/", "video/", "font/", "application/pdf", "application/zip")
_MAGIC: Final = ("%PDF-", "PK\x03\x04", "\x89PNG", "GIF8", "ÿØÿ", "\x1f\x8b", "\x7fELF", "RIFF")


def kind_of(text: str, *, content_type: str) -> ContentKind:
    """Kind of a text; ChannelError if it cannot be compared by lines."""
    called = content_type.partition(";")[0].strip().lower()
    start = text[:_LOOKED_AT].lstrip("\ufeff \t\r\n")
    if called.startswith(_BINARY) and not start.startswith(("<", "{", "[")):
        raise ChannelError(
            f"{called} has no lines to compare: only feeds, pages, JSON and text can be watched"
        )
    if start.startswith(_MAGIC) or _is_binary(start):
        raise ChannelError("the body is not text: only feeds, pages, JSON and text can be watched")
    if start.startswith("<"):
        root = _ROOT.search(_BEFORE_ROOT.sub("", start))
        name = root.group(1).lower() if root else ""
        if name in _FEED_ROOTS or _has_late_feed(start):
            return "feed"
        if called == "text/plain":
            return "text"
        return "html"
    if called != "text/plain" and _has_late_feed(start):
        return "feed"
    if start.startswith(("{", "[")) and called != "text/html":
        return "feed" if _is_json_feed(start, called) else "json"
    if "json" in called:
        return "json"
    if called in ("text/html", "application/xhtml+xml"):
        return "html"
    return "text"


def _has_late_feed(start: str) -> bool:
    late = _LATE_FEED.search(start)
    return late is not None and _PAGE.search(start, 0, late.start()) is None


def _is_json_feed(start: str, called: str) -> bool:
    return called == "application/feed+json" or "jsonfeed.org/version" in start.replace("\\/", "/")


def _is_binary(start: str) -> bool:
    return len(_ODD.findall(start)) > max(4, len(start) // 10)


def read(body: bytes, *, content_type: str, url: str, rules: Rules) -> Content:
    """Content of a body; raises ChannelError, with the address, if it cannot be read."""
    try:
        return _read(body, content_type, url, rules)
    except ChannelError as error:
        raise ChannelError(f"{url}: {error}") from None


def _read(body: bytes, content_type: str, url: str, rules: Rules) -> Content:
    if len(body) > limits.BODY_BYTES:
        raise ChannelError(f"a body of {len(body)} bytes; at most {limits.BODY_BYTES} are compared")
    text = decoded(body, content_type=content_type)
    if not text.strip():
        raise ChannelError("the body is empty")
    kind = kind_of(text, content_type=content_type)
    if kind == "feed":
        return _feed(read_feed(text, url=url), rules)
    if kind == "json":
        try:
            return _content("json", json_lines(document(text), rules), rules)
        except ChannelError:
            if "json" in content_type.lower() or rules.jsonpath:
                raise
            kind = "text"  # it only begins like JSON
    if kind == "html":
        root = tree_of(text)
        title, modified_us = title_of(root), modified_of(root)
        found = _content("html", page_lines(root, rules), rules)
        return msgspec.structs.replace(found, title=title, modified_us=modified_us)
    found_lines = ContentLines()
    for line in text.splitlines():
        found_lines.add(line, "")
    return _content("text", found_lines, rules)


def _content(kind: ContentKind, found: ContentLines, rules: Rules) -> Content:
    kept: Sequence[int] = range(len(found.lines))
    if rules.ignore:
        kept = [number for number in kept if not _ignored(found.lines[number], rules)]
    lines = tuple(found.lines[number] for number in kept)
    if not lines:
        raise ChannelError("nothing to compare: the rules exclude the whole page, or scripts generate it")
    return Content(
        kind,
        lines,
        tuple(found.places[number] for number in kept),
        tuple(found.linked[number] for number in kept) if kind == "html" else (),
    )


def _feed(content: Content, rules: Rules) -> Content:
    items = tuple(_kept(item, rules) for item in content.items)
    lines = tuple(line for item in items for line in item.lines)
    if len(lines) > limits.CONTENT_LINES:
        items, lines = _first(items)
    return msgspec.structs.replace(content, items=items, lines=lines, places=("item",) * len(lines))


def _kept(item: FeedItem, rules: Rules) -> FeedItem:
    if not rules.ignore:
        return item
    lines = tuple(line for line in item.lines if not _ignored(line, rules))
    return msgspec.structs.replace(item, lines=lines)


def _first(items: tuple[FeedItem, ...]) -> tuple[tuple[FeedItem, ...], tuple[str, ...]]:
    """Keep the first items, up to CONTENT_LINES lines: feeds have their newest items in front."""
    room, number = limits.CONTENT_LINES, 0
    for item in items:
        room -= len(item.lines)
        if room < 0:
            break
        number += 1
    return items[:number], tuple(line for item in items[:number] for line in item.lines)


def _ignored(line: str, rules: Rules) -> bool:
    return any(pattern(text)(line) for text in rules.ignore)
