"""JSON: parses a text into a located tree, and writes a policy."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.policy.text import tree
from penstock.policy.text import tree as complaints
from penstock.policy.text.short_form import short_form
from penstock.policy.text.tree import number

if TYPE_CHECKING:
    from penstock.errors import PolicyError
    from penstock.model.values import Scalar
    from penstock.policy.nodes import Policy

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"true|false|null")
_WORDS: Final[dict[str, Scalar | None]] = {"true": True, "false": False, "null": None}


def tree_of(text: str) -> tree.Tree:
    """Parse JSON; PolicyError names the place that is wrong."""
    reader = _Reader(text)
    found = reader.value(depth=1)
    if reader.index < len(text):
        raise reader.expected("the end of the text")
    return found


class _Reader:
    """Recursive-descent parser; between calls `index` is at a character that is not blank."""

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
        """Advance past a token and the blanks behind it."""
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
        return tree.LeafNode(self.scalar(place), place)

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
        return tree.MapNode(tuple(entries), place)

    def listing(self, place: tree.Place, depth: int) -> tree.Tree:
        items: list[tree.Tree] = []
        while not self.took("]"):
            if items and not self.took(","):
                raise self.expected("',' or ']'")
            items.append(self.value(depth + 1))
        return tree.ListNode(tuple(items), place)

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


def text_of(policy: Policy, *, compact: bool) -> str:
    """The policy in JSON: one line per key and level, ending with a line break; or compact without blanks."""
    data = short_form(policy)
    if compact:
        return _json(data, separators=(",", ":"))
    lines = [f"  {_json(key)}: {_spread(part)}" for key, part in data.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _spread(part: Any) -> str:
    """A mapping or the list of levels on several lines, anything else on one."""
    if isinstance(part, dict):
        return "{\n" + ",\n".join(f"    {_json(key)}: {_json(each)}" for key, each in part.items()) + "\n  }"
    if isinstance(part, list) and not isinstance(part[0], str):
        return "[\n" + ",\n".join(f"    {_json(each)}" for each in part) + "\n  ]"
    return _json(part)


def _json(part: Any, *, separators: tuple[str, str] = (", ", ": ")) -> str:
    return json.dumps(part, ensure_ascii=False, separators=separators)
