"""`read` turns a body into content: decode, recognise the kind, read lines, remove ignored lines.

The charset comes from the byte order mark, else the header, else the document, else it is UTF-8. A wrong or
unknown name falls through to the next source. Bytes that still cannot be decoded become U+FFFD, so that one
bad byte does not hide a page. The kind (feed, page, JSON or text) is recognised by the beginning of the body
first, because content types of feeds are often wrong (text/html, text/plain, application/octet-stream).
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.difference.content import Content, ContentLines
from penstock.core.channels.difference.feed import read_feed
from penstock.core.channels.difference.html import modified_of, page_lines, title_of, tree_of
from penstock.core.channels.difference.json_document import document, json_lines
from penstock.core.channels.difference.rules import Rules, pattern
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from penstock.core.channels.difference.content import ContentKind, FeedItem

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its first two bytes
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_XML: Final = re.compile(rb"^\s{0,16}<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_META: Final = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_HEAD_BYTES: Final = 4_096
"""Bytes searched for a document's charset: HTML requires it in the first 1,024, pages in use need more."""

# Browsers read "Latin-1" as Windows-1252 (WHATWG Encoding, 4.2).
_MEANT: Final = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
_TEXT_CODECS: Final = re.compile(
    r"utf_?-?(?:8|8-sig|16|16-le|16-be|32|32-le|32-be)|cp\d+|iso8859-\d+|iso2022_\w+|koi8-\w+|mac-\w+"
    r"|gb18030|big5\w*|shift_jis\w*|euc_\w+|tis-620|hz|johab|ptcp154|viscii"
)


def decoded(body: bytes, *, content_type: str) -> str:
    """Decode a body to text; never fails."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return _clean(body[len(mark) :].decode(name, "replace"))
    head = body[:_HEAD_BYTES]
    named = [found.group(1) for found in (_XML.search(head), _META.search(head)) if found]
    header = _HEADER.search(content_type)
    for text in ([header.group(1)] if header else []) + [name.decode("ascii", "replace") for name in named]:
        codec = _codec(text)
        if codec:
            return _clean(body.decode(codec, "replace"))
    if head.startswith((b"<\x00", b"{\x00", b"[\x00")):
        return _clean(body.decode("utf-16-le", "replace"))
    try:
        return _clean(body.decode())
    except UnicodeDecodeError as error:
        # A body cut inside a character is still UTF-8.
        codec = "utf-8" if error.reason == "unexpected end of data" else "cp1252"
        return _clean(body.decode(codec, "replace"))


def _codec(name: str) -> str:
    """Codec of a charset name; empty if unknown or not a text codec."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return ""
    found = _MEANT.get(found, found)
    return found if _TEXT_CODECS.fullmatch(found) else ""


def _clean(text: str) -> str:
    """Remove NULs, which end a document for libxml2, and lone surrogates, which cannot be encoded."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:  # some codecs decode to lone surrogates
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_LOOKED_AT: Final = 2_048
_ROOT: Final = re.compile(r"<(?![!?])(?:[\w.-]{1,40}:)?([\w.-]{1,40})")
_BEFORE_ROOT: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!DOCTYPE[^>\[]*", re.DOTALL | re.IGNORECASE
)
_FEED_ROOTS: Final = frozenset({"rss", "feed", "rdf"})
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


def read(body: bytes, *, content_type: str, url: str, rules: Rules) -> Content:
    """Content of a body; raises ChannelError, with the address, if it cannot be read."""
    try:
        return _read(body, content_type, rules)
    except ChannelError as error:
        raise ChannelError(f"{url}: {error}") from None


def _read(body: bytes, content_type: str, rules: Rules) -> Content:
    if len(body) > limits.BODY_BYTES:
        raise ChannelError(f"a body of {len(body)} bytes; at most {limits.BODY_BYTES} are compared")
    text = decoded(body, content_type=content_type)
    if not text.strip():
        raise ChannelError("the body is empty")
    kind = kind_of(text, content_type=content_type)
    if kind == "feed":
        return _feed(read_feed(text), rules)
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


def _content(kind: str, found: ContentLines, rules: Rules) -> Content:
    kept = [number for number, line in enumerate(found.lines) if not _ignored(line, rules)]
    lines = tuple(found.lines[number] for number in kept)
    if not lines:
        raise ChannelError("nothing to compare: the rules exclude the whole page, or scripts generate it")
    return Content(kind, lines, tuple(found.places[number] for number in kept))  # type: ignore[arg-type]


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
    """As many items as CONTENT_LINES allows: feeds have their newest items in front."""
    room, number = limits.CONTENT_LINES, 0
    for item in items:
        room -= len(item.lines)
        if room < 0:
            break
        number += 1
    return items[:number], tuple(line for item in items[:number] for line in item.lines)


def _ignored(line: str, rules: Rules) -> bool:
    return any(pattern(text)(line) for text in rules.ignore)
