"""What a feed says about itself beside its items: how often to ask, where its hub is, its own address.

Read with lxml, since the readers of items leave most of it out: bounded, without entities or network.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.core.channels.difference.libraries import library

if TYPE_CHECKING:
    from collections.abc import Iterable

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PERIODS_S: Final = {
    "hourly": 3_600,
    "daily": 86_400,
    "weekly": 604_800,
    "monthly": 2_592_000,
    "yearly": 31_536_000,
}
_TTL_MINUTES: Final = 525_600
"""A year: a longer ttl is a mistake."""
_LOOKED_AT: Final = 5_000
"""Elements below the root, items among them."""


class Said(msgspec.Struct):
    """What was found."""

    ttl_s: int | None = None
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()
    period_s: int | None = None
    frequency: int = 1
    update_period_s: int | None = None
    hub: str = ""
    self_url: str = ""


def said_by(body: bytes) -> Said:
    """What the feed says; what is broken or absurd is left out."""
    etree = library("lxml.etree")
    parser = etree.XMLParser(
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        encoding="utf-8",
    )
    said = Said()
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


def _take(element: Any, name: str, said: Said) -> None:
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
    """Times of items that have one."""
    return tuple(sorted((time for time in times if time is not None), reverse=True))


def _link(element: Any, said: Said) -> None:
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
