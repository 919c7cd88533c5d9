"""Kinds of edits: what a subscriber should be told of. Each takes a page and dice, and returns a page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock_lab.bench.diff.corpus.sites import START

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from penstock_lab.bench.diff.corpus.sites import Page

Edit: TypeAlias = "Callable[[Page, Random], Page]"


def _paragraph(page: Page, dice: Random, change: Callable[[str], str]) -> Page:
    at = dice.randrange(len(page.paragraphs))
    texts = page.paragraphs
    return replace(page, paragraphs=(*texts[:at], change(texts[at]), *texts[at + 1 :]))


def _word(text: str, dice: Random, page: Page) -> str:
    if page.language.code == "ja":
        at = dice.randrange(len(text))
        return text[:at] + "新しい" + text[at:]
    words = text.split(" ")
    words[dice.randrange(len(words))] = f"re{dice.choice(page.language.words)}ed"
    return " ".join(words)


def _row(page: Page, dice: Random, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Page:
    if not page.rows:
        return _fact(page, 1, lambda text: text + "-rc1")
    at = dice.randrange(len(page.rows))
    return replace(page, rows=(*page.rows[:at], change(page.rows[at]), *page.rows[at + 1 :]))


def _cell(page: Page, dice: Random, column: int, change: Callable[[str], str]) -> Page:
    def changed(row: tuple[str, ...]) -> tuple[str, ...]:
        n = column % len(row)
        return (*row[:n], change(row[n]), *row[n + 1 :])

    return _row(page, dice, changed)


def _fact(page: Page, at: int, change: Callable[[str], str]) -> Page:
    facts = page.facts
    return replace(page, facts=(*facts[:at], change(facts[at]), *facts[at + 1 :]))


def _bumped(text: str) -> str:
    """The last number of a text, one higher."""
    end = max((n for n, sign in enumerate(text) if sign.isdigit()), default=-1) + 1
    start = end
    while start and text[start - 1].isdigit():
        start -= 1
    return f"{text[:start]}{int(text[start:end]) + 1:0{end - start}}{text[end:]}" if end else text + " 1"


def _when(page: Page, days: int) -> str:
    at = START + timedelta(days=days)
    return f"{page.language.labels['deadline']}: {at.day} {page.language.months[at.month - 1]}"


def with_deadline(page: Page) -> Page:
    """The page with a deadline two days after START: near now, and content all the same."""
    return replace(page, facts=(*page.facts, _when(page, 2)))


EDITS: Final[dict[str, Edit]] = {
    "a word": lambda p, d: _paragraph(p, d, lambda text: _word(text, d, p)),
    "a letter": lambda p, d: _paragraph(
        p, d, lambda text: text.replace("e", "é", 1) if "e" in text else text + "々"
    ),
    "a paragraph more": lambda p, d: replace(
        p, paragraphs=(*p.paragraphs[:1], p.language.sentence(d, 14), *p.paragraphs[1:])
    ),
    "a paragraph more at the end": lambda p, d: replace(
        p, paragraphs=(*p.paragraphs, p.language.sentence(d, 20))
    ),
    "a paragraph less": lambda p, _: replace(p, paragraphs=p.paragraphs[1:]),
    "the headline": lambda p, d: replace(p, title=_word(p.title, d, p)),
    "a number in the text": lambda p, d: _paragraph(p, d, lambda text: f"{d.randint(3, 99)} {text}"),
    "a sentence more": lambda p, d: _paragraph(p, d, lambda text: f"{text} {p.language.sentence(d, 6)}"),
    "a price": lambda p, d: _cell(p, d, 1, lambda text: _bumped(_bumped(text))),
    "a cell": lambda p, d: _cell(p, d, -1, lambda text: _word(text, d, p)),
    "sold out": lambda p, d: _cell(p, d, -1, lambda _: p.language.labels["sold"]),
    "degraded": lambda p, d: _cell(p, d, 1, lambda _: p.language.labels["degraded"]),
    "a row more": lambda p, d: replace(p, rows=(*p.rows, (f"+ {p.language.sentence(d, 2)}", "1", "2"))),
    "a row less": lambda p, _: replace(p, rows=p.rows[1:]) if p.rows else replace(p, facts=p.facts[1:]),
    "a result": lambda p, d: _cell(p, d, 2, _bumped),
    "two rows": lambda p, d: _row(_row(p, d, lambda row: (*row[:-1], "x")), d, lambda row: ("y", *row[1:])),
    "a comment": lambda p, d: replace(p, posts=(*p.posts, ("Eve", p.language.sentence(d, 8), 1))),
    "a comment in front": lambda p, d: replace(p, posts=(("Eve", p.language.sentence(d, 8), 1), *p.posts)),
    "a comment less": lambda p, _: replace(p, posts=p.posts[:-1]),
    "the date of the event": lambda p, d: _fact(
        p,
        0,
        lambda text: text.replace(text.split()[1], str((int(text.split()[1]) + d.randint(1, 9)) % 28 + 1)),
    ),
    "the opening time": lambda p, _: _fact(p, 0, lambda text: text.replace("19:00", "09:30")),
    "the version": lambda p, _: _fact(p, 1, _bumped),
    "the telephone": lambda p, _: _fact(p, 2, _bumped),
    "the deadline": lambda p, _: replace(p, facts=(*p.facts[:-1], _when(p, 5))),
    "a link more": lambda p, d: replace(p, links=(p.language.sentence(d, 5)[:-1], *p.links)),
    "a link's text": lambda p, d: replace(p, links=(_word(p.links[0], d, p), *p.links[1:])),
}
