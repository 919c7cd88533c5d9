"""The paper's XML: parses elements into a located tree of the shape of the other forms, and writes a
policy."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PolicyError
from penstock.model.instant import written
from penstock.policy import filters, paths
from penstock.policy.nodes import SHARE, Missing, PayloadFormat
from penstock.policy.params import params_of, shown
from penstock.policy.paths import Source
from penstock.policy.text import tree
from penstock.policy.text import tree as complaints
from penstock.policy.text import tree as core_schema
from penstock.policy.text.short_form import said_of, sending, spoken
from penstock.policy.text.xml_elements import FREE, Element, elements_of, unescaped_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.model.values import Scalar
    from penstock.policy.nodes import Policy, Step
    from penstock.policy.params import ParamKind

TYPES: Final = ("number", "text", "boolean")


def tree_of(text: str) -> tree.Tree:
    """Parse XML; PolicyError names the place that is wrong."""
    return _policy(elements_of(text))


def _leaf(value: Scalar | None, place: tree.Place) -> tree.LeafNode:
    return tree.LeafNode(value, place)


def _mapping(parts: Iterable[tuple[str, tree.Tree]], place: tree.Place) -> tree.MapNode:
    return tree.MapNode(tuple(tree.Entry(key, part.place, part) for key, part in parts), place)


def _policy(policy: Element) -> tree.MapNode:
    parts: list[tuple[str, tree.Tree]] = [
        (word, _leaf(policy.said[word], policy.place))
        for word in ("name", "attribute", "missing", "payload", "fresh")
        if word in policy.said
    ]
    parts += [("description", _leaf(_description(each), each.place)) for each in policy.all("description")]
    for key in ("urgent", "matters"):
        parts += [(key, _predicates(each)) for each in policy.all(key)]
    attribute = policy.said.get("attribute", paths.Source.PAYLOAD.value)
    parts += [("digest", _digest(each, attribute)) for each in policy.all("summary")]
    levels = tuple(_level(each) for each in policy.all("level"))
    parts.append(("levels", tree.ListNode(levels, policy.place)))
    return _mapping(parts, policy.place)


def _description(element: Element) -> str:
    if "escapes" not in element.said:
        return " ".join(re.split(r"[ \t\r\n]+", element.text.strip(" \t\r\n")))
    with complaints.inside("description", element.place):
        return unescaped_text(element.text)


def _digest(summary: Element, attribute: str) -> tree.Tree:
    """Digesters as a list for the policy's own attribute, or by attribute if one names another or if digests
    are sent in a particular way."""
    by_attribute: dict[str, list[tree.Tree]] = {}
    for digester in summary.held:
        name = _leaf(_name(digester), digester.place)
        by_attribute.setdefault(digester.said.get("attribute", attribute), []).append(name)
    settings: list[tuple[str, tree.Tree]] = [
        (word, _leaf(core_schema.untyped(text) if word == SHARE else text, summary.place))
        for word, text in summary.said.items()
    ]
    if not settings and not by_attribute.keys() - {attribute}:
        return tree.ListNode(tuple(by_attribute.get(attribute, ())), summary.place)
    lists = [(key, tree.ListNode(tuple(names), names[0].place)) for key, names in by_attribute.items()]
    return _mapping([*lists, *settings], summary.place)


def _name(element: Element) -> str:
    if "name" not in element.said:
        raise complaints.wrong(f"<{element.name}> has no name", element.place)
    return element.said["name"].lower()


def _level(level: Element) -> tree.Tree:
    steps = tuple(_step(each) for each in level.held)
    return steps[0] if len(steps) == 1 else tree.ListNode(steps, level.place)


def _step(element: Element) -> tree.Tree:
    name = _name(element)
    known = filters.CATALOGUE.get(name)
    verb = element.said.get("action", known.verb.value if known else filters.Verb.DROP.value).lower()
    beside: list[tuple[str, tree.Tree]] = [
        (word, _leaf(element.said[word], element.place))
        for word in ("attribute", "missing")
        if word in element.said
    ]
    return _mapping([(verb, _mapping([(name, _parameters(element)), *beside], element.place))], element.place)


def _predicates(element: Element) -> tree.Tree:
    return tree.ListNode(tuple(_predicate(each, element.name) for each in element.held), element.place)


def _predicate(element: Element, key: str) -> tree.Tree:
    for word in ("action", "missing"):
        if word in element.said:
            problem = f"a filter in <{key}> has no '{word}'"
            raise complaints.wrong(problem, element.place, allowed="name, attribute")
    parts: list[tuple[str, tree.Tree]] = [(_name(element), _parameters(element))]
    if "attribute" in element.said:
        parts.append(("attribute", _leaf(element.said["attribute"], element.place)))
    return _mapping(parts, element.place)


def _parameters(element: Element) -> tree.MapNode:
    return _mapping(((_name(para), _value(para)) for para in element.held), element.place)


def _value(para: Element) -> tree.Tree:
    if "value" in para.said and para.held:
        raise complaints.wrong("<para> has a value and items; write one of the two", para.place)
    if para.held:
        return tree.ListNode(tuple(_leaf(_typed(item), item.place) for item in para.held), para.place)
    value = _typed(para)
    return tree.LeafNode(value, para.place, written=None if "type" in para.said else para.said["value"])


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


_UNWRITABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKUP: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)
_TYPES: Final = {bool: "boolean", int: "number", float: "number", str: "text"}


def text_of(policy: Policy) -> str:
    """The policy in XML, ending with a line break."""
    return "".join(f"{line}\n" for line in _lines(policy))


def _lines(policy: Policy) -> Iterator[str]:
    said = {
        "name": policy.name or None,
        "attribute": None if policy.attribute == Source.PAYLOAD.value else policy.attribute,
        "missing": None if policy.missing is Missing.KEEP else policy.missing.value,
        "payload": None if policy.payload is PayloadFormat.AUTO else policy.payload.value,
        "fresh": None if policy.fresh_us is None else written(policy.fresh_us),
    }
    yield f"<{_tag('policy', said)}>"
    if policy.description:
        yield f"  {_description_text(policy.description)}"
    for key, predicates in (("urgent", policy.urgent), ("matters", policy.matters)):
        if predicates:
            yield f"  <{key}>"
            for step in predicates:
                yield from _filter(replace(step, verb=step.filter.verb), said_of(step.filter))
            yield f"  </{key}>"
    said = {word: _word(value) for word, value in sending(policy).items()}
    if policy.digest or said:
        yield f"  <{_tag('summary', said)}>"
        for attribute, digester in policy.digest:
            own = None if attribute == policy.attribute else attribute
            yield f"    <{_tag('digester', {'name': digester.upper(), 'attribute': own})}/>"
        yield "  </summary>"
    steps = spoken(policy)
    for chain in policy.levels:
        yield "  <level>"
        for _ in chain:
            yield from _filter(*next(steps))
        yield "  </level>"
    yield "</policy>"


def _filter(step: Step, given: dict[str, Any]) -> Iterator[str]:
    said = {
        "name": step.filter.name.upper(),
        "attribute": step.attribute,
        "action": None if step.verb is step.filter.verb else step.verb.value,
        "missing": step.missing and step.missing.value,
    }
    if not given:
        yield f"    <{_tag('filter', said)}/>"
        return
    yield f"    <{_tag('filter', said)}>"
    kinds = {param.name: param.kind for param in params_of(type(step.filter))}
    for name, value in given.items():
        yield from _para(name, value, kinds[name])
    yield "    </filter>"


def _para(name: str, value: Any, kind: ParamKind) -> Iterator[str]:
    if not kind.is_list:
        yield f"      <{_tag('para', {'name': name, **_typed_text(value, is_text=kind.is_text)})}/>"
    elif all(_goes_bare(member) for member in value):
        joined = ",".join(_word(member) for member in value)
        yield f"      <{_tag('para', {'name': name, 'value': joined})}/>"
    else:
        yield f"      <{_tag('para', {'name': name})}>"
        for member in value:
            yield f"        <{_tag('item', _typed_text(member, is_text=False))}/>"
        yield "      </para>"


def _typed_text(value: Scalar, *, is_text: bool) -> dict[str, str | None]:
    """Characters of a value, and its type unless the reader would infer it."""
    word = _word(value)
    is_clear = is_text or _same(tree.untyped(word), value)
    return {"value": word, "type": None if is_clear else _TYPES[type(value)]}


def _goes_bare(member: Scalar) -> bool:
    """Whether an item of a list can be written between commas."""
    word = _word(member)
    return "," not in word and word == word.strip() and _same(tree.untyped(word), member)


def _same(one: Scalar, other: Scalar) -> bool:
    return type(one) is type(other) and one == other


def _word(value: Scalar) -> str:
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _tag(name: str, said: dict[str, str | None]) -> str:
    written = {word: text for word, text in said.items() if text is not None}
    if any(_UNWRITABLE.search(text) for text in written.values()):
        written = {word: _escaped(text) if word in FREE else text for word, text in written.items()}
        written["escapes"] = "json"
    return " ".join([name, *(f'{word}="{text.translate(_MARKUP)}"' for word, text in written.items())])


def _description_text(text: str) -> str:
    # The reader normalises whitespace of a plain description, so text with other whitespace needs escapes.
    if _UNWRITABLE.search(text) or text != " ".join(re.split(r"[ \t\r\n]+", text.strip(" \t\r\n"))):
        return f'<description escapes="json">{_escaped(text).translate(_MARKUP)}</description>'
    return f"<description>{text.translate(_MARKUP)}</description>"


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]
