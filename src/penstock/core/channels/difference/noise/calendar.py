"""Expressions of time in a line: dates, clock times, weekdays and ages, in some thirty languages.

The words come from CLDR (`calendar.json`, written by `tools/calendar_words.py`). A word of one language may
mean something else in another ("mar" is March or Tuesday), so an expression has a list of meanings.
Every pattern here is linear in the line: none has one repetition inside another.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from pkgutil import get_data
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY_S: Final = 86_400
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

MeaningKind: TypeAlias = Literal["day", "clock", "weekday", "relative day", "span", "instant", "year"]


EITHER: Final = 2
"""Sign of a span whose unit is a letter right behind the number, as in "3h": an age, or time that is left."""


class Meaning(NamedTuple):
    """One reading of a date, clock, age or weekday in a text."""

    kind: MeaningKind
    value: float
    """Day since 1970; second of the day; weekday, Monday 0; days from today; seconds; instant in s; year."""
    grain_s: float
    """How exact it is."""
    sign: int = 0
    """For a span: -1 past, 1 future, EITHER, 0 not said. For a time of day: 12 if it may be a.m. or p.m."""


class Moment(NamedTuple):
    """An expression of time within a line."""

    start: int
    end: int
    meanings: tuple[Meaning, ...]


class _Words(msgspec.Struct):
    months: dict[str, list[int]]
    weekdays: dict[str, list[int]]
    halves: dict[str, str]
    spans: dict[str, list[tuple[str, int, int]]]
    """Units by the words behind a number: (words before it, seconds of the unit, sign)."""
    phrases: dict[str, tuple[int, int, int]]
    """Ages without a number: seconds, seconds of the unit, sign."""
    days: dict[str, int]
    """Words for today, yesterday and tomorrow: days from today."""
    now: list[str]
    """Phrases for a moment ago."""
    ones: set[str]
    """Words for one, in front of a unit."""


@cache
def _words() -> _Words:
    data = get_data(__package__, "calendar.json")
    assert data is not None
    return msgspec.json.decode(data, type=_Words)


class _Starts(NamedTuple):
    """Cheap tests that spare most lines the search: what an expression has to begin with."""

    single: frozenset[str]
    """Words that are an expression themselves."""
    now: frozenset[str]
    """First words of phrases for a moment ago."""
    phrases: frozenset[str]
    """First signs of ages without a number: Hebrew and Arabic have words for two hours and the like."""
    spans: dict[str, tuple[int, ...]]
    """Lengths of the words behind a number, longest first, by their first two characters."""


@cache
def _starts() -> _Starts:
    words = _words()
    lengths: dict[str, set[int]] = {}
    for after in words.spans:
        lengths.setdefault(after[:2], set()).add(len(after))
    return _Starts(
        frozenset([*words.weekdays, *words.days]),
        frozenset(phrase.split()[0] for phrase in words.now),
        frozenset(phrase[0] for phrase in words.phrases),
        {start: tuple(sorted(found, reverse=True)) for start, found in lengths.items()},
    )


_NOW_GRAIN_S: Final = 120

_ISO: Final = re.compile(r"(?<!\d)(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)")
_NUMERIC: Final = re.compile(r"(?<![\d.,/-])(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?![\d])")
_EASTERN: Final = re.compile(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日일]")
_CLOCK: Final = re.compile(r"(?<![\d:.])(\d{1,3}):(\d\d)(?::(\d\d)(?:[.,]\d{1,6})?)?(?![\d:])")
_HALF: Final = re.compile(r"\s?([^\W\d_]{1,4}\.?(?:\s?m\.?)?)")
_EPOCH: Final = re.compile(r"(?<![\d.,])(1[5-9]\d{8})(\d{3})?(?![\d.,])")
_YEAR: Final = re.compile(r"(?<![\d.,:/-])((?:19|20)\d\d)(?![\d.,:/-]\d|\d)")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_DAY_BEFORE: Final = re.compile(
    r"(?<![\d.,:/-])(\d{1,2})(?:st|nd|rd|th|er|e|º|ª|\.)?[\s-]{0,2}(?:de |of |do |da )?$"
)
_DAY_AFTER: Final = re.compile(r"\.?[\s-]{1,2}(\d{1,2})(?:st|nd|rd|th|º|ª|\.)?(?![\d:])")
_YEAR_AFTER: Final = re.compile(r"\.?,?[\s-]{1,2}(?:de |of |del )?(\d{4})(?!\d)")
_DIGIT: Final = re.compile(r"\d")
_COUNT: Final = re.compile(r"(?<![A-Za-z0-9_.,:/])\d{1,9}(?:[.,]\d{1,2})?(?![\d:/])")
_DAY_CHARS: Final = 12
_LINE_CHARS: Final = 2_000


def moments(line: str) -> list[Moment]:
    """Expressions of time in a line, in order; where two overlap the earlier and longer one counts."""
    low = line.lower()
    if len(low) != len(line) or len(line) > _LINE_CHARS:  # rare letters change their length
        return []
    said = set(_WORD.findall(low))
    words = _words()
    found: list[Moment] = []
    if _DIGIT.search(low):
        found += _dates(low)
        if not words.months.keys().isdisjoint(said):
            found += _word_dates(low)
        found += _clocks(low)
        found += _spans(low)
        found += _numbers(low)
    elif not said.isdisjoint(words.ones):
        found += _spans(low)
    if not said.isdisjoint(_starts().single):
        found += _single_words(low)
    if not low.isascii() or not said.isdisjoint(_starts().now):
        found += _phrases(low)
    found.sort(key=lambda moment: (moment.start, -moment.end))
    kept: list[Moment] = []
    for moment in found:
        if _is_inside_word(low, moment):
            continue
        if kept and _is_rest_of_span(low, kept[-1], moment):  # 3 days, 04:05
            days, rest = kept[-1].meanings[0], moment.meanings[0]
            whole = Meaning("span", days.value + rest.value, rest.grain_s, days.sign)
            kept[-1] = Moment(kept[-1].start, moment.end, (whole,))
            continue
        if kept and moment.start < kept[-1].end:
            if (moment.start, moment.end) == (kept[-1].start, kept[-1].end):
                kept[-1] = Moment(moment.start, moment.end, kept[-1].meanings + moment.meanings)
            continue
        kept.append(moment)
    return kept


def _is_inside_word(low: str, moment: Moment) -> bool:
    """Whether an expression is cut out of a code; in ISO times a T and a Z stand beside a part."""
    before, after = low[max(0, moment.start - 1) : moment.start], low[moment.end : moment.end + 1]
    return (before != "t" and _is_joined(before, low[moment.start])) or (
        after not in ("t", "z") and _is_joined(after, low[moment.end - 1])
    )


def _is_joined(outer: str, inner: str) -> bool:
    return outer.isascii() and outer.isalnum() and inner.isascii() and inner.isalnum()


def _is_rest_of_span(low: str, last: Moment, moment: Moment) -> bool:
    is_days = last.meanings[0].kind == "span" and last.meanings[0].grain_s == DAY_S
    is_rest = moment.meanings[0].kind == "span" and moment.meanings[0].grain_s <= 60
    return is_days and is_rest and low[last.end : moment.start] in (" ", ", ")


def _day(year: int, month: int, day: int) -> int | None:
    try:
        return date(year + (2000 if year < 100 else 0), month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def _moment(start: int, end: int, *days: int | None) -> Iterator[Moment]:
    meanings = tuple(Meaning("day", day, DAY_S) for day in dict.fromkeys(days) if day is not None)
    if meanings:
        yield Moment(start, end, meanings)


def _dates(low: str) -> Iterator[Moment]:
    for match in _ISO.finditer(low):
        yield from _moment(*match.span(), _day(int(match[1]), int(match[3]), int(match[4])))
    for match in _NUMERIC.finditer(low):
        a, b, year = int(match[1]), int(match[3]), int(match[4])
        yield from _moment(*match.span(), _day(year, b, a), _day(year, a, b))
    for match in _EASTERN.finditer(low):
        month, day = int(match[2]), int(match[3])
        if match[1]:
            yield from _moment(*match.span(), _day(int(match[1]), month, day))
        elif 1 <= month <= 12 and 1 <= day <= 31:
            yield Moment(*match.span(), (_yearless(month, day),))


def _yearless(month: int, day: int) -> Meaning:
    """A day without a year: `value` is month * 100 + day, `sign` says so."""
    return Meaning("day", month * 100 + day, DAY_S, sign=1)


def _word_dates(low: str) -> Iterator[Moment]:
    months = _words().months
    for match in _WORD.finditer(low):
        numbers = months.get(match[0])
        if numbers is None:
            continue
        start, end = match.span()
        before = _DAY_BEFORE.search(low, max(0, start - _DAY_CHARS), start)
        after = None if before else _DAY_AFTER.match(low, end)
        if before:
            start, day = before.start(), int(before[1])
        elif after:
            end, day = after.end(), int(after[1])
        else:
            continue
        year = _YEAR_AFTER.match(low, end)
        if year:
            yield from _moment(start, year.end(), *(_day(int(year[1]), month, day) for month in numbers))
        elif 1 <= day <= 31:
            yield Moment(start, end, tuple(_yearless(month, day) for month in numbers))


def _clocks(low: str) -> Iterator[Moment]:
    for match in _CLOCK.finditer(low):
        first, second, third = int(match[1]), int(match[2]), int(match[3] or 0)
        grain_s = 1 if match[3] else 60
        end = match.end()
        seconds = first * 3_600 + second * 60 + third
        meanings = [Meaning("span", seconds, grain_s)]
        if not match[3]:
            meanings.append(Meaning("span", first * 60 + second, 1))  # minutes and seconds
        if first < 24 and second < 60:
            half = _HALF.match(low, end)
            called = _words().halves.get(half[1]) if half else None
            if half is not None and called is not None and first <= 12:
                end = half.end()
                seconds = (first % 12 + 12 * (called == "pm")) * 3_600 + second * 60 + third
            meanings.append(
                Meaning("clock", seconds, grain_s, sign=12 if called is None and first <= 12 else 0)
            )
        yield Moment(match.start(), end, tuple(meanings))


def _spans(low: str) -> Iterator[Moment]:
    """Ages and countdowns: a number, or a word for one, and a unit; several in a row are added."""
    last: Moment | None = None
    for start, number_end, count in _counts(low):
        found = _span(low, start, number_end, count)
        if found is None:
            continue
        if last is not None and low[last.end : found.start] in (" ", ", ", ""):
            a, b = last.meanings[0], found.meanings[0]
            if b.grain_s < a.grain_s:  # 3 h 5 min
                sign = a.sign or b.sign
                last = Moment(last.start, found.end, (Meaning("span", a.value + b.value, b.grain_s, sign),))
                continue
        if last is not None:
            yield last
        last = found
    if last is not None:
        yield last


def _counts(low: str) -> Iterator[tuple[int, int, float]]:
    words = _words().ones
    numbers = [(m.start(), m.end(), float(m[0].replace(",", "."))) for m in _COUNT.finditer(low)]
    ones = [(m.start(), m.end(), 1.0) for m in _WORD.finditer(low) if m[0] in words]
    return iter(sorted([*numbers, *ones]))


def _span(low: str, start: int, number_end: int, count: float) -> Moment | None:
    spans, starts = _words().spans, _starts().spans
    behind = low[number_end : number_end + 2]
    for length in (*starts.get(behind, ()), *(starts.get(behind[:1], ()) if behind[1:] else ())):
        after = low[number_end : number_end + length]
        entries = spans.get(after)
        end = number_end + length
        if (
            entries is None
            or len(after) < length
            or (after[-1].isascii() and after[-1].isalpha() and low[end : end + 1].isalnum())
        ):
            continue  # a part of a word, or of a code
        best = max(
            (entry for entry in entries if low.endswith(entry[0], 0, start)),
            key=lambda entry: len(entry[0]),
            default=None,
        )
        if best is not None:
            before, seconds, sign = best
            grain_s = seconds / 10 if count % 1 else seconds
            if not sign and after.isascii() and after.isalpha():
                sign = EITHER
            return Moment(start - len(before), end, (Meaning("span", count * seconds, grain_s, sign),))
    return None


def _single_words(low: str) -> Iterator[Moment]:
    words = _words()
    for match in _WORD.finditer(low):
        word = match[0]
        meanings = [
            Meaning("weekday", day, DAY_S)
            for day in words.weekdays.get(word, ())
            if len(word) > 2 or not word.isascii()
        ]
        if word in words.days:
            meanings.append(Meaning("relative day", words.days[word], DAY_S))
        if meanings:
            yield Moment(*match.span(), tuple(meanings))


def _phrases(low: str) -> Iterator[Moment]:
    words = _words()
    for phrase in words.now:
        at = low.find(phrase)
        if at >= 0:
            yield Moment(at, at + len(phrase), (Meaning("span", 0, _NOW_GRAIN_S, sign=-1),))
    if not _starts().phrases.isdisjoint(low):
        for phrase, (seconds, unit_s, sign) in words.phrases.items():
            at = low.find(phrase)
            if at >= 0:
                yield Moment(at, at + len(phrase), (Meaning("span", seconds, unit_s, sign),))


def _numbers(low: str) -> Iterator[Moment]:
    for match in _EPOCH.finditer(low):
        yield Moment(*match.span(), (Meaning("instant", int(match[1]), 1),))
    for match in _YEAR.finditer(low):
        yield Moment(*match.span(), (Meaning("year", int(match[1]), 366 * DAY_S),))
