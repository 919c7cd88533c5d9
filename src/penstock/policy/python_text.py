"""A policy as Python source: a call of the builder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.policy.params import params_of
from penstock.policy.short_form import short_form, spoken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.policy.nodes import Policy, Step


def text_of(policy: Policy) -> str:
    """An expression that makes the policy, where `policy`, `drop` and `keep` are the builder's."""
    said = short_form(policy)
    del said["levels"]
    arguments = [*_levels(policy), *(f"{key}={_literal(part)}" for key, part in said.items())]
    return "policy(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")\n"


def _levels(policy: Policy) -> Iterator[str]:
    steps = spoken(policy)
    for chain in policy.levels:
        calls = [_call(*next(steps)) for _ in chain]
        yield calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"


def _call(step: Step, given: dict[str, Any]) -> str:
    beside = {"attribute": step.attribute, "missing": step.missing and step.missing.value}
    settings = [f"{word}={_literal(text)}" for word, text in beside.items() if text is not None]
    maker = step.verb.value + (f"({', '.join(settings)})" if settings else "")
    written = (
        _argument(name, given[name], is_list=param.kind.is_list, required=param.required)
        for param in params_of(type(step.filter))
        if (name := param.name) in given
    )
    return f"{maker}.{step.filter.name}({', '.join(written)})"


def _argument(name: str, value: Any, *, is_list: bool, required: bool) -> str:
    if is_list:
        return ", ".join(map(_literal, value))
    return _literal(value) if required else f"{name}={_literal(value)}"


def _literal(part: Any) -> str:
    if isinstance(part, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(each)}" for key, each in part.items()) + "}"
    if isinstance(part, list):
        return f"[{', '.join(map(_literal, part))}]"
    if isinstance(part, str) and not {'"', "'"} & set(part):
        return f'"{repr(part)[1:-1]}"'
    return repr(part)
