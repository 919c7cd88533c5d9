"""A policy as YAML: one line per level, texts in quotes wherever they could be taken for something else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.policy.core_schema import resolve
from penstock.policy.short_form import short_form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.policy.nodes import Policy

_WIDTH: Final = 100
_KEY_CHARACTERS: Final = 1_000
"""YAML wants an explicit `?` before a key of over 1,024 characters."""

_BARE: Final = re.compile(r"[^\W\d][\w./$-]*(?: [\w./$-]+)*|\$[\w./$-]+")
_OLD_TRUTHS: Final = frozenset({"y", "n", "yes", "no", "on", "off"})
"""Truth values of YAML 1.1, which other programs may still read."""

_ESCAPED: Final = re.compile(
    '["\\\\]|[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]'
)
_SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def text_of(policy: Policy) -> str:
    """The policy in YAML 1.2, ending with a line break."""
    return "".join(f"{line}\n" for line in _lines(short_form(policy)))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    for key, part in data.items():
        if key == "levels":
            yield "levels:"
            for level in part:
                yield from _level(level)
        elif isinstance(part, dict):
            yield f"{key}:"
            for name, members in part.items():
                yield from _entry(name, members)
        else:
            yield f"{key}: {_flow(part, indent=2)}"


def _entry(name: str, members: Any) -> Iterator[str]:
    key = _scalar(name)
    if len(key) <= _KEY_CHARACTERS:
        yield f"  {key}: {_flow(members, indent=4)}"
    else:
        yield f"  ? {key}"
        yield f"  : {_flow(members, indent=4)}"


def _level(level: dict[str, Any] | list[dict[str, Any]]) -> Iterator[str]:
    chain = level if isinstance(level, list) else [level]
    first = "  - - " if isinstance(level, list) else "  - "
    for number, step in enumerate(chain):
        ((verb, use),) = step.items()
        yield f"{'    - ' if number else first}{verb}: {_flow(use, indent=8)}"


def _flow(part: Any, *, indent: int) -> str:
    if isinstance(part, dict):
        return "{" + ", ".join(f"{key}: {_flow(value, indent=indent)}" for key, value in part.items()) + "}"
    if isinstance(part, list):
        return "[" + _wrapped([_scalar(member) for member in part], indent) + "]"
    return _scalar(part)


def _wrapped(members: list[str], indent: int) -> str:
    lines: list[list[str]] = [[]]
    width = indent
    for member in members:
        if width + len(member) > _WIDTH and lines[-1]:
            lines.append([])
            width = indent
        lines[-1].append(member)
        width += len(member) + 2
    return (",\n" + " " * indent).join(", ".join(line) for line in lines)


def _scalar(found: object) -> str:
    if not isinstance(found, str):
        return str(found).lower() if isinstance(found, bool) else repr(found)
    if _BARE.fullmatch(found) and isinstance(resolve(found), str) and found.lower() not in _OLD_TRUTHS:
        return found
    return '"' + _ESCAPED.sub(_escape, found) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    return _SHORT_ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
