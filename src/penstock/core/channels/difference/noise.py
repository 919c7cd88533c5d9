"""What changes on a page without anything having happened: times, counters, ids of a session.

A line is compared by its template, in which such words are masked. Where only these differ, they decide: a
date is noise if it is about now or stands beside a word like "updated"; the date of a concert is not.
All patterns are RE2's: their work is linear in the line.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policy import params

if TYPE_CHECKING:
    from collections.abc import Collection

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier",
            "february feb februar février",
            "march mar märz mars",
            "april apr avril",
            "may mai",
            "june jun juni juin",
            "july jul juli juillet",
            "august aug août",
            "september sep sept septembre",
            "october oct oktober octobre",
            "november nov novembre",
            "december dec dezember décembre",
        ),
        1,
    )
    for name in names.split()
}
_MONTH: Final = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_ZONE: Final = r"(?:\s?(?:Z|UTC|GMT|CES?T|BST|[ECMP][SD]T)\b|\s?[+-]\d\d:?\d\d)?"
_HOUR: Final = rf"\d{{1,2}}:\d\d(?:\s?[ap]\.?m\b\.?)?{_ZONE}"
_CLOCK: Final = rf"\d{{1,2}}:\d\d:\d\d(?:[.,]\d+)?(?:\s?[ap]\.?m\b\.?)?{_ZONE}"
_WEEKDAY: Final = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b[.,]?\s+"
    r"|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)\b,?\s+)?"
)
_DATE: Final = "|".join(
    (
        r"\d{4}[-/]\d\d?[-/]\d\d?",
        rf"{_WEEKDAY}\d{{1,2}}(?:\.|st|nd|rd|th)?[\s-]+{_MONTH}(?:,?[\s-]+\d{{4}})?",
        rf"{_WEEKDAY}{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?",
        r"\b\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d\d)\b",
    )
)
_NUMBER: Final = r"\d[\d,.'\x{202f}\x{a0}]*"
# Points and votes are counted too, but they are what tables of results are about.
_COUNTED: Final = (
    "views?|visits?|visitors?|hits?|reads?|comments?|likes?|shares?|followers?|subscribers?|downloads?|stars?"
    "|repl(?:y|ies)|online|users? online|people (?:are )?(?:viewing|watching|reading)|watching"
    "|reactions?|retweets?|impressions?|clicks?|aufrufe|besucher|kommentare?|vues|commentaires?"
)
_UNIT: Final = (
    r"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|mos?|months?|y|yrs?|years?)"
)
_KINDS: Final = {
    "ago": "|".join(
        (
            rf"\b(?:an?|one|{_NUMBER}|(?:a )?few|several|a couple of)\s?{_UNIT}\s+ago\b",
            r"\b(?:just now|moments? ago|a moment ago)\b",
            r"\bvor (?:eine[mnr]|wenigen|\d+) (?:sekunden?|minuten?|stunden?|tage?n?|wochen?|monate?n?)\b",
            r"\bil y a (?:une?|quelques|\d+) (?:secondes?|minutes?|heures?|jours?|semaines?|mois)\b",
        )
    ),
    "year": r"(?:©|\(c\)|\bcopyright)\s*(?:\d{4}\s?[-–]\s?)?\d{4}\b",
    "date": rf"(?:{_DATE})(?:(?:T|,?\s+(?:at\s+|um\s+|à\s+)?)(?:{_CLOCK}|{_HOUR}))?",
    "epoch": r"\b1[6-9]\d{8}(?:\d{3})?\b",
    "clock": rf"\b{_CLOCK}",
    "hour": rf"\b{_HOUR}",
    "counter": (
        rf"\b{_NUMBER}\s(?:{_COUNTED})\b"
        rf"|\b(?:{_COUNTED}|(?:visitor|besucher)\s?(?:number|no\.?|nr\.?)?)(?:\s?[:#]\s?|\s?\()(?:{_NUMBER})\)?"
    ),
    "session": (
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
        r"|\b(?:session|sess?id|sid|token|nonce|csrf|request|trace|ray|correlation)[\s_-]?(?:id)?\s?[:=#]\s?[\w.-]{6,}"
    ),
}
_WANTED: Final = {
    "dates": ("year", "date", "epoch", "clock", "hour"),
    "ago": ("ago",),
    "counters": ("counter",),
    "sessions": ("session",),
}
_STAMPED: Final = params.regex(
    r"(?i)\b(?:updated?|modified|generated|refreshed|rendered|retrieved|as of|today is|it is now|stand:"
    r"|(?:server|local|current|page) time|last (?:change|check|edit|sync|seen|build)\w*"
    r"|aktualisiert|erzeugt|mis à jour)"
)
_PARTS: Final = re.compile(r"[0-9]{1,9}|[^\W\d_]+")
_NEAR: Final = timedelta(days=2)
"""A date of now: zones, caches overnight."""
_SLACK_MIN: Final = 5
"""A clock of now, whatever its zone: zones differ by half hours, caches by minutes."""


class Mask(NamedTuple):
    """A word of a line that is masked."""

    kind: str
    text: str


class Template(NamedTuple):
    """A line without its masked words."""

    key: str
    masks: tuple[Mask, ...]
    bare: bool
    """Nothing but masked words and signs."""


def template(line: str, kinds: Collection[str]) -> Template:
    """How a line is compared, for the kinds of noise that are to be left out."""
    return _template(line, tuple(name for name in _WANTED if name in kinds))


@lru_cache(maxsize=8_192)
def _template(line: str, kinds: tuple[str, ...]) -> Template:
    if not kinds or not _may_have(line):
        return Template(line, (), bare=False)
    parts: list[str] = []
    masks: list[Mask] = []
    done = 0
    for match in _pattern(kinds).finditer(line):
        start, end = match.span()
        kind = match.lastgroup
        parts += (line[done:start], f"\x00{kind}\x00")
        masks.append(Mask(kind, line[start:end]))
        done = end
    if not masks:
        return Template(line, (), bare=False)
    rest = line[done:]
    bare = not any(sign.isalnum() for part in (*parts[::2], rest) for sign in part)
    return Template("".join(parts) + rest, tuple(masks), bare)


def _may_have(line: str) -> bool:
    return (
        not line.isascii()
        or any(sign.isdigit() for sign in line)
        or " ago" in line
        or "just now" in line.lower()
    )


@lru_cache(maxsize=16)
def _pattern(kinds: tuple[str, ...]) -> Any:
    names = {name for kind in kinds for name in _WANTED[kind]}
    return params.regex("(?i)" + "|".join(f"(?P<{name}>{_KINDS[name]})" for name in _KINDS if name in names))


def is_noise(old: Template, new: Template, line: str, *, now_us: int) -> bool:
    """Whether two lines of one template differ in noise only."""
    changed = [after for before, after in zip(old.masks, new.masks, strict=True) if before.text != after.text]
    if not any(mask.kind in _DATED for mask in changed):
        return True
    if _STAMPED.search(line) is not None:
        return True
    now = datetime.fromtimestamp(now_us / 1e6, UTC)
    today = any(mask.kind in ("date", "epoch") and _is_near(mask, now) for mask in new.masks)
    return all(mask.kind not in _DATED or _is_now(mask, now, today=today) for mask in changed)


_DATED: Final = frozenset({"date", "epoch", "clock", "hour"})


def _is_now(mask: Mask, now: datetime, *, today: bool) -> bool:
    if mask.kind in ("date", "epoch"):
        return _is_near(mask, now)
    if today:
        return True
    return (
        mask.kind == "clock"
        and (int(mask.text.split(":")[1]) - now.minute + _SLACK_MIN) % 30 <= 2 * _SLACK_MIN
    )


def _is_near(mask: Mask, now: datetime) -> bool:
    if mask.kind == "epoch":
        return abs(int(mask.text[:10]) - now.timestamp()) <= _NEAR.total_seconds()
    return any(abs(found - now.date()) <= _NEAR for found in _dates(mask.text, now.year))


def _dates(text: str, year: int) -> list[date]:
    """The days a date may mean: 3/4 is in March or in April."""
    words = _PARTS.findall(text.lower())
    months = [_MONTHS[word] for word in words if word in _MONTHS]
    numbers = [int(word) for word in words if word.isdigit()]
    tries: list[tuple[int, int, int]] = []
    if months and numbers:
        years = [number for number in numbers[:2] if number > 1900] or [year]
        tries = [(years[0], months[0], numbers[0])]
    elif len(numbers) >= 3:
        a, b, c = numbers[:3]
        c = c + 2000 if a <= 1900 and c < 100 else c
        tries = [(a, b, c)] if a > 1900 else [(c, b, a), (c, a, b)]
    found = []
    for when in tries:
        try:
            found.append(date(*when))
        except ValueError:
            continue
    return found
