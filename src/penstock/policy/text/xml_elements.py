"""XML as elements with their places; only the elements of a policy are accepted.

    policy [attribute, name, missing, payload, fresh]
        description
        urgent, matters     filter [name, attribute]
        summary [every, share]
                            digester [name, attribute]
        level               filter [name, attribute, action, missing]
                                para [name, value, type]      item [value, type]

Figure 2 of the paper prints `<digester>` without an end tag, so a digester is always empty and its end tag is
ignored. XML 1.0 cannot express most control characters: on an element with `escapes="json"` the free texts
have JSON's backslash escapes. Document type and entity declarations are refused.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from penstock.errors import PolicyError
from penstock.policy.params import check_characters, shown
from penstock.policy.text import tree
from penstock.policy.text import tree as complaints

ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "policy": ("attribute", "name", "missing", "payload", "fresh", "escapes"),
    "description": ("escapes",),
    "urgent": (),
    "matters": (),
    "summary": ("every", "share"),
    "digester": ("name", "attribute", "escapes"),
    "level": (),
    "filter": ("name", "attribute", "action", "missing", "escapes"),
    "para": ("name", "value", "type", "escapes"),
    "item": ("value", "type", "escapes"),
}
"""Attributes of each element."""

INSIDE: Final[dict[str, tuple[str, ...]]] = {
    "": ("policy",),
    "policy": ("description", "urgent", "matters", "summary", "level"),
    "description": (),
    "urgent": ("filter",),
    "matters": ("filter",),
    "summary": ("digester",),
    "digester": (),
    "level": ("filter",),
    "filter": ("para",),
    "para": ("item",),
    "item": (),
}
"""Children of each element."""

FREE: Final = ("name", "attribute", "value")
"""Attributes that hold free text."""


@dataclass(slots=True)
class Element:
    """One element."""

    name: str
    place: tree.Place
    said: dict[str, str]
    """Attributes, unescaped."""
    held: list[Element] = field(default_factory=list)
    text: str = ""
    """Character data as written; only a description has any."""

    def all(self, name: str) -> list[Element]:
        """Children with this name."""
        return [element for element in self.held if element.name == name]


class _Growth:
    """Builds elements from expat's callbacks, and refuses anything a policy does not contain."""

    def __init__(self, source: _Source) -> None:
        self.source = source
        self.open = [Element("", tree.Place(1, 1), {})]
        self.parser = expat.ParserCreate("UTF-8")
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.doctype

    @property
    def place(self) -> tree.Place:
        return self.source.place(self.parser.CurrentByteIndex)

    @property
    def path(self) -> str:
        return ".".join(element.name for element in self.open[1:])

    def start(self, name: str, said: dict[str, str]) -> None:
        place = self.place
        outer = self.open[-1]
        with complaints.inside(self.path, place):
            if name not in INSIDE[outer.name]:
                raise complaints.unknown("element", name, INSIDE[outer.name] or ("no element",), place)
            complaints.check_depth(len(self.open), place)
            for word in said:
                if word not in ATTRIBUTES[name]:
                    raise complaints.unknown(
                        f"attribute of <{name}>", word, ATTRIBUTES[name] or ("none",), place
                    )
            element = Element(name, place, _unescaped(said))
        outer.held.append(element)
        self.open.append(element)

    def end(self, _: str) -> None:
        self.open.pop()

    def characters(self, text: str) -> None:
        if self.open[-1].name == "description":
            self.open[-1].text += text
        elif text.strip():
            problem = f"unexpected text between elements: {shown(text.strip())}"
            raise complaints.wrong(problem, self.place)

    def doctype(self, *_: object) -> None:
        raise complaints.wrong("a document type declaration is not accepted; remove it", self.place)


def elements_of(text: str) -> Element:
    """Parse XML into the policy element; PolicyError names the place that is wrong."""
    source = _Source(text)
    growth = _Growth(source)
    try:
        growth.parser.Parse(source.data, True)
    except expat.ExpatError as error:
        problem = f"not XML: {expat.ErrorString(error.code)}"
        raise complaints.wrong(problem, source.place(growth.parser.ErrorByteIndex)) from None
    return growth.open[0].held[0]


def _unescaped(said: dict[str, str]) -> dict[str, str]:
    if "escapes" not in said:
        return said
    _check_escapes(said["escapes"])
    return {word: unescaped_text(text) if word in FREE else text for word, text in said.items()}


def _check_escapes(found: str) -> None:
    if found != "json":
        raise PolicyError(f"escapes={shown(found)}", allowed="json")


def unescaped_text(text: str) -> str:
    """Decode JSON's backslash escapes in a text."""
    try:
        found = str(json.loads(f'"{text}"', strict=False))
    except json.JSONDecodeError as error:
        raise PolicyError(f"invalid JSON escapes: {error.msg} in {shown(text)}") from None
    check_characters(found)
    return found


# -- unclosed digesters --------------------------------------------------------------------------------------


class _Source:
    """The text for expat with every digester closed, and places in the text as it was written."""

    # Comments and CDATA come first: a tag inside them is not a tag. Each part has one way to match, and an
    # open
    # end matches up to the end of the text, so the search takes linear time.
    _PARTS = re.compile(
        r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"
        r"|(?P<start><digester(?=[\s/>])(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>)"
        r"|(?P<end></digester\s*>)",
        re.DOTALL,
    )

    def __init__(self, text: str) -> None:
        self._lines = tree.Lines(text)
        self._added: list[int] = []
        """Offsets in `data` where a character was inserted."""
        self._text = self._PARTS.sub(self._closed, text)
        self.data = self._text.encode()

    def _closed(self, part: re.Match[str]) -> str:
        if part["end"]:
            return " " * len(part["end"])
        if not part["start"] or part["start"].endswith("/>"):
            return part.group()
        self._added.append(part.end() - 1 + len(self._added))
        return part["start"][:-1] + "/>"

    def place(self, byte_index: int) -> tree.Place:
        """Place in the original text of expat's byte index."""
        index = len(self.data[: max(byte_index, 0)].decode(errors="ignore"))
        return self._lines.place(index - bisect(self._added, index - 1))
