r"""Translates an RE2 pattern to a Java pattern that matches the same texts, for Spark's `rlike`.

`match` asks only whether the pattern occurs. So groups need no names, and greedy or lazy makes no difference.
Left are letters, classes, anchors and repetition. Every class, and every letter in a part that ignores case,
is written as the ranges of code points that RE2 itself finds for it, so Java's own tables are not used. One
difference remains: RE2 also finds `\B` between the bytes of one character, which Java does not.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

import re2

from penstock.errors import PolicyError
from penstock.policy.params import regex

_WORD: Final = "[0-9A-Za-z_]"
_BOUNDARY: Final = f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_NO_BOUNDARY: Final = f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"
_ANCHORS: Final = {"\\A": r"\A", "\\z": r"\z", "\\b": _BOUNDARY, "\\B": _NO_BOUNDARY}

# One token each, in the order in which they are tried.
_TOKEN: Final = re.compile(
    r"""
    (?P<quoted>\\Q(?P<inside>.*?)(?:\\E|\Z))
  | (?P<end>\\E)
  | (?P<anchor>\\[AzbB])
  | (?P<byte>\\C)
  | (?P<class>\\[pP](?:\{[^}]*\}|.) | \\[dDsSwW]
      | \[ \^? \]? (?: \[:\^?\w+:\] | \\. | [^\]\\] )* \] )
  | (?P<letter>\\x\{[0-9A-Fa-f]+\} | \\x[0-9A-Fa-f]{2} | \\[0-7]{1,3} | \\.)
  | (?P<flags>\(\?(?P<set>[imsU]*(?:-[imsU]+)?)(?P<closes>[:)]))
  | (?P<open>\((?:\?P?<[^>]*>)?)
  | (?P<close>\))
  | (?P<repeat>(?:[*+?] | \{[0-9]+(?:,[0-9]*)?\})\??)
  | (?P<bar>\|)
  | (?P<begin>\^) | (?P<finish>\$) | (?P<dot>\.)
  | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=256)
def to_java(pattern: str) -> str:
    """The pattern for Java; PolicyError if it contains `\\C`, which Java cannot express."""
    return "".join(_translated(pattern))


def _translated(pattern: str) -> list[str]:
    out: list[str] = []
    flags: frozenset[str] = frozenset()
    outer: list[frozenset[str]] = []
    for token in _TOKEN.finditer(pattern):
        text, kind = token.group(), token.lastgroup
        named = token.groupdict()
        if named["flags"] is not None:
            if named["closes"] == ":":
                outer.append(flags)
                out.append("(?:")
            flags = _with(flags, named["set"])
        elif kind == "open":
            outer.append(flags)
            out.append("(?:")
        elif kind == "close":
            flags = outer.pop()
            out.append(")")
        elif named["quoted"] is not None:
            out.extend(_letter(sign, flags) for sign in named["inside"])
        else:
            out.append(_atom(str(kind), text, flags))
    return out


def _atom(kind: str, text: str, flags: frozenset[str]) -> str:
    match kind:
        case "byte":
            raise PolicyError(
                r"\C, a single byte, cannot be matched on Spark: its texts are made of characters",
                path="pattern",
            )
        case "end":
            return ""
        case "anchor":
            return _ANCHORS[text]
        case "repeat":
            return text if len(text) == 1 else text.removesuffix("?")
        case "bar":
            return "|"
        case "begin":
            return r"(?:\A|(?<=\n))" if "m" in flags else r"\A"
        case "finish":
            return r"(?=\n|\z)" if "m" in flags else r"\z"
        case "dot":
            return r"[\x{0}-\x{10FFFF}]" if "s" in flags else r"[^\n]"
        case "plain":
            return _letter(text, flags)
        case _:
            return _class(text, flags)


def _with(flags: frozenset[str], setting: str) -> frozenset[str]:
    on, _, off = setting.partition("-")
    return (flags | frozenset(on)) - frozenset(off)


def _letter(sign: str, flags: frozenset[str]) -> str:
    return _class(re2.escape(sign), flags) if "i" in flags else _sign(ord(sign))


def _class(source: str, flags: frozenset[str]) -> str:
    """Java class of the code points that an RE2 class or letter matches."""
    return _ranges(f"(?i:{source})" if "i" in flags else source)


@lru_cache(maxsize=1024)
def _ranges(source: str) -> str:
    spans = [match.span() for match in regex(f"(?:{source})+").finditer(_every_character())]
    return f"[{''.join(_range(begin, end - 1) for begin, end in spans)}]" if spans else r"(?!)"


def _range(first: int, last: int) -> str:
    """A range of code points."""
    every = _every_character()
    begin, end = _sign(ord(every[first])), _sign(ord(every[last]))
    return begin if first == last else f"{begin}-{end}"


def _sign(point: int) -> str:
    return chr(point) if chr(point).isalnum() and point < 0x80 else f"\\x{{{point:X}}}"


@cache
def _every_character() -> str:
    """All Unicode characters in order, without surrogates."""
    return "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
