"""What a word without quotes means: the core schema of YAML 1.2.

`NO`, `on` and `12:30:00` are texts here; YAML 1.1 made them a truth value and a number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.model.values import Scalar

_WORDS: Final[dict[str, Scalar | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}

_WHOLE: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_NUMBER_CHARACTERS: Final = 400
"""A longer whole number is no finite float either; Python refuses those of over 4,300 digits."""


def resolve(word: str) -> Scalar | None:
    """The number, truth value, nothing or text that an unquoted word is."""
    if word in _WORDS:
        return _WORDS[word]
    found = number(word)
    return word if found is None else found


def number(word: str) -> int | float | None:
    """The number a word is, or None if it is none."""
    whole = _WHOLE.fullmatch(word) or _BASED.fullmatch(word)
    if not whole and not _FLOAT.fullmatch(word):
        return None
    if whole and len(word) > _NUMBER_CHARACTERS:
        return float("-inf" if word.startswith("-") else "inf")
    if not whole:
        return float(word)
    return int(word, 0) if word[:2] in ("0o", "0x") else int(word)


def untyped(word: str) -> Scalar:
    """The same for a form that has no nothing: what is no number and no truth value is a text."""
    found = resolve(word)
    return word if found is None else found
