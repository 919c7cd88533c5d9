"""YAML as a located tree: events of a safe parser, read without building any object they ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from penstock.errors import PolicyError
from penstock.policy import complaints, tree
from penstock.policy.core_schema import resolve
from penstock.policy.params import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where it is there: 64 KB from a stranger take 0.05 s instead of 0.8 s."""

_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def tree_of(text: str) -> tree.Tree:
    """The one document in a text; PolicyError names the place that cannot be read."""
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
    """A collection whose end has not come yet."""

    place: tree.Place
    is_mapping: bool
    parts: list[tree.Tree] = field(default_factory=list)
    """Items; of a mapping, keys and values in turn."""

    @property
    def expects_key(self) -> bool:
        return self.is_mapping and len(self.parts) % 2 == 0

    def closed(self) -> tree.Tree:
        if not self.is_mapping:
            return tree.Listing(tuple(self.parts), self.place)
        keys, values = self.parts[::2], self.parts[1::2]
        return tree.Mapping(
            tuple(
                tree.Entry(str(key.value), key.place, value)
                for key, value in zip(keys, values, strict=True)
                if isinstance(key, tree.Leaf)
            ),
            self.place,
        )


class _Growth:
    """Grows one tree from events, with a stack of its own instead of recursion."""

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
                raise complaints.wrong("a second document begins; a text holds one", place)
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
                    raise complaints.wrong("a key is a text, found a collection", place)
                self.open.append(_Open(place, isinstance(event, yaml.MappingStartEvent)))
                complaints.check_depth(len(self.open), place)
            case yaml.CollectionEndEvent():
                self.add(self.open.pop().closed())

    def leaf(self, event: yaml.ScalarEvent, place: tree.Place) -> tree.Leaf:
        text = complaints.check_characters(event.value, place)
        plain = event.implicit[0]
        if self.open and self.open[-1].expects_key:
            if plain and text == "<<":
                raise complaints.wrong("the merge key << is not supported; write the keys out", place)
            return tree.Leaf(text, place)
        return tree.Leaf(resolve(text) if plain else text, place)

    def add(self, part: tree.Tree) -> None:
        if self.open:
            self.open[-1].parts.append(part)
        else:
            self.root = part


def _check_plain(event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: tree.Place) -> None:
    """Refuse what would make a tree into something else: names for parts, and types by name."""
    if event.anchor is not None:
        problem = f"the anchor {shown(event.anchor)} is not supported; write the value out"
        raise complaints.wrong(problem, place)
    if event.tag is not None:
        raise complaints.wrong(f"the tag {shown(event.tag)} is not supported; put a text into quotes", place)
