"""Measures how fast pages are read and compared, and differences of lines found, beside difflib."""

from __future__ import annotations

import difflib
from random import Random
from typing import TYPE_CHECKING

from penstock.core.channels.difference import Rules, Versions, read
from penstock.core.channels.difference.hunks import hunks
from penstock_lab.bench.diff import feeds
from penstock_lab.bench.diff.corpus.noises import NOISES
from penstock_lab.bench.diff.corpus.sites import START, Visit, a_page
from penstock_lab.bench.diff.subscription import URL, GeneratedPage, TextDiff
from penstock_lab.bench.result import BenchmarkRow, interleaved_ns

if TYPE_CHECKING:
    from collections.abc import Iterator


def speed_rows(rounds: int) -> Iterator[BenchmarkRow]:
    """Rows of speed."""
    page = GeneratedPage(a_page(7), (), 7)
    yield _look("the same page", [page.body(START)], "text/html; charset=utf-8", rounds)
    noisy = GeneratedPage(a_page(7), [NOISES["views"], NOISES["ages of posts"], NOISES["a saying"]], 7)
    bodies = [noisy.body(START) for _ in range(8)]
    yield _look("a page with noise", bodies, "text/html; charset=utf-8", rounds)
    feed = feeds.rss(feeds.a_feed(1), Visit(START, Random(1)))  # noqa: S311
    yield _look("the same feed", [feed], "application/rss+xml", rounds)
    for lines, alike in ((100, 0.2), (1_000, 0.2), (5_000, 0.2), (1_000, 0.9)):
        yield _opcodes(lines, alike, rounds)


def _look(what: str, bodies: list[bytes], content_type: str, rounds: int) -> BenchmarkRow:
    versions = Versions(URL, Rules())
    number = 0

    def look() -> object:
        nonlocal number
        number += 1
        body = bodies[number % len(bodies)]
        content = read(body, content_type=content_type, url=URL, rules=versions.rules)
        return versions.look(content, now_us=number * 900_000_000, alone=True)

    name = f"read and compare {what}, {len(bodies[0]) / 1000:.0f} KB"
    if not content_type.startswith("text/html"):
        return BenchmarkRow(name, 1e9 / interleaved_ns({"look": look}, rounds=rounds)["look"], "pages/s")
    plain = TextDiff()

    def text_diff() -> object:
        return plain.poll(lambda _: bodies[number % len(bodies)], START)

    taken = interleaved_ns({"look": look, "text diff": text_diff}, rounds=rounds)
    own, other = 1e9 / taken["look"], 1e9 / taken["text diff"]
    return BenchmarkRow(name, own, "pages/s", "plain text diff", other, own / other)


def _opcodes(lines: int, alike: float, rounds: int) -> BenchmarkRow:
    old, new = _edited_lines(lines, alike)
    taken = interleaved_ns(
        {
            "ours": lambda: hunks(old, new),
            "difflib": lambda: difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes(),
        },
        rounds=rounds,
    )
    own, other = taken["ours"] / 1e6, taken["difflib"] / 1e6
    label = f"differences of {lines} lines, {alike:.0%} of them alike"
    return BenchmarkRow(label, own, "ms", "difflib", other, other / own, 1.5, less=True)


def _edited_lines(size: int, alike: float) -> tuple[list[str], list[str]]:
    """Edit 6.8 % of the content (the survey's mean update) in 17 places; some lines equal many others."""
    dice = Random(size)  # noqa: S311  # a fixed workload
    old = [f"one {dice.randrange(20)}" if dice.random() < alike else f"own {n}" for n in range(size)]
    new = list(old)
    each = max(1, int(size * 0.068 / 17))
    for place in sorted(dice.sample(range(size - each), 17), reverse=True):
        new[place : place + each] = [f"new {place} {number}" for number in range(each)]
    return old, new
