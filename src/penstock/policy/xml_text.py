"""A policy as the paper's XML."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.policy import core_schema
from penstock.policy.nodes import Missing, PayloadFormat
from penstock.policy.params import params_of
from penstock.policy.paths import Source
from penstock.policy.short_form import spoken
from penstock.policy.xml_elements import FREE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.values import Scalar
    from penstock.policy.nodes import Policy, Step
    from penstock.policy.params import Kind

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
    }
    yield f"<{_tag('policy', said)}>"
    if policy.description:
        yield f"  {_description(policy.description)}"
    if policy.digest:
        yield "  <summary>"
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


def _para(name: str, value: Any, kind: Kind) -> Iterator[str]:
    if not kind.is_list:
        yield f"      <{_tag('para', {'name': name, **_typed(value, is_text=kind.is_text)})}/>"
    elif all(_goes_bare(member) for member in value):
        joined = ",".join(_word(member) for member in value)
        yield f"      <{_tag('para', {'name': name, 'value': joined})}/>"
    else:
        yield f"      <{_tag('para', {'name': name})}>"
        for member in value:
            yield f"        <{_tag('item', _typed(member, is_text=False))}/>"
        yield "      </para>"


def _typed(value: Scalar, *, is_text: bool) -> dict[str, str | None]:
    """The value's characters, and its type unless the reader would find it by itself."""
    word = _word(value)
    is_clear = is_text or _same(core_schema.untyped(word), value)
    return {"value": word, "type": None if is_clear else _TYPES[type(value)]}


def _goes_bare(member: Scalar) -> bool:
    """Whether a member of a list can stand between commas."""
    word = _word(member)
    return "," not in word and word == word.strip() and _same(core_schema.untyped(word), member)


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


def _description(text: str) -> str:
    # The reader takes blanks and line breaks of a plain description for layout.
    if _UNWRITABLE.search(text) or text != " ".join(re.split(r"[ \t\r\n]+", text.strip(" \t\r\n"))):
        return f'<description escapes="json">{_escaped(text).translate(_MARKUP)}</description>'
    return f"<description>{text.translate(_MARKUP)}</description>"


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]
