"""Feeds as items: RSS, RDF, Atom and JSON Feed.

Feeds in use are often not well formed: entities that nobody declared, bare ampersands, tags of HTML in the
middle of a title, warnings of a program in front. So a feed is not parsed as XML but scanned (`markup.py`)
for the few elements that matter. Nothing is expanded, fetched or opened, and the work is linear in the size
of the feed. An item ends where it says so, or where the next one begins: damage stays within one item.

`identity.py` decides which items are the same.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from xxhash import xxh3_64_hexdigest
from yarl import URL

from penstock import limits
from penstock.core.channels.difference.content import (
    Content,
    FeedHints,
    FeedItem,
    cleaned,
    instant_of,
    pieces,
)
from penstock.core.channels.difference.html import page_lines, tree_of
from penstock.core.channels.difference.identity import distinct
from penstock.core.channels.difference.json_document import document
from penstock.core.channels.difference.markup import Element, FeedScan, plain
from penstock.core.channels.difference.rules import Rules
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
_CHILDREN: Final = re.compile(r"<(?:\w{1,20}:)?(?:hour|day)\b[^<>]{0,100}>\s{0,64}(\w{1,20})", re.IGNORECASE)
_MARKUP: Final = re.compile(r"<[A-Za-z!/]|&[#\w]")
_FRAGMENT: Final = Rules(whole_page=True)
_BREAKS: Final = (
    "p|br|div|ul|ol|li|h[1-6]|blockquote|hr|dl|dt|dd|figure|figcaption|section|article|center|main"
)
_INLINES: Final = (
    "a|b|i|u|s|em|strong|span|small|big|sub|sup|code|font|img|q|cite|abbr|del|ins|mark|time|wbr|kbd"
)
_REST: Final = r"(?=[\s/>])(?:[^<>\"']++|\"[^\"<>]*+\"|'[^'<>]*+')*+>"
_SIMPLE: Final = re.compile(rf"(?:[^<]++|</?(?:{_BREAKS}|{_INLINES}){_REST})*+", re.IGNORECASE)
"""HTML whose lines are found without a parser, five times as fast: what nine of ten items consist of."""
_TELLING: Final = re.compile(r"(?:style|class|id|hidden|role)[\s=>/]", re.IGNORECASE)
"""Attributes by which an element may be invisible or an advertisement."""
_BREAK: Final = re.compile(rf"</?(?:{_BREAKS}){_REST}", re.IGNORECASE)
_TAG: Final = re.compile(rf"</?(?:{_INLINES}){_REST}", re.IGNORECASE)
_NUMBER_CHARS: Final = 10

_IDS: Final = ("guid", "id", "rdf:about", "dc:identifier")
_TITLES: Final = ("title", "dc:title")
_TEXTS: Final = ("description", "summary", "content", "content:encoded", "xhtml:body", "xhtml:div", "tagline")
_SPARE_TEXTS: Final = ("itunes:summary", "media:description", "dc:description", "itunes:subtitle")
"""Texts that count if there is none of the others."""
_PUBLISHED: Final = ("pubdate", "published", "issued", "created", "dc:date", "date", "dcterms:issued")
_UPDATED: Final = ("updated", "modified", "lastbuilddate", "dcterms:modified", "atom:updated")


def read_feed(text: str, *, url: str) -> Content:
    """Read a feed that was found at `url`; ChannelError if it is not one."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return _json_feed(document(text), url)
    scan = FeedScan(text)
    if not scan.is_feed:
        raise ChannelError("the feed cannot be read: it has neither items nor a title")
    base = _base(scan, url)
    items = tuple(distinct(_until_full(_xml_item(found, base) for found in scan.items)))
    times = newest_first(item.published_us for item in items)
    said = scan.about
    hub, self_url = _relations(said.get("link", ()))
    return Content(
        "feed",
        items=items,
        title=_title(said.get("title", ()))[: limits.TITLE_CHARS],
        modified_us=_instant(said, ("lastbuilddate", "updated", "modified")) or (times[0] if times else None),
        hub=hub,
        self_url=self_url,
        hints=FeedHints(
            _ttl_s(said.get("ttl", ())),
            tuple(sorted({hour % 24 for hour in _hours(said.get("skiphours", ())) if 0 <= hour <= 24})),
            tuple(sorted(set(_days(said.get("skipdays", ()))))),
            _period_s(said),
            times,
        ),
    )


def _until_full(items: Iterable[FeedItem]) -> Iterator[FeedItem]:
    """Items up to the first that is beyond the lines that are compared: more need not be read."""
    room = limits.CONTENT_LINES
    for item in items:
        yield item
        room -= len(item.lines)
        if room < 0:
            return


def newest_first(times: Iterable[int | None]) -> tuple[int, ...]:
    """The known times, newest first."""
    return tuple(sorted((time for time in times if time is not None), reverse=True))


# -- what a feed says about itself -------------------------------------------------------------------------


def _base(scan: FeedScan, url: str) -> str:
    """Address that relative links belong to: xml:base, else the site of an RSS feed, else the feed's own."""
    named = scan.root.attribute("xml:base")
    if named:
        return _joined(url, named)
    if scan.root.name != "feed":
        for link in scan.about.get("link", ()):
            site = plain(link.raw).strip()
            if site.startswith(("http://", "https://")):
                return site
    return url


def _relations(links: Sequence[Element]) -> tuple[str, str]:
    """WebSub hub and own address of a feed."""
    hub = self_url = ""
    for link in links:
        href = address_of(link.attribute("href"))
        relations = link.attribute("rel").lower().split()
        if "hub" in relations:
            hub = hub or href
        elif "self" in relations:
            self_url = self_url or href
    return hub, self_url


def _ttl_s(found: Sequence[Element]) -> int | None:
    minutes = _number(plain(found[-1].raw)) if found else None
    return minutes * 60 if minutes is not None and 0 < minutes <= _TTL_MINUTES else None


def _hours(found: Sequence[Element]) -> list[int]:
    raw = found[-1].raw if found else ""
    numbers = (_number(match.group(1)) for match in _CHILDREN.finditer(raw[:_CHILDREN_CHARS]))
    return [number for number in numbers if number is not None]


_CHILDREN_CHARS: Final = 8_192


def _days(found: Sequence[Element]) -> list[int]:
    raw = found[-1].raw if found else ""
    names = (match.group(1).lower() for match in _CHILDREN.finditer(raw[:_CHILDREN_CHARS]))
    return [_DAYS.index(name) for name in names if name in _DAYS]


def _period_s(said: Mapping[str, Sequence[Element]]) -> int | None:
    period = said.get("sy:updateperiod", ())
    often = said.get("sy:updatefrequency", ())
    period_s = _PERIODS_S.get(plain(period[-1].raw).strip().lower()) if period else None
    frequency = (_number(plain(often[-1].raw)) if often else None) or 1
    return period_s // frequency if period_s is not None and 0 < frequency <= period_s else None


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < _NUMBER_CHARS else None


# -- items -------------------------------------------------------------------------------------------------


def _xml_item(said: Mapping[str, Sequence[Element]], base: str) -> FeedItem:
    texts = _texts(said, _TEXTS) or _texts(said, _SPARE_TEXTS)
    own = next((found for name in _IDS for found in map(_said, said.get(name, ())) if found), "")
    published_us = _instant(said, _PUBLISHED)
    return _item(
        own=own,
        title=_title([each for name in _TITLES for each in said.get(name, ())]),
        link=_link(said, base),
        lines=max(texts, key=lambda lines: sum(map(len, lines)), default=[]),
        published_us=published_us if published_us is not None else _instant(said, _UPDATED),
    )


def _texts(said: Mapping[str, Sequence[Element]], names: Sequence[str]) -> list[list[str]]:
    return [text_lines(each.markup, html=each.is_markup) for name in names for each in said.get(name, ())]


def _said(element: Element) -> str:
    return cleaned(plain(element.raw))


def _link(said: Mapping[str, Sequence[Element]], base: str) -> str:
    """Address of an item: the one that is for people, absolute."""
    spare = ""
    for each in said.get("xml:base", ()):
        base = _joined(base, _said(each))
    for link in said.get("link", ()):
        href = link.attribute("href") or _said(link)
        if not href:
            continue
        found = address_of(_joined(base, href))
        if link.attribute("rel").lower() in ("", "alternate"):
            return found
        spare = spare or found
    for name in ("guid", "rdf:about"):
        for each in said.get(name, ()):
            if each.attribute("ispermalink").lower() != "false":
                spare = address_of(_said(each)) or spare
    return spare


def _joined(base: str, link: str) -> str:
    if link.startswith(("http://", "https://")):
        return link
    try:
        return str(URL(base).join(URL(link)))
    except ValueError:  # such as http://[broken
        return ""


def _instant(said: Mapping[str, Sequence[Element]], names: Sequence[str]) -> int | None:
    for name in names:
        for each in said.get(name, ()):
            found = instant_of(_said(each))
            if found is not None:
                return found
    return None


def _title(found: Sequence[Element]) -> str:
    """The first title that is not empty, as plain text: feeds have text, HTML, and HTML escaped twice."""
    for each in found:
        title = _one_line(each.markup, html=each.is_markup)
        if title:
            return title
    return ""


def _one_line(text: str, *, html: bool = True) -> str:
    return " ".join(text_lines(text)) if html and _MARKUP.search(text) else cleaned(text)


def text_lines(text: str, *, html: bool = True) -> list[str]:
    """Lines of the text of an item, which may be HTML; markup beyond the limits gives none."""
    if html and _MARKUP.search(text):
        if _SIMPLE.fullmatch(text) and not _TELLING.search(text):
            found = (cleaned(unescape(_TAG.sub("", part))) for part in _BREAK.split(text))
            return [piece for line in found if line for piece in pieces(line)]
        try:
            return page_lines(tree_of(text), _FRAGMENT).lines
        except ChannelError:
            return []  # only an image, or markup beyond the limits: the title is used alone
    return [piece for line in text.splitlines() for piece in pieces(cleaned(line))]


def _json_feed(root: Any, url: str) -> Content:
    if not isinstance(root, dict) or not isinstance(root.get("items"), list):
        raise ChannelError("the JSON Feed has no items")
    entries = (entry for entry in root["items"][: limits.FEED_ITEMS] if isinstance(entry, dict))
    home = address_of(_text(root.get("home_page_url"))) or url
    items = tuple(distinct(_json_item(entry, home) for entry in entries))
    times = newest_first(item.published_us for item in items)
    hubs = [hub.get("url") for hub in root.get("hubs") or () if isinstance(hub, dict)]
    return Content(
        "feed",
        items=items,
        title=cleaned(_text(root.get("title")))[: limits.TITLE_CHARS],
        modified_us=times[0] if times else None,
        hub=address_of(_text(hubs[0])) if hubs else "",
        self_url=address_of(_text(root.get("feed_url"))),
        hints=FeedHints(item_times_us=times),
    )


def _json_item(entry: Mapping[str, Any], base: str) -> FeedItem:
    plain_text = _text(entry.get("content_text"))
    html = _text(entry.get("content_html"))
    link = _text(entry.get("url")).strip() or _text(entry.get("external_url")).strip()
    return _item(
        own=str(entry.get("id") or ""),
        title=_one_line(_text(entry.get("title"))),
        link=address_of(_joined(base, link)) if link else "",
        lines=text_lines(html) if html else text_lines(plain_text or _text(entry.get("summary")), html=False),
        published_us=instant_of(entry.get("date_published")) or instant_of(entry.get("date_modified")),
    )


def _item(*, own: str, title: str, link: str, lines: Sequence[str], published_us: int | None) -> FeedItem:
    found = (*pieces(title), *_bounded(lines))
    return FeedItem(own.strip()[: limits.URL_CHARS], title[: limits.TITLE_CHARS], link, found, published_us)


def _bounded(lines: Sequence[str]) -> Sequence[str]:
    """The text of an item. What is beyond its bounds is one line, which changes when that part does."""
    room = limits.ITEM_CHARS
    for place, line in enumerate(lines):
        room -= len(line)
        if room < 0 or place >= limits.ITEM_LINES:
            rest = "\n".join(lines[place:])
            print_ = xxh3_64_hexdigest(rest.encode())[:8]
            return (*lines[:place], f"… {len(rest):,} more characters ({print_})")
    return lines


def _text(raw: object) -> str:
    return raw if isinstance(raw, str) else ""


def address_of(text: str) -> str:
    """The text, if it is the address of a page."""
    text = text.strip()
    return text if text.startswith(("http://", "https://")) and len(text) <= limits.URL_CHARS else ""
