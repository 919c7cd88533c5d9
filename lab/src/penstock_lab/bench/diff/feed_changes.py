"""Feeds in ten dialects that change with and without news: is exactly what changed told?

A case is a feed seen twice. Between the looks it is written anew, in another order, with other tracking,
white space, dates, attributes or ids, where any alarm is false; or one item is also added, removed or edited,
where the delta must name that item and no other.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from html import escape
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.core.channels.difference import Rules, Versions, read
from penstock_lab.bench.diff.feeds import sentence
from penstock_lab.bench.result import BenchmarkRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

URL: Final = "https://x.example/feeds/news"
START_US: Final = 1_778_580_000_000_000
WINDOW: Final = 10
"""Articles that a feed shows."""


@dataclass(frozen=True, slots=True)
class Item:
    """One article."""

    key: str
    title: str
    paragraphs: tuple[str, ...]
    day: int


@dataclass(frozen=True, slots=True)
class Writing:
    """One way in which a server writes a feed."""

    dice: Random = field(default_factory=lambda: Random(0))  # noqa: S311  # a fixed workload
    shuffled: bool = False
    tracked: bool = False
    spaced: bool = False
    dated: bool = False
    """Whether the feed has the date of the request in it, in another format."""
    styled: bool = False
    """Whether the markup has other attributes."""
    ids: str = ""
    """How ids are made: empty as always, or by another scheme, or at random."""

    def link(self, item: Item) -> str:
        """Address of an article."""
        mark = f"?utm_source=feed&utm_campaign={self.dice.random()}" if self.tracked else ""
        return f"https://x.example/{item.key}{mark}"

    def own(self, item: Item) -> str:
        """Id of an article."""
        return {"": f"tag:x,{item.key}", "scheme": f"https://x.example/?p={item.key}"}.get(
            self.ids, f"urn:{self.dice.getrandbits(64)}"
        )

    def date(self, item: Item) -> str:
        """When an article was published."""
        return f"2026-05-{item.day:02}T09:00:00{'+00:00' if self.dated else 'Z'}"

    def html(self, item: Item) -> str:
        """The text of an article, with a picture and the links of every server."""
        gap = "\n   \t" if self.spaced else ""
        style = f" class='c{self.dice.getrandbits(20)}' data-v='{self.dice.random()}'" if self.styled else ""
        parts = "".join(f"{gap}<p{style}>{gap}{escape(each)}{gap}</p>" for each in item.paragraphs)
        mark = self.dice.random() if self.tracked else 1
        more = f"<p><a href='{escape(self.link(item))}'>More</a></p>"
        return f"{parts}<img src='https://stat.example/{mark}.gif'>{more}"


def _rss(items: Iterator[str], w: Writing, *, head: str = "") -> str:
    built = w.dice.getrandbits(16) if w.dated else 0
    return (
        "<?xml version='1.0'?><rss version='2.0' xmlns:content='http://purl.org/rss/1.0/modules/content/'>"
        f"<channel><title>News</title><link>https://x.example/</link>{head}<generator>g{built}</generator>"
        + ("\n\n" if w.spaced else "").join(f"<item>{each}</item>" for each in items)
        + "</channel></rss>"
    )


def _escaped(i: Item, w: Writing) -> str:
    return (
        f"<guid isPermaLink='false'>{w.own(i)}</guid><title>{escape(i.title)}</title>"
        f"<link>{escape(w.link(i))}</link><pubDate>{w.date(i)}</pubDate>"
        f"<description>{escape(w.html(i))}</description>"
    )


def _cdata(i: Item, w: Writing) -> str:
    return (
        f"<title><![CDATA[{i.title}]]></title><guid>{escape(w.own(i))}</guid><link>{escape(w.link(i))}</link>"
        f"<description>{escape(i.paragraphs[0][:40])} [...]</description>"
        f"<content:encoded><![CDATA[{w.html(i)}]]></content:encoded><pubDate>{w.date(i)}</pubDate>"
    )


def _unnamed(i: Item, w: Writing) -> str:
    return (
        f"<title>{escape(i.title)}</title><link>{escape(w.link(i))}</link><pubDate>{w.date(i)}</pubDate>"
        f"<description>{escape(w.html(i))}</description>"
    )


def _one_link(i: Item, w: Writing) -> str:
    return (
        f"<title>{escape(i.title)}</title><link>https://x.example/</link><pubDate>{w.date(i)}</pubDate>"
        f"<description>{escape(w.html(i))}</description>"
    )


def _broken(i: Item, w: Writing) -> str:
    return (
        f"<guid isPermaLink='false'>{w.own(i)}</guid>"
        f"<title>Caf&eacute; &nosuch; &mdash; R&D: {i.title}</title>"
        f"<link>/{i.key}</link><pubDate>{w.date(i)}</pubDate><description>{w.html(i)}<br></description>"
    )


def _rdf(items: tuple[Item, ...], w: Writing) -> str:
    found = "".join(
        f"<item rdf:about='{escape(w.own(i))}'><title>{escape(i.title)}</title>"
        f"<link>{escape(w.link(i))}</link>"
        f"<dc:date>{w.date(i)}</dc:date><description>{escape(w.html(i))}</description></item>"
        for i in items
    )
    return (
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/' "
        "xmlns:dc='http://purl.org/dc/elements/1.1/'><channel><title>News</title></channel>"
        f"<image><title>Logo</title></image>{found}</rdf:RDF>"
    )


def _atom(items: tuple[Item, ...], w: Writing, *, inline: bool) -> str:
    def text(item: Item) -> str:
        markup = w.html(item)
        if not inline:
            return f"<content type='html'>{escape(markup)}</content>"
        whole = markup.replace(".gif'>", ".gif'/>")
        return f"<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'>{whole}</div></content>"

    entries = "".join(
        f"<entry><id>{escape(w.own(i))}</id><title>{escape(i.title)}</title>"
        f"<link href='{escape(w.link(i))}'/>"
        f"<published>{w.date(i)}</published><updated>{w.date(i)}</updated>{text(i)}</entry>"
        for i in items
    )
    when = f"2026-05-28T{w.dice.randrange(10, 20) if w.dated else 10}:00:00Z"
    return f"<feed xmlns='http://www.w3.org/2005/Atom'><title>News</title><updated>{when}</updated>{entries}</feed>"


def _json_feed(items: tuple[Item, ...], w: Writing) -> str:
    found = [
        {
            "id": w.own(i),
            "url": w.link(i),
            "title": i.title,
            "content_html": w.html(i),
            "date_published": w.date(i),
        }
        for i in items
    ]
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "News", "items": found})


DIALECTS: Final[dict[str, Callable[[tuple[Item, ...], Writing], str]]] = {
    "RSS, escaped": lambda items, w: _rss((_escaped(i, w) for i in items), w),
    "RSS, CDATA": lambda items, w: _rss((_cdata(i, w) for i in items), w),
    "RSS without ids": lambda items, w: _rss((_unnamed(i, w) for i in items), w),
    "RSS with one link": lambda items, w: _rss((_one_link(i, w) for i in items), w),
    "RSS, not well formed": lambda items, w: _rss((_broken(i, w) for i in items), w),
    "RSS behind a warning": lambda items, w: (
        "Warning: x in y.php\n" + _rss((_escaped(i, w) for i in items), w)
    ),
    "RDF": _rdf,
    "Atom, HTML": lambda items, w: _atom(items, w, inline=False),
    "Atom, XHTML": lambda items, w: _atom(items, w, inline=True),
    "JSON Feed": _json_feed,
}
NOISE: Final[dict[str, dict[str, object]]] = {
    "another order": {"shuffled": True},
    "tracking parameters": {"tracked": True},
    "white space": {"spaced": True},
    "dates": {"dated": True},
    "attributes": {"styled": True},
    "ids by another scheme": {"ids": "scheme"},
    "ids at random": {"ids": "random"},
    "all but the ids": {"shuffled": True, "tracked": True, "spaced": True, "dated": True, "styled": True},
}
EDITS: Final = ("added", "removed", "title", "first words", "in the middle", "last words", "appended")


def a_feed(seed: int) -> tuple[Item, ...]:
    """Twelve articles, newest first, of which a feed shows ten; one is long."""
    dice = Random(seed)  # noqa: S311  # a fixed workload
    found = []
    for number in range(12):
        paragraphs = 250 if number == 1 + seed % 8 else dice.randint(1, 6)
        texts = tuple(sentence(dice, dice.randint(12, 30)) for _ in range(paragraphs))
        found.append(Item(f"{seed}-{number}", f"{sentence(dice, 6)} {number}", texts, 20 - number))
    return tuple(found)


def edited(items: tuple[Item, ...], kind: str, dice: Random) -> tuple[tuple[Item, ...], set[tuple[str, str]]]:
    """The feed after an edit, and what has to be told."""
    place = dice.randrange(1, WINDOW - 1)
    item = items[place]
    texts = item.paragraphs
    middle = len(texts) // 2
    words = sentence(dice, 9)
    match kind:
        case "added":
            new = Item(f"new-{dice.random()}", f"{sentence(dice, 7)} today", (words,), 21)
            return (new, *items), {("new", new.title)}
        case "removed":
            return (*items[:place], *items[place + 1 :]), {("gone", item.title)}
        case "title":
            item = replace(item, title=f"{item.title}, corrected")
        case "first words":
            item = replace(item, paragraphs=(f"{words} {texts[0]}", *texts[1:]))
        case "in the middle":
            item = replace(item, paragraphs=(*texts[:middle], words, *texts[middle + 1 :]))
        case "last words":
            item = replace(item, paragraphs=(*texts[:-1], f"{texts[-1]} {words}"))
        case _:
            item = replace(item, paragraphs=(*texts, words))
    return (*items[:place], item, *items[place + 1 :]), {("changed", item.title)}


def told(before: str, after: str) -> set[tuple[str, str]]:
    """The changes of a feed that our engine tells; of titles only the words behind the last colon."""
    versions = Versions(URL, Rules())
    for at_us, text in enumerate((before, after), START_US):
        content = read(text.encode(), content_type="application/xml", url=URL, rules=Rules())
        delta = versions.receive(content, now_us=at_us)
    return set() if delta is None else {(each.kind, _title(each.title)) for each in delta.items}


def _title(text: str) -> str:
    return text.rpartition(": ")[2]


def measured(seeds: int) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Cases, false alarms and inexact deltas, by kind."""
    cases: Counter[str] = Counter()
    false: Counter[str] = Counter()
    inexact: Counter[str] = Counter()
    for seed in range(seeds):
        items = a_feed(seed)
        for number, (dialect, write) in enumerate(DIALECTS.items()):
            before = write(items[:WINDOW], Writing())
            for name, how in NOISE.items():
                cases["noise"] += 1
                if told(before, _written(write, items, how, seed)):
                    false[f"{name}, {dialect}"] += 1
            for place, kind in enumerate(EDITS):
                dice = Random(f"{seed} {dialect} {kind}")  # noqa: S311
                after, expected = edited(items, kind, dice)
                # Another order and other ids at the same moment as an edit are another question.
                how = list(NOISE.values())[1 + (seed + number + place) % 4]
                cases["edits"] += 1
                if told(before, _written(write, after, how, seed)) != expected:
                    inexact[f"{kind}, {dialect}"] += 1
    return cases, false, inexact


def _written(
    write: Callable[[tuple[Item, ...], Writing], str],
    items: tuple[Item, ...],
    how: dict[str, object],
    seed: int,
) -> str:
    writing = Writing(dice=Random(seed + 1), **how)  # type: ignore[arg-type]  # noqa: S311
    items = items[:WINDOW]
    if writing.shuffled:
        items = tuple(writing.dice.sample(items, len(items)))
    return write(items, writing)


def feed_rows(seeds: int) -> tuple[list[BenchmarkRow], str]:
    """Rows of the benchmark, and which cases were wrong."""
    cases, false, inexact = measured(seeds)
    exact = 100 - 100 * inexact.total() / cases["edits"]
    alarms = 100 * false.total() / cases["noise"]
    rows = [
        BenchmarkRow("feeds: changes told exactly", exact, "%", "all", 100.0, exact / 100, 0.99),
        BenchmarkRow(
            "feeds: false alarms", alarms, "%", "allowed", 1.0, 1 / max(alarms, 0.01), 1.0, less=True
        ),
    ]
    wrong = "; ".join(f"{name} ({times})" for name, times in (false + inexact).most_common(8)) or "nothing"
    return rows, f"feeds: {cases['noise']} of noise, {cases['edits']} of edits; wrong: {wrong}"
