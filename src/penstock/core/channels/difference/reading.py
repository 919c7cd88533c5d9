"""A body becomes content: decoded, recognised, read into lines, and rid of what the rules ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.core.channels.difference.charset import decoded
from penstock.core.channels.difference.content import Content
from penstock.core.channels.difference.feed import read_feed
from penstock.core.channels.difference.html import modified_of, page_lines, title_of
from penstock.core.channels.difference.json_lines import document, json_lines
from penstock.core.channels.difference.kinds import kind_of
from penstock.core.channels.difference.lines import Lines
from penstock.core.channels.difference.rules import Rules, pattern
from penstock.core.channels.difference.tree import tree_of
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from penstock.core.channels.difference.content import FeedItem


def read(body: bytes, *, content_type: str, url: str, rules: Rules) -> Content:
    """The core content of a body; ChannelError says why there is none, and for which address."""
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
            kind = "text"  # it only began like JSON
    if kind == "html":
        root = tree_of(text)
        title, modified_us = title_of(root), modified_of(root)
        found = _content("html", page_lines(root, rules), rules)
        return msgspec.structs.replace(found, title=title, modified_us=modified_us)
    found_lines = Lines()
    for line in text.splitlines():
        found_lines.add(line, "")
    return _content("text", found_lines, rules)


def _content(kind: str, found: Lines, rules: Rules) -> Content:
    kept = [number for number, line in enumerate(found.lines) if not _ignored(line, rules)]
    lines = tuple(found.lines[number] for number in kept)
    if not lines:
        raise ChannelError(
            "nothing is left to compare: the rules leave out all of the page, or scripts write it"
        )
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
    """As many items as there is room for: feeds have their newest in front."""
    room, number = limits.CONTENT_LINES, 0
    for item in items:
        room -= len(item.lines)
        if room < 0:
            break
        number += 1
    return items[:number], tuple(line for item in items[:number] for line in item.lines)


def _ignored(line: str, rules: Rules) -> bool:
    return any(pattern(text)(line) for text in rules.ignore)
