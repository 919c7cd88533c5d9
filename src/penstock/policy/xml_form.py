"""The paper's XML as a located tree, in the shape of the other forms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.errors import PolicyError
from penstock.policy import complaints, core_schema, filters, paths, tree
from penstock.policy.params import shown
from penstock.policy.xml_elements import Element, elements_of, unescaped_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.values import Scalar

TYPES: Final = ("number", "text", "boolean")


def tree_of(text: str) -> tree.Tree:
    """The policy element in a text; PolicyError names the place that cannot be read."""
    return _policy(elements_of(text))


def _leaf(value: Scalar | None, place: tree.Place) -> tree.Leaf:
    return tree.Leaf(value, place)


def _mapping(parts: Iterable[tuple[str, tree.Tree]], place: tree.Place) -> tree.Mapping:
    return tree.Mapping(tuple(tree.Entry(key, part.place, part) for key, part in parts), place)


def _policy(policy: Element) -> tree.Mapping:
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


def _description(element: Element) -> str:
    if "escapes" not in element.said:
        return " ".join(re.split(r"[ \t\r\n]+", element.text.strip(" \t\r\n")))
    with complaints.inside("description", element.place):
        return unescaped_text(element.text)


def _digest(summary: Element, attribute: str) -> tree.Tree:
    """Names for the policy's own attribute, or by attribute as soon as one digester has another."""
    by_attribute: dict[str, list[tree.Tree]] = {}
    for digester in summary.held:
        name = _leaf(_name(digester), digester.place)
        by_attribute.setdefault(digester.said.get("attribute", attribute), []).append(name)
    if not by_attribute.keys() - {attribute}:
        return tree.Listing(tuple(by_attribute.get(attribute, ())), summary.place)
    lists = ((key, tree.Listing(tuple(names), names[0].place)) for key, names in by_attribute.items())
    return _mapping(lists, summary.place)


def _name(element: Element) -> str:
    if "name" not in element.said:
        raise complaints.wrong(f"<{element.name}> has no name", element.place)
    return element.said["name"].lower()


def _level(level: Element) -> tree.Tree:
    steps = tuple(_step(each) for each in level.held)
    return steps[0] if len(steps) == 1 else tree.Listing(steps, level.place)


def _step(element: Element) -> tree.Tree:
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


def _value(para: Element) -> tree.Tree:
    if "value" in para.said and para.held:
        raise complaints.wrong("<para> has a value and items; write one of the two", para.place)
    if para.held:
        return tree.Listing(tuple(_leaf(_typed(item), item.place) for item in para.held), para.place)
    value = _typed(para)
    return tree.Leaf(value, para.place, written=None if "type" in para.said else para.said["value"])


def _typed(element: Element) -> Scalar:
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
