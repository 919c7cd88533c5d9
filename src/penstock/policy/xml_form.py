"""The paper's XML as a located tree, in the shape of the other forms.

    policy [attribute, name, missing, payload]
        description
        summary             digester [name, attribute]
        level               filter [name, attribute, action, missing]
                                para [name, value, type]      item [value, type]

Figure 2 prints `<digester>` without an end, so a digester is always empty and its end tag means nothing.
XML 1.0 has no way to write most control characters: on an element with `escapes="json"` the free texts have
JSON's backslash escapes. Declarations of document types and entities are refused.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from penstock.errors import PolicyError
from penstock.policy import complaints, core_schema, filters, paths, tree
from penstock.policy.params import check_characters, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.values import Scalar

ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "policy": ("attribute", "name", "missing", "payload", "escapes"),
    "description": ("escapes",),
    "summary": (),
    "digester": ("name", "attribute", "escapes"),
    "level": (),
    "filter": ("name", "attribute", "action", "missing", "escapes"),
    "para": ("name", "value", "type", "escapes"),
    "item": ("value", "type", "escapes"),
}
"""What each element may say."""

INSIDE: Final[dict[str, tuple[str, ...]]] = {
    "": ("policy",),
    "policy": ("description", "summary", "level"),
    "description": (),
    "summary": ("digester",),
    "digester": (),
    "level": ("filter",),
    "filter": ("para",),
    "para": ("item",),
    "item": (),
}
"""What each element may hold."""

FREE: Final = ("name", "attribute", "value")
"""Attributes that hold a free text."""

TYPES: Final = ("number", "text", "boolean")


def tree_of(text: str) -> tree.Tree:
    """The policy element in a text; PolicyError names the place that cannot be read."""
    return _policy(_elements(text))


# -- elements ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Element:
    name: str
    place: tree.Place
    said: dict[str, str]
    held: list[_Element] = field(default_factory=list)
    text: str = ""

    def all(self, name: str) -> list[_Element]:
        return [element for element in self.held if element.name == name]


class _Growth:
    """Collects elements from expat's calls, and stops at what no policy holds."""

    def __init__(self, source: _Source) -> None:
        self.source = source
        self.open = [_Element("", tree.Place(1, 1), {})]
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
            element = _Element(name, place, _unescaped(said))
        outer.held.append(element)
        self.open.append(element)

    def end(self, _: str) -> None:
        self.open.pop()

    def characters(self, text: str) -> None:
        if self.open[-1].name == "description":
            self.open[-1].text += text
        elif text.strip():
            problem = f"a text stands between the elements: {shown(text.strip())}"
            raise complaints.wrong(problem, self.place)

    def doctype(self, *_: object) -> None:
        raise complaints.wrong("a document type declaration is not accepted; remove it", self.place)


def _elements(text: str) -> _Element:
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
    return {word: _json_text(text) if word in FREE else text for word, text in said.items()}


def _check_escapes(found: str) -> None:
    if found != "json":
        raise PolicyError(f"escapes={shown(found)}", allowed="json")


def _json_text(text: str) -> str:
    try:
        found = str(json.loads(f'"{text}"', strict=False))
    except json.JSONDecodeError as error:
        raise PolicyError(f"not a text with JSON's escapes: {error.msg} in {shown(text)}") from None
    check_characters(found)
    return found


# -- unclosed digesters --------------------------------------------------------------------------------------


class _Source:
    """The text as expat gets it, with every digester closed, and places in the text as it was written."""

    # Comments and character data come first: what stands in them is no tag. Each part has one way to match
    # and an open end matches up to the end of the text, so the search is linear.
    _PARTS = re.compile(
        r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"
        r"|(?P<start><digester(?=[\s/>])(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>)"
        r"|(?P<end></digester\s*>)",
        re.DOTALL,
    )

    def __init__(self, text: str) -> None:
        self._lines = tree.Lines(text)
        self._added: list[int] = []
        """Where in `data` a character was added."""
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
        """The place, as written, of what expat met at a byte."""
        index = len(self.data[: max(byte_index, 0)].decode(errors="ignore"))
        return self._lines.place(index - bisect(self._added, index - 1))


# -- the tree ------------------------------------------------------------------------------------------------


def _leaf(value: Scalar | None, place: tree.Place) -> tree.Leaf:
    return tree.Leaf(value, place)


def _mapping(parts: Iterable[tuple[str, tree.Tree]], place: tree.Place) -> tree.Mapping:
    return tree.Mapping(tuple(tree.Entry(key, part.place, part) for key, part in parts), place)


def _policy(policy: _Element) -> tree.Mapping:
    parts: list[tuple[str, tree.Tree]] = [
        (word, _leaf(policy.said[word], policy.place))
        for word in ("name", "attribute", "missing", "payload")
        if word in policy.said
    ]
    parts += [("description", _leaf(_description(each), each.place)) for each in policy.all("description")]
    attribute = policy.said.get("attribute", paths.Source.PAYLOAD.value)
    parts += [("digest", _digest(each, attribute)) for each in policy.all("summary")]
    levels = tuple(_level(each) for each in policy.all("level"))
    parts.append(("levels", tree.Listing(levels, policy.place)))
    return _mapping(parts, policy.place)


def _description(element: _Element) -> str:
    if "escapes" not in element.said:
        return " ".join(re.split(r"[ \t\r\n]+", element.text.strip(" \t\r\n")))
    with complaints.inside("description", element.place):
        return _json_text(element.text)


def _digest(summary: _Element, attribute: str) -> tree.Tree:
    """Names for the policy's own attribute, or by attribute as soon as one digester has another."""
    by_attribute: dict[str, list[tree.Tree]] = {}
    for digester in summary.held:
        name = _leaf(_name(digester), digester.place)
        by_attribute.setdefault(digester.said.get("attribute", attribute), []).append(name)
    if not by_attribute.keys() - {attribute}:
        return tree.Listing(tuple(by_attribute.get(attribute, ())), summary.place)
    lists = ((key, tree.Listing(tuple(names), names[0].place)) for key, names in by_attribute.items())
    return _mapping(lists, summary.place)


def _name(element: _Element) -> str:
    if "name" not in element.said:
        raise complaints.wrong(f"<{element.name}> has no name", element.place)
    return element.said["name"].lower()


def _level(level: _Element) -> tree.Tree:
    steps = tuple(_step(each) for each in level.held)
    return steps[0] if len(steps) == 1 else tree.Listing(steps, level.place)


def _step(element: _Element) -> tree.Tree:
    name = _name(element)
    known = filters.CATALOGUE.get(name)
    verb = element.said.get("action", known.verb.value if known else filters.Verb.DROP.value).lower()
    beside: list[tuple[str, tree.Tree]] = [
        (word, _leaf(element.said[word], element.place))
        for word in ("attribute", "missing")
        if word in element.said
    ]
    parameters = _mapping(((_name(para), _value(para)) for para in element.held), element.place)
    return _mapping([(verb, _mapping([(name, parameters), *beside], element.place))], element.place)


def _value(para: _Element) -> tree.Tree:
    if "value" in para.said and para.held:
        raise complaints.wrong("<para> has a value and items; write one of the two", para.place)
    if para.held:
        return tree.Listing(tuple(_leaf(_typed(item), item.place) for item in para.held), para.place)
    value = _typed(para)
    return tree.Leaf(value, para.place, written=None if "type" in para.said else para.said["value"])


def _typed(element: _Element) -> Scalar:
    with complaints.at(element.place):
        if "value" not in element.said:
            raise PolicyError(f"<{element.name}> has no value")
        word = element.said["value"]
        match element.said.get("type"):
            case None:
                return core_schema.untyped(word)
            case "text":
                return word
            case "number" if (found := core_schema.number(word)) is not None:
                return found
            case "boolean" if word.lower() in ("true", "false"):
                return word.lower() == "true"
            case "number" | "boolean" as kind:
                raise PolicyError(f"expected a {kind}, found {shown(word)}")
            case kind:
                raise complaints.unknown("type", str(kind), TYPES, element.place)
