"""From text to policy: `parse` finds out which form it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy import json_form, tree, xml_form, yaml_form
from penstock.policy.from_tree import policy_of

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy


def parse(text: str | bytes, *, source: str = "") -> Policy:
    """The policy in a text of YAML, JSON or XML; `source` is its name in messages.

    Text that begins with `<` is XML, with `{` JSON or YAML, any other YAML. PolicyError, and nothing else,
    says what is wrong and where.
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
        raise PolicyError(f"half a surrogate pair is no character: offset {error.start}") from None
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
    """JSON, or YAML in braces; if it is neither, the complaint of the one that got further."""
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
