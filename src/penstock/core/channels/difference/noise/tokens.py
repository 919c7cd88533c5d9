"""A line as tokens, and how one line deviates from another: by which tokens, counted from the first line.

A token is an expression of time, a number, an identifier, a word or a sign. A deviation maps keys of the old
line to what stands there now: key 2i + 1 is token i, key 2i the gap before it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.channels.difference.hunks import hunks
from penstock.core.channels.difference.noise.calendar import moments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TOKEN: Final = re.compile(
    r"[vV]\d+(?:\.\d+)+|[A-Za-z_]+\d[A-Za-z0-9_]*|\d+[A-Za-z_][A-Za-z0-9_]*|\d+(?:[.,:'’]\d+)*|[^\W\d_]+|_+|[^\w\s]"
)
_MOST: Final = 160
"""Tokens of a line that are told apart; the rest of a longer line is one token."""
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_CODE: Final = re.compile(r"[A-Za-z_]*\d[A-Za-z0-9_]*(?:[.,:'’]\d+)*")

_CURRENCIES: Final = frozenset(
    re.findall(
        r"\S+",
        """
        AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW KZT
        MAD MXN MYR NGN NOK NZD PEN PHP PKR PLN RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR
        zł Kč kr Ft lei лв руб грн Rs Rp 円 元 원 TL""",
    )
)
"""Codes of ISO 4217 and words of CLDR; signs such as € are known by their category in Unicode."""
_VERSION: Final = re.compile(r"[vV]?\d+(?:\.(?!\d{3}(?:\.|$))\d+){2,}")
"""Three numbers or more with dots, which are not the thousands of one."""
_PRICED: Final = re.compile(r"([A-Z]{3})?\d+([A-Z]{3})?")
"""A price that is written in one piece, as EUR20."""

_HEAD: Final = re.compile(r"([^|:]{0,39}[^\W\d_][^|:]{0,39}?)(?: \||:)")
"""A name of a row: up to a colon or the end of its first cell, with a letter."""

Deviation: TypeAlias = dict[int, str]


@lru_cache(maxsize=4_096)
def tokens(line: str) -> tuple[str, ...]:
    """Tokens of a line."""
    found: list[str] = []
    done = 0
    for moment in moments(line):
        found += _TOKEN.findall(line, done, moment.start)
        found.append(line[moment.start : moment.end])
        done = moment.end
    found += _TOKEN.findall(line, done)
    if len(found) > _MOST:
        found[_MOST:] = [" ".join(found[_MOST:])]
    return tuple(found)


@lru_cache(maxsize=8_192)
def skeleton(line: str) -> str:
    """The line with every number and code as #: the same for lines that differ in these only."""
    return _CODE.sub("#", line)


@lru_cache(maxsize=8_192)
def head_of(line: str) -> str:
    """The name that a row begins with: its first cell, or what stands before a colon; empty: none."""
    found = _HEAD.match(line)
    return found[1] if found else ""


@lru_cache(maxsize=8_192)
def is_named(line: str) -> bool:
    """Whether a line has a word besides numbers and codes, by which it is known wherever it stands."""
    return _LETTER.search(skeleton(line)) is not None


@lru_cache(maxsize=8_192)
def column(line: str, key: int) -> str:
    """The column of a number: the shape of its line, where words count as one, and its place among numbers.

    Lines of a list or table share columns: likes of posts, prices of goods.
    """
    before = sum(map(is_number, tokens(line)[: key // 2]))
    return f"{shape_of(line)} {before}"


@lru_cache(maxsize=8_192)
def shape_of(line: str) -> str:
    """The signs of a line, numbers as # and words in a row as w: the same for the rows of a table."""
    return re.sub("w+", "w", "".join(_kinds(line)))


@lru_cache(maxsize=8_192)
def is_stated(line: str, key: int) -> bool:
    """Whether a token is what somebody states, a price or a version, and nothing that counts by itself."""
    token = token_at(line, key)
    if not is_number(token):
        return False
    priced = _PRICED.fullmatch(token)
    if (_VERSION.fullmatch(token) and not moments(token)) or (
        priced and not _CURRENCIES.isdisjoint(priced.groups())
    ):
        return True
    found, n = tokens(line), key // 2
    return any(is_currency(found[beside]) for beside in (n - 1, n + 1) if 0 <= beside < len(found))


@lru_cache(maxsize=8_192)
def has_stated(line: str) -> bool:
    """Whether a line has a price or a version."""
    return any(is_stated(line, 2 * n + 1) for n in range(len(tokens(line)))) if is_number(line) else False


def is_currency(token: str) -> bool:
    """Whether a token is the sign or the code of a currency."""
    return token in _CURRENCIES or (len(token) == 1 and unicodedata.category(token) == "Sc")


def is_number(token: str) -> bool:
    """Whether a token has a digit: a number, a code, a date."""
    return _DIGIT.search(token) is not None


def is_word_for_number(old: str, new: str) -> bool:
    """Whether a word stands where a number stood."""
    return is_number(old) and not is_number(new) and _LETTER.search(new) is not None


@lru_cache(maxsize=4_096)
def deviation(old: str, new: str) -> Deviation:
    """Tokens of the new line by the tokens of the old one they replace; a removed token has an empty text.

    The result is shared: do not change it.
    """
    a, b = tokens(old), tokens(new)
    if _are_by_position(old, new):
        return {2 * n + 1: y for n, (x, y) in enumerate(zip(a, b, strict=True)) if x != y}
    found: Deviation = {}
    for hunk in hunks(a, b):
        here, there = hunk.old_end - hunk.old, hunk.new_end - hunk.new
        if here == there:
            for offset in range(here):
                found[2 * (hunk.old + offset) + 1] = b[hunk.new + offset]
        elif here == 0:
            found[2 * hunk.old] = " ".join(b[hunk.new : hunk.new_end])
        else:
            found[2 * hunk.old + 1] = " ".join(b[hunk.new : hunk.new_end])
            for offset in range(1, here):
                found[2 * (hunk.old + offset) + 1] = ""
    return found


@lru_cache(maxsize=4_096)
def _kinds(line: str) -> tuple[str, ...]:
    """Numbers and words are compared position by position; signs have to be the same."""
    return tuple("#" if is_number(token) else "w" if token[:1].isalnum() else token for token in tokens(line))


def _are_by_position(old: str, new: str) -> bool:
    """Whether signs, numbers and words of two lines stand in the same places: no token has shifted."""
    return _kinds(old) == _kinds(new)


def is_mostly(line: str, keys: Iterable[int]) -> bool:
    """Whether the keys name half or more of the numbers and words of a line."""
    found = tokens(line)
    said = {2 * n + 1 for n, token in enumerate(found) if token[:1].isalnum()}
    return 2 * len(said.intersection(keys)) >= len(said)


def token_at(line: str, key: int) -> str:
    """The token of a line that a key of its deviation names; empty for a gap and for a whole line."""
    found = tokens(line)
    return found[key // 2] if key > 0 and key % 2 and key // 2 < len(found) else ""


def likeness(old: str, new: str) -> float:
    """Share of the tokens of the longer line that both lines have, from 0 to 1."""
    a, b = tokens(skeleton(old)), tokens(skeleton(new))
    if not a or not b:
        return 0.0
    left = dict.fromkeys(a, 0)
    for token in a:
        left[token] += 1
    shared = 0
    for token in b:
        if left.get(token, 0) > 0:
            left[token] -= 1
            shared += 1
    return shared / max(len(a), len(b))


def rekeyed(old: str, new: str, keys: Mapping[int, object]) -> dict[int, int]:
    """Keys of the old line that name a token of the new line as well, with that token's key."""
    a, b = tokens(old), tokens(new)
    if _are_by_position(old, new):
        return {key: key for key in keys if key >= 0}
    moved: dict[int, int] = {}
    i = j = 0
    for hunk in [*hunks(a, b), None]:
        end = hunk.old if hunk else len(a)
        moved.update((2 * (i + n) + 1, 2 * (j + n) + 1) for n in range(end - i))
        if hunk is None:
            break
        if hunk.old_end - hunk.old == hunk.new_end - hunk.new:
            moved.update(
                (2 * (hunk.old + n) + 1, 2 * (hunk.new + n) + 1) for n in range(hunk.old_end - hunk.old)
            )
        i, j = hunk.old_end, hunk.new_end
    return {key: moved[key] for key in keys if key in moved}
