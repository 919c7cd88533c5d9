"""Clocks: whether an expression of time changed only because time passed between two looks.

An age or a countdown is noise if it still names the same instant; a date or a clock is noise if it is still
as far from now as it was. Anything else is content: "Deadline 17 → 19 February" is news. The zone of a page
is not known, so a date passes if there is a zone in which both looks showed the day of the look.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.core.channels.difference.noise.calendar import DAY_S, EITHER, Meaning, moments

if TYPE_CHECKING:
    from collections.abc import Iterator

_ZONES_S: Final = tuple(
    sorted(
        {hour * 3_600 for hour in range(-12, 15)}
        | {int(h * 3_600) for h in (-3.5, 3.5, 4.5, 5.5, 5.75, 6.5, 9.5)}
    )
)
"""Offsets of the zones in use."""
_STALE_S: Final = 600
"""How old a cached page may be: its day changes as much later."""
_SLACK_S: Final = 2.0
_MOST_SLACK_S: Final = 30.0
"""A running clock and ours agree within the time of a fetch, and 1 % of the time that passed."""
_FINE_S: Final = 60


@lru_cache(maxsize=4_096)
def meanings_of(text: str) -> tuple[Meaning, ...]:
    """Meanings of a text that is one expression of time; empty if it is anything else."""
    found = moments(text)
    return found[0].meanings if len(found) == 1 and found[0].end - found[0].start == len(text) else ()


def passed(old: str, then_us: int, new: str, now_us: int) -> bool:
    """Whether one expression turned into the other by the passing of time alone."""
    then_s, now_s = then_us / 1e6, now_us / 1e6
    return any(_same(a, then_s, b, now_s) for a in meanings_of(old) for b in meanings_of(new))


def _same(a: Meaning, then_s: float, b: Meaning, now_s: float) -> bool:
    elapsed_s = now_s - then_s
    kinds = (a.kind, b.kind)
    if kinds == ("span", "span"):
        return _span_passed(a, b, elapsed_s)
    if kinds == ("clock", "clock"):
        return _clock_passed(a, b, elapsed_s)
    if kinds == ("instant", "instant"):
        return abs(b.value - a.value - elapsed_s) <= 1 + _slack_s(elapsed_s)
    if kinds == ("year", "year"):
        return any(_year(then_s + o) == a.value and _year(now_s + o) == b.value for o in _ZONES_S)
    if a.kind in _DAYS and b.kind in _DAYS:
        return _day_passed(a, then_s, b, now_s)
    if a.kind == "span" and a.sign < 0 and b.kind in ("day", "relative day"):
        return _age_became_day(then_s - a.value, a.grain_s, b, now_s)
    return False


_DAYS: Final = frozenset({"day", "weekday", "relative day"})


def _slack_s(elapsed_s: float) -> float:
    return min(_SLACK_S + abs(elapsed_s) / 100, _MOST_SLACK_S)


def _span_passed(a: Meaning, b: Meaning, elapsed_s: float) -> bool:
    grain_s = max(a.grain_s, b.grain_s)
    sign = a.sign if a.sign not in (0, EITHER) else b.sign or a.sign
    if sign not in (0, EITHER) and any(each.sign not in (0, EITHER, sign) for each in (a, b)):
        return False
    if not sign and grain_s > _FINE_S and elapsed_s < grain_s / 2:
        return False  # "2 days": nothing says that it is an age, and too little time has passed to move it
    grown_s = b.value - a.value
    return any(
        grown_s * way >= 0 and abs(grown_s * way - elapsed_s) < grain_s + _slack_s(elapsed_s)
        for way in ((1, -1) if sign in (0, EITHER) else (-sign,))
    )


def _clock_passed(a: Meaning, b: Meaning, elapsed_s: float) -> bool:
    cycle_s = DAY_S // 2 if a.sign and b.sign else DAY_S
    off_s = (b.value - a.value - elapsed_s) % cycle_s
    return min(off_s, cycle_s - off_s) <= max(a.grain_s, b.grain_s) + _slack_s(elapsed_s)


def _year(at_s: float) -> int:
    return datetime.fromtimestamp(at_s, UTC).year


def _day_passed(a: Meaning, then_s: float, b: Meaning, now_s: float) -> bool:
    """Whether there is a zone in which both name the day of their look, or one and the same day."""
    if a.kind == "relative day" or b.kind == "relative day":
        for zone_s in _ZONES_S:
            days_a = _named(a, then_s + zone_s)
            if any(day in days_a for day in _named(b, now_s + zone_s)):
                return True
        return False
    return any(_shows_today(a, then_s + zone_s) and _shows_today(b, now_s + zone_s) for zone_s in _ZONES_S)


def _today(local_s: float) -> Iterator[int]:
    """Days since 1970 that a page may show at a local time: a cached one may be late."""
    today = int(local_s // DAY_S)
    yield today
    if int((local_s - _STALE_S) // DAY_S) != today:
        yield today - 1


def _shows_today(meaning: Meaning, local_s: float) -> bool:
    return any(meaning.value == _spelled(meaning, day) for day in _today(local_s))


def _spelled(meaning: Meaning, day: int) -> float:
    """A day in the terms of a meaning."""
    if meaning.kind == "weekday":
        return (day + 3) % 7  # 1 January 1970 was a Thursday
    if meaning.sign:
        at = datetime.fromtimestamp(day * DAY_S, UTC)
        return at.month * 100 + at.day
    return day


def _named(meaning: Meaning, local_s: float) -> list[int]:
    """Days since 1970 that an expression may name when it is read at a local time."""
    today = int(local_s // DAY_S)
    if meaning.kind == "relative day":
        return [day + int(meaning.value) for day in _today(local_s)]
    near = range(today - 7, today + 8)
    return [day for day in near if _spelled(meaning, day) == meaning.value]


def _age_became_day(at_s: float, grain_s: float, b: Meaning, now_s: float) -> bool:
    """Whether a day names the instant that an age named before: "23 hours ago" becomes "yesterday"."""
    for zone_s in _ZONES_S:
        local_s = at_s + zone_s
        near = range(int((local_s - grain_s) // DAY_S), int((local_s + grain_s) // DAY_S) + 1)
        if b.kind == "relative day":
            today = int((now_s + zone_s) // DAY_S)
            if any(day == today + b.value for day in near):
                return True
        elif any(_spelled(b, day) == b.value for day in near):
            return True
    return False
