"""A policy as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.policy.short_form import short_form

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy


def text_of(policy: Policy, *, compact: bool) -> str:
    """The policy in JSON: one line per key and level, ending with a line break; or all without a blank."""
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
