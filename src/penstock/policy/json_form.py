"""JSON as a located tree."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from penstock.policy import complaints, tree
from penstock.policy.core_schema import number

if TYPE_CHECKING:
    from penstock.errors import PolicyError
    from penstock.model.values import Scalar

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"true|false|null")
_WORDS: Final[dict[str, Scalar | None]] = {"true": True, "false": False, "null": None}


def tree_of(text: str) -> tree.Tree:
    """The value in a text; PolicyError names the place that cannot be read."""
    reader = _Reader(text)
    found = reader.value(depth=1)
    if reader.index < len(text):
        raise reader.expected("the end of the text")
    return found


class _Reader:
    """Reads from `index` on; `index` always stands on something that is not blank."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = tree.Lines(text)
        self.index = 0
        self.skip("")

    @property
    def place(self) -> tree.Place:
        return self.lines.place(self.index)

    def expected(self, what: str) -> PolicyError:
        found = self.text[self.index : self.index + 1]
        return complaints.wrong(
            f"not JSON: expected {what}, found {found!r}"
            if found
            else f"not JSON: expected {what}, found the end of the text",
            self.place,
        )

    def skip(self, token: str) -> None:
        """Go on behind a token and the blanks that follow it."""
        blank = _BLANK.match(self.text, self.index + len(token))
        assert blank is not None
        self.index = blank.end()

    def took(self, mark: str) -> bool:
        found = self.text.startswith(mark, self.index)
        if found:
            self.skip(mark)
        return found

    def value(self, depth: int) -> tree.Tree:
        place = self.place
        if self.took("{"):
            complaints.check_depth(depth, place)
            return self.mapping(place, depth)
        if self.took("["):
            complaints.check_depth(depth, place)
            return self.listing(place, depth)
        return tree.Leaf(self.scalar(place), place)

    def mapping(self, place: tree.Place, depth: int) -> tree.Tree:
        entries: list[tree.Entry] = []
        while not self.took("}"):
            if entries and not self.took(","):
                raise self.expected("',' or '}'")
            key_place = self.place
            key = self.string(key_place)
            if key is None:
                raise self.expected("a key in double quotes")
            if not self.took(":"):
                raise self.expected("':'")
            entries.append(tree.Entry(key, key_place, self.value(depth + 1)))
        return tree.Mapping(tuple(entries), place)

    def listing(self, place: tree.Place, depth: int) -> tree.Tree:
        items: list[tree.Tree] = []
        while not self.took("]"):
            if items and not self.took(","):
                raise self.expected("',' or ']'")
            items.append(self.value(depth + 1))
        return tree.Listing(tuple(items), place)

    def scalar(self, place: tree.Place) -> Scalar | None:
        string = self.string(place)
        if string is not None:
            return string
        word = _WORD.match(self.text, self.index)
        if word:
            self.skip(word.group())
            return _WORDS[word.group()]
        digits = _NUMBER.match(self.text, self.index)
        if digits is None:
            raise self.expected("a value")
        self.skip(digits.group())
        return number(digits.group())

    def string(self, place: tree.Place) -> str | None:
        token = _STRING.match(self.text, self.index)
        if token is None:
            return None
        try:
            found = json.loads(token.group())
        except json.JSONDecodeError as error:
            self.index += error.pos
            raise complaints.wrong(f"not JSON: {error.msg}", self.place) from None
        self.skip(token.group())
        return complaints.check_characters(found, place)
