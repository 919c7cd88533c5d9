"""Feeds as items: RSS, RDF and Atom by fastfeedparser or else by feedparser, JSON Feed by this module.

Both libraries would fetch or open anything that looks like an address or a file, so they get bytes that they
cannot mistake for one. The document type is removed before parsing, and with it every entity it declares. The
feed's own properties (how often to poll, hub, address) are read with lxml, because the feed libraries omit
most of them: bounded, without entities or network.
"""

from __future__ import annotations

import re
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.core.channels.difference.content import (
    Content,
    ContentLines,
    FeedHints,
    FeedItem,
    cleaned,
    instant_of,
    library,
)
from penstock.core.channels.difference.html import page_lines, tree_of
from penstock.core.channels.difference.json_document import document
from penstock.core.channels.difference.rules import Rules
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PERIODS_S: Final = {
    "hourly": 3_600,
    "daily": 86_400,
    "weekly": 604_800,
    "monthly": 2_592_000,
    "yearly": 31_536_000,
}
_TTL_MINUTES: Final = 525_600
"""A year: a longer ttl is a mistake of the feed."""
_LOOKED_AT: Final = 5_000
"""Elements below the root that are examined, items included."""


class FeedFacts(msgspec.Struct):
    """Properties of a feed."""

    ttl_s: int | None = None
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()
    period_s: int | None = None
    frequency: int = 1
    update_period_s: int | None = None
    hub: str = ""
    self_url: str = ""


def said_by(body: bytes) -> FeedFacts:
    """Read the properties of a feed; broken or absurd values are left out."""
    etree = library("lxml.etree")
    parser = etree.XMLParser(
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        encoding="utf-8",
    )
    said = FeedFacts()
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return said
    if root is None:
        return said
    tops = [root, *(child for child in root if _name(child) == "channel")]
    for element in islice((child for top in tops for child in top.iterchildren()), _LOOKED_AT):
        _take(element, _name(element), said)
    if said.period_s is not None and 0 < said.frequency <= said.period_s:
        said.update_period_s = said.period_s // said.frequency
    return said


def _take(element: Any, name: str, said: FeedFacts) -> None:
    if name == "ttl":
        minutes = _number(element.text)
        if minutes is not None and 0 < minutes <= _TTL_MINUTES:
            said.ttl_s = minutes * 60
    elif name == "skipHours":
        said.skip_hours = tuple(sorted({hour % 24 for hour in _numbers(element) if 0 <= hour <= 24}))
    elif name == "skipDays":
        said.skip_days = tuple(sorted(set(_days(element))))
    elif name == "updatePeriod":
        said.period_s = _PERIODS_S.get((element.text or "").strip().lower())
    elif name == "updateFrequency":
        said.frequency = _number(element.text) or 1
    elif name == "link":
        _link(element, said)


def newest_first(times: Iterable[int | None]) -> tuple[int, ...]:
    """The known times, newest first."""
    return tuple(sorted((time for time in times if time is not None), reverse=True))


def _link(element: Any, said: FeedFacts) -> None:
    href = (element.get("href") or "").strip()
    if not href.startswith(("http://", "https://")) or len(href) > limits.URL_CHARS:
        return
    relations = (element.get("rel") or "").lower().split()
    if "hub" in relations and not said.hub:
        said.hub = href
    elif "self" in relations and not said.self_url:
        said.self_url = href


def _name(element: Any) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _numbers(element: Any) -> list[int]:
    found = (_number(child.text) for child in list(element)[:100])
    return [number for number in found if number is not None]


def _days(element: Any) -> list[int]:
    names = ((child.text or "").strip().lower() for child in list(element)[:100])
    return [_DAYS.index(name) for name in names if name in _DAYS]


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]{0,500}\?>")
_SUBSET_END: Final = re.compile(r"\]\s{0,64}>")
_MARKUP: Final = re.compile(r"<[A-Za-z!/]|&[#\w]")
_ITEM: Final = re.compile(rb"<(?:[\w.-]{1,64}:)?(?:item|entry)[\s/>]", re.IGNORECASE)
_FRAGMENT: Final = Rules(whole_page=True)
_FALLBACK_BYTES: Final = 1 << 18
"""Largest feed given to feedparser, which takes 0.25 ms for an item, and up to 15 s for a megabyte of broken
tags: larger feeds must be well formed.
"""


def read_feed(text: str) -> Content:
    """Parse a feed; ChannelError if it is not one."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return _json_feed(document(text))
    body = _without_doctype(_DECLARATION.sub("", text.lstrip("\ufeff \t\r\n"))).encode()
    if sum(1 for _ in islice(_ITEM.finditer(body), limits.FEED_ITEMS_READ + 1)) > limits.FEED_ITEMS_READ:
        raise ChannelError(f"the feed has over {limits.FEED_ITEMS_READ} items")
    found = _parsed(body)
    said = said_by(body)
    items = tuple(_distinct(_items(found.get("entries") or ())))
    feed: Mapping[str, Any] = found.get("feed") or {}
    times = newest_first(item.published_us for item in items)
    return Content(
        "feed",
        items=items,
        title=cleaned(_text(feed.get("title")))[: limits.TITLE_CHARS],
        modified_us=instant_of(feed.get("updated")) or (times[0] if times else None),
        hub=said.hub,
        self_url=said.self_url,
        hints=FeedHints(said.ttl_s, said.skip_hours, said.skip_days, said.update_period_s, times),
    )


def _without_doctype(text: str) -> str:
    start = text[:8_192].find("<!DOCTYPE")
    if start < 0:
        start = text[:8_192].lower().find("<!doctype")
    if start < 0:
        if "<!ENTITY" in text:
            raise ChannelError("the feed declares entities outside its document type")
        return text
    end, subset = text.find(">", start), text.find("[", start)
    if 0 <= subset < end:
        closing = _SUBSET_END.search(text, subset)
        end = closing.end() - 1 if closing else -1
    if end < 0:
        raise ChannelError("the feed's document type does not end")
    return text[:start] + text[end + 1 :]


def _parsed(body: bytes) -> Mapping[str, Any]:
    """Parse with fastfeedparser; if it fails or finds no item, with feedparser."""
    fast = library("fastfeedparser")
    problem = "it has no items"
    try:
        found: Mapping[str, Any] = fast.parse(body)
        if found.get("entries"):
            return found
    except Exception as error:  # third-party parser on untrusted bytes: any exception is possible
        found, problem = {}, f"{error}"
    if len(body) > _FALLBACK_BYTES:
        if found:
            return found
        raise ChannelError(f"the feed cannot be read: {problem[:200]}")
    return _patiently(body, found, problem)


def _patiently(body: bytes, found: Mapping[str, Any], problem: str) -> Mapping[str, Any]:
    feedparser = library("feedparser")
    try:
        slow: Mapping[str, Any] = feedparser.parse(
            BytesIO(body),
            response_headers={"content-type": "application/xml; charset=utf-8"},
            sanitize_html=False,
            resolve_relative_uris=False,
        )
    except Exception as error:
        raise ChannelError(f"the feed cannot be read: {error}") from None
    if slow.get("entries") or (slow.get("feed") or {}).get("title"):
        return slow
    if found:
        return found
    raise ChannelError(f"the feed cannot be read: {problem[:200]}")


def _items(entries: Iterable[Mapping[str, Any]]) -> Iterable[FeedItem]:
    for number, entry in enumerate(entries):
        if number >= limits.FEED_ITEMS:
            return
        bodies = [_text(part.get("value")) for part in entry.get("content") or () if isinstance(part, dict)]
        text = max([*bodies, _text(entry.get("description")), _text(entry.get("summary"))], key=len)
        yield _item(
            own=_text(entry.get("id")),
            title=_text(entry.get("title")),
            link=_text(entry.get("link")),
            text=text,
            published_us=instant_of(entry.get("published")) or instant_of(entry.get("updated")),
        )


def _json_feed(root: Any) -> Content:
    if not isinstance(root, dict) or not isinstance(root.get("items"), list):
        raise ChannelError("the JSON Feed has no items")
    entries = (entry for entry in root["items"][: limits.FEED_ITEMS] if isinstance(entry, dict))
    items = tuple(_distinct(map(_json_item, entries)))
    times = newest_first(item.published_us for item in items)
    hubs = [hub.get("url") for hub in root.get("hubs") or () if isinstance(hub, dict)]
    return Content(
        "feed",
        items=items,
        title=cleaned(_text(root.get("title")))[: limits.TITLE_CHARS],
        modified_us=times[0] if times else None,
        hub=_address(hubs[0]) if hubs else "",
        self_url=_address(root.get("feed_url")),
        hints=FeedHints(item_times_us=times),
    )


def _json_item(entry: Mapping[str, Any]) -> FeedItem:
    texts = (_text(entry.get(name)) for name in ("content_html", "content_text", "summary"))
    return _item(
        own=str(entry.get("id") or ""),
        title=_text(entry.get("title")),
        link=_text(entry.get("url")) or _text(entry.get("external_url")),
        text=next(filter(None, texts), ""),
        published_us=instant_of(entry.get("date_published")) or instant_of(entry.get("date_modified")),
    )


def _item(*, own: str, title: str, link: str, text: str, published_us: int | None) -> FeedItem:
    title = _title(title)
    lines = ContentLines()
    lines.add(title, "title")
    _add_text(lines, text[: limits.ITEM_CHARS])
    called = own.strip() or link.strip() or title or (lines.lines[0] if lines.lines else "")
    link = _address(link)
    return FeedItem(
        called[: limits.URL_CHARS], title[: limits.TITLE_CHARS], link, tuple(lines.lines), published_us
    )


def _title(text: str) -> str:
    """Plain text of a title: feeds have plain text, HTML, and HTML escaped twice."""
    if not _MARKUP.search(text):
        return cleaned(text)
    try:
        return " ".join(page_lines(tree_of(text[: limits.ITEM_CHARS]), _FRAGMENT).lines)
    except ChannelError:
        return cleaned(text)


def _add_text(lines: ContentLines, text: str) -> None:
    if _MARKUP.search(text):
        try:
            for line in page_lines(tree_of(text), _FRAGMENT).lines:
                lines.add(line, "text")
        except ChannelError:
            pass  # only an image, or markup beyond the limits: the title is used alone
        return
    for line in text.splitlines():
        lines.add(line, "text")


def _distinct(items: Iterable[FeedItem]) -> Iterable[FeedItem]:
    """Each id once, the first in the feed's order; items with nothing to identify them are left out."""
    seen: set[str] = set()
    for item in items:
        if item.id and item.id not in seen:
            seen.add(item.id)
            yield item


def _text(raw: object) -> str:
    return raw if isinstance(raw, str) else ""


def _address(raw: object) -> str:
    text = _text(raw).strip()
    return text if text.startswith(("http://", "https://")) and len(text) <= limits.URL_CHARS else ""
