"""Attribute paths: `vitals.pulse`, `readings.0.mv`, `"a.b".c`, and pseudo-attributes such as `$topic`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Final

from penstock import limits
from penstock.errors import PolicyError


class Source(Enum):
    """Where an attribute is read from; the member's value is its pseudo-attribute."""

    PAYLOAD = "$value"
    """The payload, or a part of it."""
    TOPIC = "$topic"
    TS = "$ts"
    SIZE = "$size"
    SENDER = "$sender"
    PROPERTY = "$prop"


PSEUDO: Final = {
    "$value": "the whole payload, when it is one number, text or list",
    "$topic": "the topic",
    "$ts": "event time in microseconds",
    "$size": "bytes of the payload plus characters of the topic",
    "$sender": "client id of the publisher",
    "$prop.<name>": "an MQTT user property (the first of that name)",
}

# A quoted segment may hold dots; inside it `""` is one quote.
_SEGMENT = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed attribute path."""

    text: str
    """The path as the policy has it; digests name the attribute by this text."""
    source: Source
    segments: tuple[str, ...] = ()
    """Keys into the payload (or list indexes), or the one name of a user property."""

    def __str__(self) -> str:
        return self.text


def parse(text: object) -> Path:
    """Parse an attribute path; PolicyError if it is invalid."""
    if not isinstance(text, str) or not text:
        raise PolicyError(f"an attribute path is a text like 'vitals.pulse', found {text!r}")
    if len(text) > limits.PATH_CHARACTERS:
        raise PolicyError(f"an attribute path of {len(text)} characters; at most {limits.PATH_CHARACTERS}")
    return _pseudo(text) if text.startswith("$") else Path(text, Source.PAYLOAD, _segments(text))


def _pseudo(text: str) -> Path:
    if text.startswith("$prop."):
        name = text.removeprefix("$prop.")
        if not name:
            raise PolicyError("'$prop.' lacks the name of a user property; write for example $prop.unit")
        return Path(text, Source.PROPERTY, (name,))
    for source in Source:
        if source.value == text and source is not Source.PROPERTY:
            return Path(text, source)
    near = get_close_matches(text, PSEUDO, n=1)
    raise PolicyError(
        f"unknown pseudo-attribute '{text}'", allowed=", ".join(PSEUDO), near=near[0] if near else ""
    )


def _segments(text: str) -> tuple[str, ...]:
    found: list[str] = []
    position = 0
    while True:
        segment = _SEGMENT.match(text, position)
        if segment is None:
            raise PolicyError(f"attribute path '{text}': a name is missing at character {position + 1}")
        quoted, plain = segment.groups()
        found.append(plain if quoted is None else quoted.replace('""', '"'))
        position = segment.end()
        if position == len(text):
            break
        if text[position] != ".":
            raise PolicyError(f"attribute path '{text}': expected '.' at character {position + 1}")
        position += 1
    if len(found) > limits.PATH_SEGMENTS:
        raise PolicyError(f"attribute path '{text}' is {len(found)} deep; at most {limits.PATH_SEGMENTS}")
    return tuple(found)
