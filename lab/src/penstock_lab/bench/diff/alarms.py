"""False alarms and missed changes of the difference engine, beside a text diff and a hash of the page.

Each case is a page seen twice, later and by another visitor: with noise alone, where an alarm is false, or
with noise and one edit, where silence is a miss, and so is an alarm that does not show the edit. A hash shows
nothing and is given every edit. Learning sees three pairs of fetches, each at one moment, before the case.
"""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from penstock.core.channels.difference import Rules, Versions, read
from penstock.core.channels.difference.content import library
from penstock.core.channels.difference.hunks import hunks
from penstock_lab.bench.diff import feed_changes, feeds, web_pages
from penstock_lab.bench.diff.web_pages import START, Visit
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow, interleaved_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock_lab.bench.result import Progress

NAME: Final = "diff"
URL: Final = "https://x.example/page"
CONTRASTS: Final = 3
LATER: Final = (timedelta(minutes=31), timedelta(hours=7, minutes=5), timedelta(days=1, minutes=2))


DEFAULT: Final = Rules()


@dataclass(frozen=True, slots=True)
class PageCase:
    """One page at two visits, and what changed between them."""

    group: str
    """Cases with the same group are counted together."""
    name: str
    content_type: str
    body: Callable[[bool, Visit], bytes]
    """Renders the page before or after the edit, for a visit."""
    edited: bool
    rules: Rules = DEFAULT


@dataclass(slots=True)
class Tally:
    """Errors of one contestant."""

    wrong: Counter[str]
    """Per group: the number of false alarms or misses."""
    names: Counter[str]
    """Per group and case name: the number of false alarms or misses."""


def cases(pages: int) -> Iterator[PageCase]:
    """Return every kind of noise and every edit on every page; edits come with each kind of noise in turn."""
    for seed in range(pages):
        page = web_pages.a_page(seed)
        for group, kinds in (("noise", web_pages.NOISE), ("held out", web_pages.HELD_OUT)):
            for name, noise in kinds.items():
                yield _page_case(group, name, page, page, noise)
        for group, kinds in (("edits", web_pages.NOISE), ("edits amid held-out noise", web_pages.HELD_OUT)):
            noises = list(kinds.values())
            for number, (name, edit) in enumerate(web_pages.EDITS.items()):
                edited = edit(page, Random(seed))  # noqa: S311
                yield _page_case(group, name, page, edited, noises[(seed + number) % len(noises)])
        for name, (edit, rules) in web_pages.TRAPS.items():
            before = replace(page, event=START + timedelta(days=1)) if "event" in name else page
            edited = edit(before, Random(seed))  # noqa: S311
            yield _page_case("traps", name, before, edited, web_pages.none)
            case = _page_case("traps, with a rule", name, before, edited, web_pages.none)
            yield replace(case, rules=Rules(**rules))  # type: ignore[arg-type]
        yield from _feed_cases(feeds.a_feed(seed), seed)


def _page_case(group: str, name: str, old: web_pages.Page, new: web_pages.Page, noise: Any) -> PageCase:
    return PageCase(
        group,
        name,
        "text/html; charset=utf-8",
        lambda now, visit: web_pages.rendered(new if now else old, visit, noise),
        edited=old != new,
    )


def _feed_cases(feed: feeds.Feed, seed: int) -> Iterator[PageCase]:
    for form, (content_type, render) in feeds.FORMS.items():
        yield _feed_case("noise", form, content_type, render, feed, feed)
        for name, edit in feeds.EDITS.items():
            edited = edit(feed, Random(seed))  # noqa: S311
            yield _feed_case("edits", f"{form}: {name}", content_type, render, feed, edited)


def _feed_case(
    group: str, name: str, content_type: str, render: Any, old: feeds.Feed, new: feeds.Feed
) -> PageCase:
    return PageCase(
        group, name, content_type, lambda now, visit: render(new if now else old, visit), edited=old != new
    )


# -- the contestants: what each makes of a case; None: silence, else the lines it shows ----------------------


def ours(case: PageCase, number: int, *, learning: bool = False) -> str | None:
    """The difference engine with its default rules, or those of the case."""

    def content(now: bool, visit: Visit) -> Any:
        return read(case.body(now, visit), content_type=case.content_type, url=URL, rules=case.rules)

    versions = Versions(URL, case.rules)
    if learning:
        for moment in range(CONTRASTS):
            at = START - timedelta(minutes=40 * (CONTRASTS - moment))
            pair = (Visit(at, _dice(number, 10 * moment + who), hits=who) for who in (1, 2))
            versions.contrast(*(content(False, visit) for visit in pair))
    old, new = visits(number)
    versions.receive(content(False, old), now_us=_us(old))
    delta = versions.receive(content(True, new), now_us=_us(new))
    if delta is None:
        return None
    return "\n".join(line for change in delta.changes for line in (*change.old, *change.new))


def text_diff(case: PageCase, number: int) -> str | None:
    """Compare the visible text line by line with difflib."""
    old, new = map(_visible, _bodies(case, number))
    if old == new:
        return None
    return "\n".join(line[1:] for line in difflib.unified_diff(old, new, n=0) if line[0] in "+-")


def page_hash(case: PageCase, number: int) -> str | None:
    """Compare the bytes of both visits."""
    old, new = _bodies(case, number)
    return None if sha256(old).digest() == sha256(new).digest() else "\x00"


def _bodies(case: PageCase, number: int) -> tuple[bytes, bytes]:
    before, after = visits(number)
    return case.body(False, before), case.body(True, after)


def visits(number: int) -> tuple[Visit, Visit]:
    """Two visits of different people, the second half an hour, some hours or a day later."""
    later = _dice(number, 0).choice(LATER)
    return Visit(START, _dice(number, 100), hits=5), Visit(START + later, _dice(number, 200), hits=71)


def _dice(number: int, who: int) -> Random:
    return Random(1_000 * number + who)  # noqa: S311  # a fixed workload


def _us(visit: Visit) -> int:
    return int(visit.at.timestamp()) * 1_000_000


def _visible(body: bytes) -> list[str]:
    if not body.startswith(b"<"):
        return body.decode().split(", ")
    etree = library("lxml.etree")
    is_page = body.startswith(b"<!DOCTYPE")
    root = etree.fromstring(body, etree.HTMLParser(encoding="utf-8") if is_page else None)
    found = root.xpath("//text()[not(ancestor::script or ancestor::style)]")
    return [" ".join(text.split()) for text in found if text.strip()]


# -- counting ------------------------------------------------------------------------------------------------


def judged(case: PageCase, number: int, shown: str | None) -> bool:
    """Return whether a contestant's answer to a case is wrong."""
    if not case.edited:
        return shown is not None
    if shown is None:
        return True
    return shown != "\x00" and not _shows(case, number, shown)


def _shows(case: PageCase, number: int, shown: str) -> bool:
    """Return whether the lines shown contain a word that only the edit added or removed."""
    bodies = [case.body(now, visits(number)[1]) for now in (False, True)]
    words = [Counter(" ".join(_visible(body)).split()) for body in bodies]
    changed = (words[0] - words[1]) + (words[1] - words[0])
    return any(word in shown for word in changed)


def tally(found: list[PageCase], answer: Callable[[PageCase, int], str | None]) -> Tally:
    """Put all cases to one contestant and count its errors."""
    result = Tally(Counter(), Counter())
    for number, case in enumerate(found):
        if judged(case, number, answer(case, number)):
            result.wrong[case.group] += 1
            result.names[f"{case.group}: {case.name}"] += 1
    return result


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure error rates, then speed."""
    start = perf_counter()
    found = list(cases(12 if quick else 40))
    sizes = Counter(case.group for case in found)
    contestants: dict[str, Callable[[PageCase, int], str | None]] = {
        "ours": ours,
        "ours, after learning": lambda case, number: ours(case, number, learning=True),
        "plain text diff": text_diff,
        "hash of the page": page_hash,
    }
    tallies: dict[str, Tally] = {}
    for step, (name, answer) in enumerate(contestants.items()):
        progress(step, len(contestants) + 1, name)
        tallies[name] = tally(found, answer)
    progress(len(contestants), len(contestants) + 1, "speed")
    feed_rows, feed_note = feed_changes.feed_rows(1 if quick else 6)
    rows = [*_rates(tallies, sizes), *feed_rows, *_speed(found, rounds=3 if quick else 9)]
    note = f"{_note(tallies, sizes)}. {feed_note}"
    return BenchmarkResult(NAME, tuple(rows), perf_counter() - start, note=note)


def _rates(tallies: dict[str, Tally], sizes: Counter[str]) -> list[BenchmarkRow]:
    def rate(who: str, group: str) -> float:
        return 100 * tallies[who].wrong[group] / sizes[group]

    rows = []
    for group, who, goal in (
        ("noise", "ours", 10.0),
        ("noise", "ours, after learning", 10.0),
        ("held out", "ours", None),
        ("held out", "ours, after learning", 1.5),
    ):
        for rival in ("plain text diff", "hash of the page"):
            own, other = rate(who, group), rate(rival, group)
            # No error in n cases only shows a rate below one in n, so the ratio is computed with that.
            ratio = other / max(own, 100 / sizes[group])
            label = f"false alarms, {'known' if group == 'noise' else 'held-out'} noise: {who}"
            rows.append(BenchmarkRow(label, own, "%", rival, other, ratio, goal))
    for group, who, goal in (
        ("edits", "ours", 0.98),
        ("edits", "ours, after learning", 0.98),
        ("edits amid held-out noise", "ours, after learning", 0.95),
        ("traps", "ours", None),
        ("traps, with a rule", "ours", 0.98),
    ):
        own, other = 100 - rate(who, group), 100 - rate("plain text diff", group)
        rows.append(
            BenchmarkRow(
                f"changes found, {group}: {who}", own, "%", "plain text diff", other, own / other, goal
            )
        )
    return rows


def _note(tallies: dict[str, Tally], sizes: Counter[str]) -> str:
    """Return how many cases were counted, and in which of them our engine is wrong."""
    counted = ", ".join(f"{number} of {group}" for group, number in sizes.items())
    wrong = {
        who: "; ".join(f"{name} ({times})" for name, times in tallies[who].names.most_common()) or "nothing"
        for who in ("ours", "ours, after learning")
    }
    return f"cases: {counted}. Wrong, {'. Wrong, '.join(f'{who}: {text}' for who, text in wrong.items())}"


def _speed(found: list[PageCase], *, rounds: int) -> list[BenchmarkRow]:
    rows = []
    for group, content_type in (("noise", "text/html"), ("noise", "application/rss+xml")):
        case = next(one for one in found if one.group == group and one.content_type.startswith(content_type))
        body = case.body(False, visits(0)[0])
        versions = Versions(URL, Rules())

        def look(body: bytes = body, case: PageCase = case, versions: Versions = versions) -> object:
            content = read(body, content_type=case.content_type, url=URL, rules=case.rules)
            return versions.receive(content, now_us=1)

        taken = interleaved_ns({"look": look}, rounds=rounds)["look"]
        size = f"{len(body) / 1000:.0f} KB of {content_type.rpartition('/')[2]}"
        rows.append(BenchmarkRow(f"read and compare {size}", 1e9 / taken, "pages/s"))
    shapes = ((100, 0.2), (1_000, 0.2), (5_000, 0.2), (1_000, 0.9))
    return [*rows, *(_opcodes(lines, alike, rounds) for lines, alike in shapes)]


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
    return BenchmarkRow(label, own, "ms", "difflib", other, other / own, 1.5)


def _edited_lines(size: int, alike: float) -> tuple[list[str], list[str]]:
    """Edit 6.8 % of the content (the survey's mean update) in 17 places; some lines equal many others."""
    dice = Random(size)  # noqa: S311  # a fixed workload
    old = [f"one {dice.randrange(20)}" if dice.random() < alike else f"own {n}" for n in range(size)]
    new = list(old)
    each = max(1, int(size * 0.068 / 17))
    for place in sorted(dice.sample(range(size - each), 17), reverse=True):
        new[place : place + each] = [f"new {place} {number}" for number in range(each)]
    return old, new
