"""Pages of six kinds of sites: a shop, news, a forum, a status page, a table of results, a wiki.

A page is drawn from a seed; it is rendered for a visit, with the noise of that visit in its slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from random import Random
from typing import TYPE_CHECKING, Final

from penstock_lab.bench.diff.corpus.words import LANGUAGES, Language

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS: Final = ("shop", "news", "forum", "status", "table", "wiki")
START: Final = datetime(2026, 5, 12, 9, 47, 3, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Visit:
    """One fetch: when, by whom, and the dice of this request."""

    at: datetime
    dice: Random = field(compare=False)

    @property
    def minutes(self) -> int:
        """Minutes since START."""
        return int((self.at - START).total_seconds() // 60)

    def hits(self, rate: float, seed: int) -> int:
        """A counter that grows by `rate` a minute on average, the same for all visitors."""
        whole = self.minutes * rate
        return int(whole + Random(seed * 1_000_003 + int(whole)).random())  # noqa: S311


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page, before noise."""

    seed: int
    kind: str
    language: Language
    title: str
    paragraphs: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Products, results or components."""
    posts: tuple[tuple[str, str, int], ...]
    """(name, text, minutes before START) of comments, incidents or revisions."""
    facts: tuple[str, ...]
    """Lines with dates, versions and numbers that are content."""
    links: tuple[str, ...] = ()

    def draw(self, salt: int) -> Random:
        """Dice that depend on the page only."""
        return Random(self.seed * 7_919 + salt)  # noqa: S311


def a_page(seed: int) -> Page:
    """A page whose kind, language and content are drawn from the seed."""
    dice = Random(seed)  # noqa: S311
    kind = KINDS[seed % len(KINDS)]
    language = LANGUAGES[(seed // len(KINDS) + seed) % len(LANGUAGES)]
    said = language.labels
    long = {"news": (6, 14), "wiki": (8, 18)}.get(kind, (1, 4))
    event = START + timedelta(days=dice.randint(20, 200))
    month = language.months[event.month - 1]
    return Page(
        seed,
        kind,
        language,
        language.sentence(dice, 5)[:-1],
        tuple(" ".join(language.sentence(dice, 11) for _ in range(3)) for _ in range(dice.randint(*long))),
        tuple(_rows(kind, language, dice)),
        tuple(
            (dice.choice(("Ann", "Bob", "Zoe", "Max")), language.sentence(dice, 8), dice.randint(3, 4_000))
            for _ in range({"forum": 14, "status": 5, "news": 4}.get(kind, 2))
        ),
        (
            f"{said['event']}: {event.day} {month} {event.year}, {said['opens']} 19:00",
            f"{said['version']} {dice.randint(1, 9)}.{dice.randint(0, 9)}.{dice.randint(0, 20)}",
            f"{said['phone']} 555 {dice.randint(1000, 9999)}",
        ),
        tuple(language.sentence(dice, 6)[:-1] for _ in range({"news": 12}.get(kind, 3))),
    )


def _rows(kind: str, language: Language, dice: Random) -> Sequence[tuple[str, ...]]:
    said = language.labels
    if kind == "shop":
        return [
            (
                good,
                f"EUR {dice.randint(5, 900)}.{dice.randint(10, 99)}",
                f"{dice.randint(2, 40)} {said['stock']}",
            )
            for good in dice.sample(language.goods, 8)
        ]
    if kind == "table":
        names = dice.sample(("Ann", "Bob", "Zoe", "Max", "Eva", "Tim", "Lea", "Kai", "Ida", "Leo"), 10)
        return [
            (
                f"{rank}.",
                name,
                f"{dice.randint(1, 3)}:{dice.randint(10, 59)}:{dice.randint(10, 59)}",
                f"{90 - 5 * rank}",
            )
            for rank, name in enumerate(names, 1)
        ]
    if kind == "status":
        return [(f"API {letter}", said["ok"]) for letter in "ABCDEF"]
    if kind == "wiki":
        return [(language.sentence(dice, 2)[:-1], str(dice.randint(1800, 2020))) for _ in range(5)]
    return []


def rendered(page: Page, slots: dict[str, str]) -> bytes:
    """The HTML of a page. Slots: head, body, top, middle, end, side, footer, `row N`, `post N`,
    `class`."""

    def slot(name: str) -> str:
        return slots.get(name, "")

    mark = slot("class")
    is_plain = page.seed % 5 == 0  # old pages have neither main nor nav
    main, nav, foot = ("div", "div", "div") if is_plain else ("main", "nav", "footer")
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + slot(f"row {number}") + "</tr>"
        for number, row in enumerate(page.rows)
    )
    posts = "".join(
        f"<li class='post {mark}'><b>{name}</b> <span class='meta'>{slot(f'post {number}')}</span>"
        f"<p>{escape(text)}</p></li>"
        for number, (name, text, _) in enumerate(page.posts)
    )
    said = page.language.labels
    links = "".join(f"<li><a href='/{n}'>{escape(text)}</a></li>" for n, text in enumerate(page.links))
    return f"""<!DOCTYPE html>
<html lang="{page.language.code}"><head><meta charset="utf-8"><title>{escape(page.title)}</title>
{slot("head")}</head><body {slot("body")}><{nav} id="topnav"><ul><li><a href="/">{said["home"]}</a></li>
<li><a href="/a">{said["about"]}</a></li></ul></{nav}>
<{main} class="content {mark}">{slot("top")}<h1>{escape(page.title)}</h1>
{"".join(f"<p class='text {mark}'>{escape(text)}</p>" for text in page.paragraphs)}
{slot("middle")}
{"".join(f"<p class='fact'>{escape(text)}</p>" for text in page.facts)}
<table class="{mark}">{rows}</table>
<ul class="links">{links}</ul>
<h2>{said["comments"]}</h2><ul class="posts">{posts}</ul>{slot("end")}</{main}>
{slot("side")}<{foot} class="foot"><p>{said["about"]}</p>{slot("footer")}</{foot}></body></html>""".encode()
