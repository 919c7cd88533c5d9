"""Feeds and JSON that change without news, and with news."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from random import Random
from typing import TYPE_CHECKING, Final

from penstock_lab.bench.diff.corpus.words import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock_lab.bench.diff.corpus.sites import Visit

sentence: Final = LANGUAGES[0].sentence


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed: its items, newest first, and how many of them it shows."""

    items: tuple[tuple[str, str, str], ...]
    """(id, title, text) of each item."""
    window: int = 20


def a_feed(seed: int) -> Feed:
    """Return a feed whose items are drawn from the seed."""
    dice = Random(seed)  # noqa: S311  # a fixed workload
    return Feed(tuple((f"id-{seed}-{n}", sentence(dice, 6), sentence(dice, 30)) for n in range(30)))


def rss(feed: Feed, visit: Visit) -> bytes:
    """Render the feed as RSS, with the dates and counters that servers write anew on each request."""
    items = "".join(
        f"<item><guid isPermaLink='false'>{own}</guid><title>{escape(title)}</title>"
        f"<link>https://x.example/{own}</link>"
        f"<description>&lt;p&gt;{escape(text)}&lt;/p&gt;&lt;img src='{visit.dice.random()}'&gt;</description>"
        f"<slash:comments>{visit.minutes}</slash:comments></item>"
        for own, title, text in feed.items[: feed.window]
    )
    return (
        "<?xml version='1.0' encoding='UTF-8'?><rss version='2.0' xmlns:slash='http://purl.org/rss/1.0/modules/slash/'>"
        f"<channel><title>News</title><link>https://x.example/</link><description>d</description>"
        f"<lastBuildDate>{visit.at:%a, %d %b %Y %H:%M:%S} GMT</lastBuildDate>{items}</channel></rss>"
    ).encode()


def atom(feed: Feed, visit: Visit) -> bytes:
    """Render the feed as Atom, with the dates that servers write anew on each request."""
    entries = "".join(
        f"<entry><id>urn:{own}</id><title>{escape(title)}</title><link href='https://x.example/{own}'/>"
        f"<updated>2026-05-01T00:00:00Z</updated>"
        f"<content type='html'>&lt;p&gt;{escape(text)}&lt;/p&gt;</content></entry>"
        for own, title, text in feed.items[: feed.window]
    )
    return (
        "<?xml version='1.0'?><feed xmlns='http://www.w3.org/2005/Atom'><title>News</title><id>urn:x</id>"
        f"<updated>{visit.at:%Y-%m-%dT%H:%M:%SZ}</updated><generator>{visit.dice.random()}</generator>{entries}</feed>"
    ).encode()


def api(feed: Feed, visit: Visit) -> bytes:
    """Render the feed as the JSON of an API, its names in varying order."""
    import json  # noqa: PLC0415  # json keeps the order of insertion, which this page varies

    parts: list[tuple[str, object]] = [
        ("generated_at", f"{visit.at:%Y-%m-%dT%H:%M:%SZ}"),
        ("request_id", f"{visit.dice.getrandbits(128):032x}"),
        (
            "items",
            [{"id": own, "title": title, "text": text} for own, title, text in feed.items[: feed.window]],
        ),
    ]
    visit.dice.shuffle(parts)
    return json.dumps(dict(parts)).encode()


FORMS: Final[dict[str, tuple[str, Callable[[Feed, Visit], bytes]]]] = {
    "RSS": ("application/rss+xml", rss),
    "Atom": ("application/atom+xml", atom),
    "JSON": ("application/json", api),
}

EDITS: Final[dict[str, Callable[[Feed, Random], Feed]]] = {
    "a new item": lambda f, d: replace(
        f, items=((f"id-{d.random()}", sentence(d, 6), sentence(d, 20)), *f.items)
    ),
    "an item's title": lambda f, d: replace(f, items=_changed(f, 2, title=sentence(d, 7))),
    "an item's text": lambda f, d: replace(f, items=_changed(f, 5, text=sentence(d, 31))),
    "an item withdrawn": lambda f, _: replace(f, items=(*f.items[:3], *f.items[4:])),
}


def _changed(feed: Feed, place: int, *, title: str = "", text: str = "") -> tuple[tuple[str, str, str], ...]:
    own, before, body = feed.items[place]
    return (*feed.items[:place], (own, title or before, text or body), *feed.items[place + 1 :])
