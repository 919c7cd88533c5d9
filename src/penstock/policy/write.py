"""A policy as text, in each of its forms; reading the text gives the same policy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.policy.short_form import short_form
from penstock.policy.yaml_text import to_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policy.nodes import Policy

__all__ = ["FORMS", "to_json", "to_yaml"]


def to_json(policy: Policy, *, compact: bool = False) -> str:
    """The policy as JSON: one line per key and level, or all in one line without blanks for the wire."""
    data = short_form(policy)
    if compact:
        return _json(data, separators=(",", ":"))
    lines = [f"  {_json(key)}: {_spread(part)}" for key, part in data.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _spread(part: Any) -> str:
    """A mapping or the list of levels over several lines, anything else in one."""
    if isinstance(part, dict):
        return "{\n" + ",\n".join(f"    {_json(key)}: {_json(each)}" for key, each in part.items()) + "\n  }"
    if isinstance(part, list) and not isinstance(part[0], str):
        return "[\n" + ",\n".join(f"    {_json(each)}" for each in part) + "\n  ]"
    return _json(part)


def _json(part: Any, *, separators: tuple[str, str] = (", ", ": ")) -> str:
    return json.dumps(part, ensure_ascii=False, separators=separators)


FORMS: Final[dict[str, Callable[[Policy], str]]] = {"yaml": to_yaml, "json": to_json}
"""Writers by the name of their form."""
