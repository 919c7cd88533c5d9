"""A JSON Schema of the policy language, made from the catalogues, for editors and other programs.

The schema has every key, filter, digester, parameter and short form. Conditions between parts (`low` below
`high`, a pattern that compiles) are checked by `forms.parse` only.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import limits
from penstock.policy import digesters, filters, nodes, params, paths
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat
from penstock.policy.params import params_of

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_VERB_DOCS: Final = {
    Verb.DROP: "drops the events the filter matches",
    Verb.KEEP: "keeps only the events the filter matches",
}


def json_schema() -> dict[str, Any]:
    """The schema, ready for `json.dumps`."""
    return {
        "$schema": DIALECT,
        "title": "Penstock policy",
        "description": "Which events matter to a receiver: levels of filters, and digests of what they drop.",
        "type": "object",
        "properties": {
            "name": _text("what the policy is called"),
            "description": _text("what it is for"),
            "attribute": _ref("attribute", f"read by every filter that names no other; default {_default()}"),
            "missing": _ref("missing"),
            "payload": _enum(PayloadFormat, "how payloads are encoded, where the event itself does not say"),
            "fresh": {
                **params.DURATION.schema,
                "description": "time that no event should wait longer, as 1s or in seconds",
            },
            "urgent": _predicates("events that go ahead of what waits and are dropped last"),
            "matters": _predicates("what backtests measure: how much of it arrives, and how late"),
            "digest": _digest(),
            "levels": _levels(),
        },
        "required": ["levels"],
        "additionalProperties": False,
        "$defs": {
            "attribute": {
                **params.PATH.schema,
                "title": "attribute path",
                "description": "a path into the payload like vitals.pulse, or one of "
                + ", ".join(paths.PSEUDO),
                "examples": ["pulse", "vitals.pulse", *(name for name in paths.PSEUDO if "<" not in name)],
            },
            "missing": _enum(Missing, "what becomes of an event whose attribute cannot be read"),
            "digesters": {
                "type": "array",
                "items": {"anyOf": [_digester(found) for found in digesters.CATALOGUE.values()]},
                "maxItems": limits.DIGESTERS,
            },
            "step": _step(),
            "predicate": _predicate(),
            **{f"filter-{kind.name}": _filter(kind) for kind in filters.CATALOGUE.values()},
        },
    }


def _default() -> str:
    return paths.Source.PAYLOAD.value


def _ref(name: str, description: str = "") -> dict[str, Any]:
    found = {"$ref": f"#/$defs/{name}"}
    return {**found, "description": description} if description else found


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "maxLength": limits.TEXT_PARAMETER, "description": description}


def _enum(options: type[Missing | PayloadFormat], description: str) -> dict[str, Any]:
    return {"enum": [option.value for option in options], "description": description}


def _digest() -> dict[str, Any]:
    return {
        "description": "what to tell about the events dropped; how many and from when to when is always told",
        "anyOf": [
            _ref("digesters", "about the policy's attribute"),
            {
                "type": "object",
                "description": "by attribute, and how digests are sent",
                "propertyNames": _ref("attribute"),
                "properties": {
                    nodes.EVERY: _or_digesters(
                        params.DURATION,
                        "time for which digests are gathered and sent as one, as 1s or in seconds",
                    ),
                    nodes.SHARE: _or_digesters(
                        params.SHARE,
                        "share of what the link carries that may go into digests, above 0; "
                        f"default {limits.DIGEST_SHARE}",
                    ),
                },
                "additionalProperties": _ref("digesters"),
            },
        ],
    }


def _or_digesters(kind: params.ParamKind, description: str) -> dict[str, Any]:
    """A setting of `digest`, or the digesters of an attribute that has its name."""
    return {"description": description, "anyOf": [kind.schema, _ref("digesters")]}


def _digester(found: digesters.Digester) -> dict[str, Any]:
    return {"const": found.name, "description": found.doc}


def _levels() -> dict[str, Any]:
    chain = {"type": "array", "items": _ref("step"), "minItems": 1, "maxItems": limits.POLICY_FILTERS}
    return {
        "description": "in order of willingness to lose: level n applies every filter of levels 1 … n",
        "type": "array",
        "items": {"anyOf": [_ref("step"), {**chain, "description": "a chain of filters"}]},
        "minItems": 1,
        "maxItems": limits.POLICY_LEVELS,
    }


def _predicates(description: str) -> dict[str, Any]:
    several = {
        "type": "array",
        "items": _ref("predicate"),
        "minItems": 1,
        "maxItems": limits.URGENT_PREDICATES,
        "description": "several: an event must match one",
    }
    return {"description": description, "anyOf": [_ref("predicate"), several]}


def _predicate() -> dict[str, Any]:
    kinds = [filters.CATALOGUE[name] for name in filters.PREDICATES]
    found = _one_of(kinds, attribute=_ref("attribute"))
    del found["properties"]["missing"]
    return {"title": "predicate", **found}


def _step() -> dict[str, Any]:
    return {
        "title": "filter with its verb",
        "type": "object",
        "properties": {verb.value: {"description": doc, **_use()} for verb, doc in _VERB_DOCS.items()},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _use() -> dict[str, Any]:
    """A filter by name or with parameters; `attribute` is allowed only for filters that read one."""
    bare = [
        {"const": kind.name, "description": kind.doc}
        for kind in filters.CATALOGUE.values()
        if not any(param.required for param in params_of(kind))
    ]
    reading = [kind for kind in filters.CATALOGUE.values() if kind.reads]
    others = [kind for kind in filters.CATALOGUE.values() if not kind.reads]
    return {"anyOf": [*bare, _one_of(reading, attribute=_ref("attribute")), _one_of(others)]}


def _one_of(kinds: list[type[filters.Filter]], **beside: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            **{kind.name: _ref(f"filter-{kind.name}", kind.doc) for kind in kinds},
            **beside,
            "missing": _ref("missing"),
        },
        "additionalProperties": False,
        "oneOf": [{"required": [kind.name]} for kind in kinds],
    }


def _filter(kind: type[filters.Filter]) -> dict[str, Any]:
    """Schema of a filter's parameters: by name, the first alone, by position, or none."""
    declared = params_of(kind)
    shapes = [_by_name(declared)]
    if declared and not any(param.required for param in declared[1:]):
        shapes.append({**_param(declared[0]), "title": declared[0].name})
    if declared and not declared[0].kind.is_list:
        shapes.append(_by_position(declared))
    if not any(param.required for param in declared):
        shapes.append({"type": "null"})
    return {"title": kind.name, "description": kind.doc, "anyOf": shapes}


def _param(param: params.Param) -> dict[str, Any]:
    default = {} if param.default is None else {"default": param.default}
    return {**param.kind.schema, "description": param.doc, **default}


def _by_name(declared: tuple[params.Param, ...]) -> dict[str, Any]:
    names = {name: param for param in declared for name in (param.name, *param.aliases)}
    rules = [_once(param) for param in declared if param.required or param.aliases]
    return {
        "type": "object",
        "properties": {name: _param(param) for name, param in names.items()},
        "additionalProperties": False,
        **({"allOf": rules} if rules else {}),
    }


def _once(param: params.Param) -> dict[str, Any]:
    """A parameter under one of its names: exactly once if required, else at most once."""
    names = [{"required": [name]} for name in (param.name, *param.aliases)]
    absent = [] if param.required else [{"not": {"anyOf": names}}]
    return {"oneOf": [*names, *absent]}


def _by_position(declared: tuple[params.Param, ...]) -> dict[str, Any]:
    return {
        "type": "array",
        "prefixItems": [{**_param(param), "title": param.name} for param in declared],
        "items": False,
        "minItems": sum(param.required for param in declared),
    }
