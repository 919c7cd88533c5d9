"""From policy to text, in each of its forms; reading the text gives the same policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import PolicyError
from penstock.policy import json_text, python_text, xml_text, yaml_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policy.nodes import Policy


def to_yaml(policy: Policy) -> str:
    """The policy in YAML, one line per level."""
    return _fitting("YAML", yaml_text.text_of(policy))


def to_json(policy: Policy, *, compact: bool = False) -> str:
    """The policy in JSON, one line per level; `compact`: without any blank, for the wire."""
    return _fitting("JSON", json_text.text_of(policy, compact=compact))


def to_xml(policy: Policy) -> str:
    """The policy in the paper's XML."""
    return _fitting("XML", xml_text.text_of(policy))


def to_python(policy: Policy) -> str:
    """The policy as a call of the builder; to read and to paste, `parse` does not run it."""
    return python_text.text_of(policy)


FORMS: Final[dict[str, Callable[[Policy], str]]] = {"yaml": to_yaml, "json": to_json, "xml": to_xml}
"""Writers whose text `read.parse` reads, by the name of their form."""


def _fitting(form: str, text: str) -> str:
    """The text, unless it is so long that nobody would read it back."""
    size = len(text.encode())
    if size > limits.POLICY_BYTES:
        raise PolicyError(
            f"as {form} this policy has {size} bytes; at most {limits.POLICY_BYTES} can be read"
        )
    return text
