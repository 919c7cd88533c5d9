"""Noise: parts of a page that change without news, such as times, counters and session ids.

Lines are compared by templates, in which such words are masked. If only masked words differ, these decide: a
date is noise if it is near now or beside a word like "updated"; the date of a concert is not.
All patterns are RE2's: their work is linear in the line.

More noise is learned from two fetches at the same moment: places without common lines (a rotating
advertisement, a block that half the visitors see), and shapes of lines in which some words vary. Both must be
seen twice before they count, because the page may have changed between the two fetches; both are forgotten
when later fetches agree again.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from penstock import limits
from penstock.core.channels.difference.hunks import hunks
from penstock.policy import params

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.core.channels.difference.content import Content

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
# Points and votes are counters too, but in tables of results they are the news.
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
"""Dates within this distance count as now: time zones, caches overnight."""
_SLACK_MIN: Final = 5
"""Minutes within which a clock time counts as now in any zone: zones differ by half hours, caches by
minutes."""


class NoiseMask(NamedTuple):
    """A masked word of a line."""

    kind: str
    text: str


class Template(NamedTuple):
    """A line with its noise masked."""

    key: str
    masks: tuple[NoiseMask, ...]
    bare: bool
    """Whether nothing but masked words and punctuation is left."""


def template(line: str, kinds: Collection[str]) -> Template:
    """Template of a line for these kinds of noise."""
    return _template(line, tuple(name for name in _WANTED if name in kinds))


@lru_cache(maxsize=8_192)
def _template(line: str, kinds: tuple[str, ...]) -> Template:
    if not kinds or not _may_have(line):
        return Template(line, (), bare=False)
    parts: list[str] = []
    masks: list[NoiseMask] = []
    done = 0
    for match in _pattern(kinds).finditer(line):
        start, end = match.span()
        kind = match.lastgroup
        parts += (line[done:start], f"\x00{kind}\x00")
        masks.append(NoiseMask(kind, line[start:end]))
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


def _is_now(mask: NoiseMask, now: datetime, *, today: bool) -> bool:
    if mask.kind in ("date", "epoch"):
        return _is_near(mask, now)
    if today:
        return True
    return (
        mask.kind == "clock"
        and (int(mask.text.split(":")[1]) - now.minute + _SLACK_MIN) % 30 <= 2 * _SLACK_MIN
    )


def _is_near(mask: NoiseMask, now: datetime) -> bool:
    if mask.kind == "epoch":
        return abs(int(mask.text[:10]) - now.timestamp()) <= _NEAR.total_seconds()
    return any(abs(found - now.date()) <= _NEAR for found in _dates(mask.text, now.year))


def _dates(text: str, year: int) -> list[date]:
    """Days that a date may mean: 3/4 is in March or in April."""
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


_SURE: Final = 2
"""Double fetches in which noise must be seen before it counts."""
_FIRM: Final = 6
"""Highest count of sightings, so that as many agreeing fetches make it forgotten."""
_WORDS: Final = 64
"""Longest line, in words, whose shape is learned."""


class LearnedPlace(msgspec.Struct, frozen=True):
    """A place where two fetches had no line in common."""

    place: str
    seen: int = 1


class LearnedShape(msgspec.Struct, frozen=True):
    """Words of a line at a place; None for words that vary."""

    place: str
    words: tuple[str | None, ...]
    seen: int = 1

    @property
    def key(self) -> str:
        """Key under which lines of this shape are compared."""
        return " ".join("\x00" if word is None else word for word in self.words)

    def fits(self, words: list[str]) -> bool:
        """Whether a line has this shape."""
        return len(words) == len(self.words) and all(
            own is None or own == word for own, word in zip(self.words, words, strict=True)
        )


class Learned(msgspec.Struct, frozen=True):
    """Noise learned about one channel."""

    places: tuple[LearnedPlace, ...] = ()
    shapes: tuple[LearnedShape, ...] = ()

    def silent(self) -> frozenset[str]:
        """Places whose lines are not compared."""
        return frozenset(one.place for one in self.places if one.seen >= _SURE)

    def sure_shapes(self) -> dict[str, list[LearnedShape]]:
        """Shapes seen often enough to count, by place."""
        found: dict[str, list[LearnedShape]] = {}
        for one in self.shapes:
            if one.seen >= _SURE:
                found.setdefault(one.place, []).append(one)
        return found

    def contrast(self, a: Content, b: Content, kinds: Collection[str]) -> Learned:
        """Update from two fetches at the same moment."""
        if a.kind != b.kind:
            return self
        agreed, odd, pairs = _differences(a, b, kinds)
        here = set(a.places) | set(b.places)
        gaps = {place: None for place in odd if place and agreed[place] == 0 and a.kind != "feed"}
        shapes = (_shape(*pair) for pair in pairs if pair[0] not in gaps)
        found = list(islice((shape for shape in shapes if shape is not None), limits.LEARNED_NOISE))
        return Learned(
            tuple(_counted(self.places, gaps, here, agreed)), tuple(_merged(self.shapes, found, here))
        )


def _differences(
    a: Content, b: Content, kinds: Collection[str]
) -> tuple[Counter[str], dict[str, None], list[tuple[str, str, str]]]:
    """Equal lines by place; places with differing lines; pairs of differing lines at one position."""
    first = [template(line, kinds) for line in a.lines]
    second = [template(line, kinds) for line in b.lines]
    agreed = Counter(a.places)
    odd: dict[str, None] = {}
    pairs: list[tuple[str, str, str]] = []
    for hunk in hunks([one.key for one in first], [one.key for one in second]):
        for number in range(hunk.old, hunk.old_end):
            agreed[a.places[number]] -= 1
            odd[a.places[number]] = None
        for number in range(hunk.new, hunk.new_end):
            odd[b.places[number]] = None
        if hunk.old_end - hunk.old == hunk.new_end - hunk.new:
            opposite = zip(range(hunk.old, hunk.old_end), range(hunk.new, hunk.new_end), strict=True)
            pairs += [
                (a.places[i], a.lines[i], b.lines[j]) for i, j in opposite if a.places[i] == b.places[j]
            ]
    return agreed, odd, pairs


def _shape(place: str, one: str, other: str) -> LearnedShape | None:
    """Words two lines share; None if too few to recognise the line by."""
    a, b = one.split(" "), other.split(" ")
    if len(a) != len(b) or len(a) > _WORDS:
        return None
    words = tuple(word if word == beside else None for word, beside in zip(a, b, strict=True))
    vary = words.count(None)
    return LearnedShape(place, words) if 0 < vary * 2 <= len(words) else None


def _counted(
    known: tuple[LearnedPlace, ...], gaps: Collection[str], here: set[str], agreed: Counter[str]
) -> Iterable[LearnedPlace]:
    seen = {one.place: one.seen for one in known}
    for place in gaps:
        seen[place] = min(seen.get(place, 0) + 1, _FIRM)
    for place in here - set(gaps):
        if place in seen and agreed[place] > 0:
            seen[place] -= 1
    left = [LearnedPlace(place, times) for place, times in seen.items() if times > 0]
    return left[-limits.LEARNED_NOISE :]


def _merged(
    known: tuple[LearnedShape, ...], found: list[LearnedShape], here: set[str]
) -> Iterable[LearnedShape]:
    """Join shapes of the same line, because a word that varied once may vary again.

    Other shapes stay apart.
    """
    left = list(known)
    met: set[int] = set()
    for shape in found:
        for number, one in enumerate(left):
            words = _joined(one, shape)
            if words is not None:
                left[number] = LearnedShape(one.place, words, min(one.seen + (number not in met), _FIRM))
                met.add(number)
                break
        else:
            met.add(len(left))
            left.append(shape)
    aged = [
        one if number in met or one.place not in here else LearnedShape(one.place, one.words, one.seen - 1)
        for number, one in enumerate(left)
    ]
    return [one for one in aged if one.seen > 0][-limits.LEARNED_NOISE :]


def _joined(one: LearnedShape, other: LearnedShape) -> tuple[str | None, ...] | None:
    """Words of two shapes joined; None if they belong to different lines."""
    if one.place != other.place or len(one.words) != len(other.words):
        return None
    pairs = list(zip(one.words, other.words, strict=True))
    if any(a is not None and b is not None and a != b for a, b in pairs):
        return None
    words = tuple(a if a == b else None for a, b in pairs)
    return words if words.count(None) * 2 <= len(words) else None
