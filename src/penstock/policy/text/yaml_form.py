"""YAML: parses a text into a located tree, and writes a policy with one line per level.

Parsing uses the events of a safe loader and constructs no objects. Writing quotes every text that could be
read as something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from penstock.errors import PolicyError
from penstock.policy.params import shown
from penstock.policy.text import tree
from penstock.policy.text import tree as complaints
from penstock.policy.text.short_form import short_form
from penstock.policy.text.tree import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.policy.nodes import Policy

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml if installed: 64 KB take 0.05 s instead of 0.8 s."""

_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def tree_of(text: str) -> tree.Tree:
    """Parse the one document of a text; PolicyError names the place that is wrong."""
    bad = _UNPRINTABLE.search(text)
    if bad:
        problem = f"the character {bad.group()!r} must be written as an escape in double quotes"
        raise complaints.wrong(problem, tree.Lines(text).place(bad.start()))
    try:
        return _Growth().grow(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _explained(error) from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an escape beyond U+10FFFF
        raise PolicyError(f"not YAML: {error}") from None


def _explained(error: yaml.MarkedYAMLError) -> PolicyError:
    mark = error.problem_mark or error.context_mark
    problem = "not YAML: " + ", ".join(part for part in (error.problem, error.context) if part)
    return PolicyError(problem) if mark is None else complaints.wrong(problem, _place(mark))


def _place(mark: Any) -> tree.Place:
    return tree.Place(mark.line + 1, mark.column + 1)


@dataclass(slots=True)
class _Open:
    """A collection whose end event has not come yet."""

    place: tree.Place
    is_mapping: bool
    parts: list[tree.Tree] = field(default_factory=list)
    """Items; of a mapping, keys and values alternately."""

    @property
    def expects_key(self) -> bool:
        return self.is_mapping and len(self.parts) % 2 == 0

    def closed(self) -> tree.Tree:
        if not self.is_mapping:
            return tree.ListNode(tuple(self.parts), self.place)
        keys, values = self.parts[::2], self.parts[1::2]
        return tree.MapNode(
            tuple(
                tree.Entry(str(key.value), key.place, value)
                for key, value in zip(keys, values, strict=True)
                if isinstance(key, tree.LeafNode)
            ),
            self.place,
        )


class _Growth:
    """Builds the tree from events, with an explicit stack instead of recursion."""

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.root: tree.Tree | None = None

    def grow(self, events: Iterable[yaml.Event]) -> tree.Tree:
        for event in events:
            self.take(event)
        if self.root is None:
            raise PolicyError("the text is empty")
        return self.root

    def take(self, event: yaml.Event) -> None:
        assert event.start_mark is not None
        place = _place(event.start_mark)
        match event:
            case yaml.DocumentStartEvent() if self.root is not None:
                raise complaints.wrong("a second document begins; only one is allowed", place)
            case yaml.AliasEvent():
                raise complaints.wrong(
                    f"the alias {shown(event.anchor)} is not supported; write the value out", place
                )
            case yaml.ScalarEvent():
                _check_plain(event, place)
                self.add(self.leaf(event, place))
            case yaml.CollectionStartEvent():
                _check_plain(event, place)
                if self.open and self.open[-1].expects_key:
                    raise complaints.wrong("a key must be a text, found a collection", place)
                self.open.append(_Open(place, isinstance(event, yaml.MappingStartEvent)))
                complaints.check_depth(len(self.open), place)
            case yaml.CollectionEndEvent():
                self.add(self.open.pop().closed())

    def leaf(self, event: yaml.ScalarEvent, place: tree.Place) -> tree.LeafNode:
        text = complaints.check_characters(event.value, place)
        plain = event.implicit[0]
        if self.open and self.open[-1].expects_key:
            if plain and text == "<<":
                raise complaints.wrong("the merge key << is not supported; write the keys out", place)
            return tree.LeafNode(text, place)
        return tree.LeafNode(resolve(text) if plain else text, place)

    def add(self, part: tree.Tree) -> None:
        if self.open:
            self.open[-1].parts.append(part)
        else:
            self.root = part


def _check_plain(event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: tree.Place) -> None:
    """Refuse anchors and tags: they would make the tree a graph, or construct objects."""
    if event.anchor is not None:
        problem = f"the anchor {shown(event.anchor)} is not supported; write the value out"
        raise complaints.wrong(problem, place)
    if event.tag is not None:
        raise complaints.wrong(f"the tag {shown(event.tag)} is not supported; put a text into quotes", place)


_WIDTH: Final = 100
_KEY_CHARACTERS: Final = 1_000
"""Longest key written inline: YAML needs an explicit `?` before a key of over 1,024 characters."""

_BARE: Final = re.compile(r"[^\W\d][\w./$-]*(?: [\w./$-]+)*|\$[\w./$-]+")
_OLD_TRUTHS: Final = frozenset({"y", "n", "yes", "no", "on", "off"})
"""Truth values of YAML 1.1: quoted, because other programs may read the text by YAML 1.1."""

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
        elif isinstance(part, dict) and key not in ("urgent", "matters"):
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
        return "[" + _wrapped([_flow(member, indent=indent) for member in part], indent) + "]"
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
