"""Reads and writes a policy in any form: `parse` recognises the form of a text, `to_*` write one.

Reading a written text returns an equal policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy.text import json_form, python_form, tree, xml_form, yaml_form
from penstock.policy.text.from_tree import policy_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policy.nodes import Policy


def parse(text: str | bytes, *, source: str = "") -> Policy:
    """Read a policy from a text in YAML, JSON or XML.

        vitals = parse("{attribute: pulse, levels: [{drop: {delta: 5}}, {keep: {latest: 10}}]}")

    Text that begins with `<` is XML, with `{` JSON or YAML, any other YAML. `source` names the text in
    messages, such as a file. Every problem raises PolicyError, which says what is wrong and where.
    """
    try:
        return policy_of(_tree(_decoded(text)))
    except PolicyError as error:
        raise error.of(source) from None


def _decoded(text: str | bytes) -> str:
    try:
        data = text.encode() if isinstance(text, str) else text
        plain = data.decode()
    except UnicodeDecodeError as error:
        found = data[error.start]
        raise PolicyError(f"not UTF-8: byte 0x{found:02x} at offset {error.start}") from None
    except UnicodeEncodeError as error:
        raise PolicyError(f"half a surrogate pair is not a character: offset {error.start}") from None
    if len(data) > limits.POLICY_BYTES:
        raise PolicyError(f"a policy of {len(data)} bytes; at most {limits.POLICY_BYTES}")
    return plain.removeprefix("\ufeff")


def _tree(text: str) -> tree.Tree:
    match text.lstrip()[:1]:
        case "<":
            return xml_form.tree_of(text)
        case "{":
            return _braced(text)
        case _:
            return yaml_form.tree_of(text)


def _braced(text: str) -> tree.Tree:
    """Parse JSON, or YAML in braces; if both fail, raise the error of the parser that got further."""
    try:
        return json_form.tree_of(text)
    except PolicyError as error:
        json_error = error
    try:
        return yaml_form.tree_of(text)
    except PolicyError as yaml_error:
        raise max(json_error, yaml_error, key=_reach) from None


def _reach(error: PolicyError) -> tuple[int, int]:
    return (error.line or 0, error.column or 0)


def to_yaml(policy: Policy) -> str:
    """The policy in YAML, one line per level."""
    return _fitting("YAML", yaml_form.text_of(policy))


def to_json(policy: Policy, *, compact: bool = False) -> str:
    """The policy in JSON, one line per level; `compact`: no whitespace, for the wire."""
    return _fitting("JSON", json_form.text_of(policy, compact=compact))


def to_xml(policy: Policy) -> str:
    """The policy in the paper's XML."""
    return _fitting("XML", xml_form.text_of(policy))


def to_python(policy: Policy) -> str:
    """The policy as a call of the builder, to read and to paste; `parse` does not read it."""
    return python_form.text_of(policy)


FORMS: Final[dict[str, Callable[[Policy], str]]] = {"yaml": to_yaml, "json": to_json, "xml": to_xml}
"""Writers of the forms that `parse` reads, by name."""


def _fitting(form: str, text: str) -> str:
    """Return the text; PolicyError if it is too long to be read back."""
    size = len(text.encode())
    if size > limits.POLICY_BYTES:
        raise PolicyError(
            f"as {form} this policy has {size} bytes; at most {limits.POLICY_BYTES} can be read"
        )
    return text
