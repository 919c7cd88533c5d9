"""False alarms and missed changes of the difference engine, on kinds of noise and edits that are held out.

Each case is a subscription: two fetches, a silent third five minutes later, then a poll every 15 minutes, of
which the first only teaches. Noise alone: every message is a false alarm. With an edit after one and a half
hours: found if one of the next two polls tells it and shows a word of it. Rivals see the same polls; a hash
shows nothing and is given every edit. What would make a row fail is the limit beside it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock_lab.bench.diff import feed_changes, feeds
from penstock_lab.bench.diff.corpus.edits import with_deadline
from penstock_lab.bench.diff.corpus.sites import Visit, a_page
from penstock_lab.bench.diff.corpus.split import (
    HELD_OUT_EDITS,
    HELD_OUT_NOISES,
    LAST_NOISES,
    SEEN_EDITS,
    SEEN_NOISES,
)
from penstock_lab.bench.diff.speed import speed_rows
from penstock_lab.bench.diff.subscription import (
    EVERYTHING,
    QUIET,
    ChangedetectionDefaults,
    GeneratedPage,
    Ours,
    PageHash,
    TextDiff,
    Watcher,
    moments,
    visible,
)
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from penstock_lab.bench.diff.corpus.sites import Page
    from penstock_lab.bench.diff.corpus.split import Edit, Noise
    from penstock_lab.bench.result import Progress

NAME: Final = "diff"
SHOWS: Final = Shows(live=False)

DAY: Final = 96
WEEK: Final = 7 * DAY
AT_ONCE: Final = 4
"""Kinds of noise on one page in a mixed case."""
EDITED_AT: Final = 8
"""Index of the moment before which the page is edited."""
ALARM_LIMIT: Final = 3.0
"""% of polls with a false alarm, from the first told poll on."""
WEEK_LIMIT: Final = 1.0
"""False alarms per subscription-week."""
FOUND_LIMIT: Final = 98.0
"""% of edits that must be found."""


@dataclass(frozen=True, slots=True)
class NoiseCase:
    """A page with noise that nobody edits."""

    name: str
    noises: tuple[Noise, ...]
    seed: int


@dataclass(slots=True)
class Alarms:
    """False alarms of one contestant."""

    first: int = 0
    subscriptions: int = 0
    day: int = 0
    day_polls: int = 0
    later: int = 0
    later_polls: int = 0
    week: int = 0
    weeks: int = 0
    fetches: int = 0
    names: Counter[str] = field(default_factory=Counter)

    def note(self, case: NoiseCase, told: Sequence[bool]) -> None:
        """Count the polls of a subscription, from the first that may tell something."""
        self.subscriptions += 1
        self.first += told[0]
        self.day += sum(told[:DAY])
        self.day_polls += len(told[:DAY])
        self.later += sum(told[DAY:])
        self.later_polls += len(told[DAY:])
        if len(told) >= WEEK - QUIET:
            self.week += sum(told)
            self.weeks += 1
        self.names[case.name] += sum(told)

    @property
    def per_poll(self) -> float:
        """% of polls with an alarm."""
        return 100 * (self.day + self.later) / max(self.day_polls + self.later_polls, 1)


def noise_cases(kinds: Mapping[str, Noise], *, pages: int, mixes: int) -> Iterator[NoiseCase]:
    """Each kind alone on some pages, then several at once."""
    for number, (name, noise) in enumerate(kinds.items()):
        for page in range(pages):
            yield NoiseCase(name, (noise,), 10 * number + page)
    names = list(kinds)
    for number in range(mixes):
        picked = Random(number).sample(names, AT_ONCE)  # noqa: S311
        yield NoiseCase(" + ".join(picked), tuple(kinds[name] for name in picked), 1_000 + number)


def false_alarms(cases: Sequence[tuple[NoiseCase, int]], contestant: Callable[[], Watcher]) -> Alarms:
    """Run subscriptions of so many polls each, and count the messages."""
    found = Alarms()
    for case, polls in cases:
        watcher = contestant()
        page = GeneratedPage(with_deadline(a_page(case.seed)), case.noises, case.seed)
        told = [watcher.poll(page.body, at) is not None for at in moments(polls)]
        found.note(case, told[QUIET:])
        if isinstance(watcher, Ours):
            found.fetches += watcher.fetches
    return found


@dataclass(slots=True)
class Found:
    """Edits found by one contestant."""

    edits: int = 0
    found: int = 0
    missed: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """% of edits found."""
        return 100 * self.found / max(self.edits, 1)


def edits_found(
    edits: Mapping[str, Edit], noises: Mapping[str, Noise], pages: int, contestant: Callable[[], Watcher]
) -> Found:
    """Edit pages amid noise, and count what is told."""
    result = Found()
    names = list(noises)
    for seed in range(pages):
        for number, (name, edit) in enumerate(edits.items()):
            noise = names[(seed + number) % len(names)]
            base = with_deadline(a_page(seed))
            edited = edit(base, Random(seed))  # noqa: S311
            if edited == base:
                continue
            page = GeneratedPage(base, (noises[noise],), seed)
            result.edits += 1
            if _is_told(page, edited, contestant()):
                result.found += 1
            else:
                result.missed[f"{name} amid {noise}"] += 1
    return result


def _is_told(page: GeneratedPage, edited: Page, watcher: Watcher) -> bool:
    polls = moments(EDITED_AT)
    for at in polls[:EDITED_AT]:
        watcher.poll(page.body, at)
    before = Counter(" ".join(visible(page.body(polls[EDITED_AT]))).split())
    page.page = edited
    after = Counter(" ".join(visible(page.body(polls[EDITED_AT]))).split())
    words = (before - after) + (after - before)
    for at in polls[EDITED_AT:]:
        told = watcher.poll(page.body, at)
        if told == EVERYTHING or (told is not None and any(word in told for word in words)):
            return True
    return False


def _answering(
    feed: feeds.Feed, render: Callable[[feeds.Feed, Visit], bytes], number: int
) -> Callable[[datetime], bytes]:
    dice = Random(number)  # noqa: S311
    return lambda at: render(feed, Visit(at, dice))


def _feeds(pages: int) -> tuple[int, int, Found]:
    """False alarms, subscriptions and edits of feeds and JSON."""
    alarms = cases = 0
    found = Found()
    for seed in range(pages):
        feed = feeds.a_feed(seed)
        for content_type, render in feeds.FORMS.values():
            for name, edit in ((None, None), *feeds.EDITS.items()):
                edited = feed if edit is None else edit(feed, Random(seed))  # noqa: S311
                watcher = Ours(content_type=content_type)
                polls = moments(EDITED_AT)
                told = [
                    watcher.poll(_answering(feed if n < EDITED_AT else edited, render, n), at)
                    for n, at in enumerate(polls)
                ]
                if name is None:
                    cases += 1
                    alarms += any(each is not None for each in told[QUIET:])
                else:
                    found.edits += 1
                    found.found += any(each is not None for each in told[EDITED_AT:])
    return alarms, cases, found


RIVALS: Final[dict[str, Callable[[], Watcher]]] = {
    "plain text diff": TextDiff,
    "hash of the page": PageHash,
    "changedetection.io defaults": ChangedetectionDefaults,
}


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure error rates, then speed."""
    start = perf_counter()
    steps = iter(range(100))

    def step(what: str) -> None:
        progress(next(steps), 7, what)

    step("false alarms, held-out kinds")
    held = _subscriptions(HELD_OUT_NOISES, quick=quick)
    ours = false_alarms(held, Ours)
    step("false alarms, kinds written last")
    fresh = noise_cases(LAST_NOISES, pages=1 if quick else 2, mixes=0)
    last = false_alarms([(case, WEEK) for case in fresh], Ours)
    step("false alarms of others")
    short = [(case, DAY // 4) for case, _ in held]
    others = {name: false_alarms(short, each) for name, each in RIVALS.items()}
    step("false alarms, seen kinds")
    seen = false_alarms([(case, DAY // 4) for case, _ in _subscriptions(SEEN_NOISES, quick=quick)], Ours)
    step("edits")
    pages = 8 if quick else 24
    found = edits_found(HELD_OUT_EDITS, HELD_OUT_NOISES, pages, Ours)
    rivals_found = {
        name: edits_found(HELD_OUT_EDITS, HELD_OUT_NOISES, max(2, pages // 4), each)
        for name, each in RIVALS.items()
    }
    seen_found = edits_found(SEEN_EDITS, SEEN_NOISES, pages // 2, Ours)
    step("feeds")
    feed_alarms, feed_cases, feed_found = _feeds(4 if quick else 12)
    rows = [
        *alarm_rows(ours, others),
        *edit_rows(found, rivals_found),
        BenchmarkRow("false alarms per subscription-week, kinds written last", last.week / last.weeks, ""),
        BenchmarkRow("false alarms per poll, seen kinds, first hours", seen.per_poll, "%"),
        BenchmarkRow("edits found, seen kinds", seen_found.share, "%"),
        _under("false alarms, feeds and JSON", 100 * feed_alarms / feed_cases, "%", 1.0),
        _over("edits found, feeds and JSON", feed_found.share, 99.0),
    ]
    feed_rows, feed_note = feed_changes.feed_rows(1 if quick else 6)
    rows += feed_rows
    step("speed")
    rows += speed_rows(3 if quick else 9)
    note = f"{_note(ours, found)}. {feed_note}"
    return BenchmarkResult(NAME, tuple(rows), perf_counter() - start, note=note)


def _subscriptions(kinds: Mapping[str, Noise], *, quick: bool) -> list[tuple[NoiseCase, int]]:
    """Subscriptions with their numbers of polls: a week each, so that single kinds and mixes weigh alike."""
    return [(case, WEEK) for case in noise_cases(kinds, pages=1 if quick else 2, mixes=6 if quick else 14)]


def alarm_rows(ours: Alarms, others: Mapping[str, Alarms]) -> Iterator[BenchmarkRow]:
    """Rows of false alarms on held-out kinds; each with the limit that makes it fail, then beside rivals."""
    yield _under("false alarms per poll, from the first told poll on", ours.per_poll, "%", ALARM_LIMIT)
    yield _under(
        "false alarms per poll, after a day", 100 * ours.later / max(ours.later_polls, 1), "%", ALARM_LIMIT
    )
    yield _under("false alarms per subscription-week", ours.week / max(ours.weeks, 1), "", WEEK_LIMIT)
    first = 100 * ours.first / max(ours.subscriptions, 1)
    for name, other in others.items():
        theirs = 100 * other.first / max(other.subscriptions, 1)
        yield BenchmarkRow(
            "false alarms at the first told poll",
            first,
            "%",
            name,
            theirs,
            theirs / max(first, 0.1),
            less=True,
        )
        week = other.per_poll / 100 * WEEK
        mine = ours.week / max(ours.weeks, 1)
        yield BenchmarkRow(
            "false alarms per subscription-week",
            mine,
            "",
            name,
            week,
            week / max(mine, 1 / max(ours.weeks, 1)),
            less=True,
        )
    polls = ours.day_polls + ours.later_polls + QUIET * ours.subscriptions
    yield BenchmarkRow("fetches per poll", ours.fetches / max(polls, 1), "")


def edit_rows(found: Found, others: Mapping[str, Found]) -> Iterator[BenchmarkRow]:
    """Rows of edits found, on held-out kinds."""
    yield _over("edits found amid noise", found.share, FOUND_LIMIT)
    for name, other in others.items():
        yield BenchmarkRow(
            "edits found amid noise", found.share, "%", name, other.share, found.share / other.share
        )


def _under(name: str, value: float, unit: str, most: float) -> BenchmarkRow:
    """A row that fails above a limit."""
    return BenchmarkRow(
        f"{name} (fails above {most:g})", value, unit, "limit", most, most / max(value, 1e-3), 1.0, less=True
    )


def _over(name: str, value: float, least: float) -> BenchmarkRow:
    """A row that fails below a limit."""
    return BenchmarkRow(f"{name} (fails below {least:g})", value, "%", "limit", least, value / least, 1.0)


def _note(ours: Alarms, found: Found) -> str:
    """Tell the counts, and the kinds of noise and edits at which our engine is wrong."""
    alarms = "; ".join(f"{name} ({times})" for name, times in ours.names.most_common() if times) or "nothing"
    missed = "; ".join(f"{name} ({times})" for name, times in found.missed.most_common()) or "nothing"
    return (
        f"held out: {len(HELD_OUT_NOISES)} kinds of noise, {len(HELD_OUT_EDITS)} of edits; "
        f"{ours.subscriptions} subscriptions for a week, {found.edits} edits. "
        f"Others are polled for six hours; their weeks are computed. False alarms: {alarms}. Missed: {missed}"
    )
