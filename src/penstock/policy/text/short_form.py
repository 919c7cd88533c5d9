"""A policy as plain mappings, lists and scalars in its shortest spelling, for YAML and JSON.

Left out are the values the reader assumes: default parameters, the default attribute, and the seed of a
`random` filter if it is its number.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from penstock.model.instant import written
from penstock.policy.filters import Random
from penstock.policy.nodes import EVERY, SHARE, Missing, PayloadFormat
from penstock.policy.params import params_of
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.policy.filters import Filter
    from penstock.policy.nodes import Policy, Step


def short_form(policy: Policy) -> dict[str, Any]:
    """Keys of the policy in the order they are written."""
    said = {
        "name": policy.name,
        "description": policy.description,
        "attribute": "" if policy.attribute == Source.PAYLOAD.value else policy.attribute,
        "missing": "" if policy.missing is Missing.KEEP else policy.missing.value,
        "payload": "" if policy.payload is PayloadFormat.AUTO else policy.payload.value,
        "fresh": "" if policy.fresh_us is None else written(policy.fresh_us),
        "urgent": _predicates(policy.urgent),
        "matters": _predicates(policy.matters),
        "digest": _digest(policy),
        "levels": list(_levels(policy)),
    }
    return {key: part for key, part in said.items() if part}


def _predicates(steps: tuple[Step, ...]) -> dict[str, Any] | list[dict[str, Any]]:
    found = [_predicate(step) for step in steps]
    return found[0] if len(found) == 1 else found


def _predicate(step: Step) -> dict[str, Any]:
    beside = {} if step.attribute is None else {"attribute": step.attribute}
    return {step.filter.name: _shortest(step.filter, said_of(step.filter)), **beside}


def spoken(policy: Policy) -> Iterator[tuple[Step, dict[str, Any]]]:
    """Each step with the parameters that must be written, by name."""
    numbers = count()
    for chain in policy.levels:
        for step in chain:
            given = said_of(step.filter)
            if isinstance(step.filter, Random) and step.filter.seed == next(numbers):
                del given["seed"]
            yield step, given


def said_of(found: Filter) -> dict[str, Any]:
    """The parameters of a filter that must be written, by name."""
    values = ((param, getattr(found, param.name)) for param in params_of(type(found)))
    return {param.name: value for param, value in values if param.required or value != param.default}


def _digest(policy: Policy) -> list[str] | dict[str, Any]:
    by_attribute: dict[str, Any] = {}
    for attribute, digester in policy.digest:
        by_attribute.setdefault(attribute, []).append(digester)
    settings = sending(policy)
    if not settings and by_attribute.keys() == {policy.attribute}:
        own: list[str] = by_attribute[policy.attribute]
        return own
    return by_attribute | settings


def sending(policy: Policy) -> dict[str, Any]:
    """Return the entries under the key `digest` that say when digests are sent."""
    said: dict[str, Any] = {}
    if policy.digest_every_us is not None:
        said[EVERY] = written(policy.digest_every_us)
    if policy.digest_share is not None:
        said[SHARE] = policy.digest_share
    return said


def _levels(policy: Policy) -> Iterator[Any]:
    steps = spoken(policy)
    for chain in policy.levels:
        written = [_step(*next(steps)) for _ in chain]
        yield written[0] if len(written) == 1 else written


def _step(step: Step, given: dict[str, Any]) -> dict[str, Any]:
    beside: dict[str, Any] = {}
    if step.attribute is not None:
        beside["attribute"] = step.attribute
    if step.missing is not None:
        beside["missing"] = step.missing.value
    name = step.filter.name
    if not given and not beside:
        return {step.verb.value: name}
    return {step.verb.value: {name: _shortest(step.filter, given), **beside}}


def _shortest(found: Filter, given: dict[str, Any]) -> Any:
    """Shortest spelling: the first alone, all by position if none is optional, or by name."""
    declared = params_of(type(found))
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    if plain and list(plain) == [declared[0].name]:
        return plain[declared[0].name]
    if plain and list(plain) == [param.name for param in declared if param.required]:
        return list(plain.values())
    return plain
