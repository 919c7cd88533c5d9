"""Makes a policy from a located tree, the same way for every text form.

A filter's parameters may be written by name (`within: {low: 0, high: 1}`), by position (`within: [0, 1]`),
the first alone (`delta: 5`), or not at all (`uniq`). A list given to a filter whose first parameter is
itself a list is that parameter (`inset: [a, b]`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.errors import PolicyError
from penstock.policy import digesters, filters, nodes, params, paths
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat, Policy, Step, not_a_predicate
from penstock.policy.params import params_of
from penstock.policy.text import tree
from penstock.policy.text import tree as complaints
from penstock.policy.text.tree import untyped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from enum import Enum

    from penstock.policy.filters import Filter
    from penstock.policy.nodes import Level
    from penstock.policy.params import Param, ParamKind


def filter_of(kind: type[Filter], part: tree.Tree) -> Filter:
    declared = params_of(kind)
    given = _arguments(kind, declared, part)
    absent = [param for param in declared if param.required and param.name not in given]
    if absent:
        names = " and ".join(f"'{param.name}'" for param in absent)
        raise complaints.wrong(f"'{kind.name}' needs {names}", part.place, allowed=_signature(declared))
    with complaints.placed(_places(given), part.place):
        return kind(
            **{param.name: _plain(given[param.name], param.kind) for param in declared if param.name in given}
        )


def _arguments(kind: type[Filter], declared: tuple[Param, ...], part: tree.Tree) -> dict[str, tree.Tree]:
    """The parts given, by name of their parameter."""
    if isinstance(part, tree.MapNode):
        return _named(declared, part)
    if isinstance(part, tree.LeafNode) and part.value is None:
        return {}
    by_position = isinstance(part, tree.ListNode) and not (declared and declared[0].kind.is_list)
    values = part.items if isinstance(part, tree.ListNode) and by_position else (part,)
    if len(values) > len(declared):
        takes = f"takes {len(declared)} parameters" if declared else "takes no parameters"
        raise complaints.wrong(
            f"'{kind.name}' {takes}, found {len(values) if by_position else tree.shown(part)}",
            values[len(declared)].place,
            allowed=_signature(declared),
        )
    return {param.name: value for param, value in zip(declared, values, strict=False)}


def _named(declared: tuple[Param, ...], part: tree.MapNode) -> dict[str, tree.Tree]:
    known = {name: param for param in declared for name in (param.name, *param.aliases)}
    names = [param.name for param in declared]
    found: dict[str, tree.Entry] = {}
    for entry in part.entries:
        if entry.key not in known:
            raise complaints.unknown("parameter", entry.key, names, entry.place)
        name = known[entry.key].name
        complaints.check_once(found.get(name), entry)
        found[name] = entry
    return {name: entry.value for name, entry in found.items()}


def _signature(declared: tuple[Param, ...]) -> str:
    return ", ".join(
        f"{param.name} ({param.kind.name}{'' if param.required else ', optional'})" for param in declared
    )


def _places(given: dict[str, tree.Tree]) -> dict[str, tree.Place]:
    """Places by the paths that parameter errors carry."""
    places = {name: part.place for name, part in given.items()}
    for name, part in given.items():
        if isinstance(part, tree.ListNode):
            places |= {f"{name}[{number}]": item.place for number, item in enumerate(part.items)}
    return places


def _plain(part: tree.Tree, kind: ParamKind) -> object:
    """The part as a Python value; the parameter's kind checks it."""
    match part:
        case tree.MapNode():
            return {}
        case tree.ListNode():
            return [_plain(item, kind) for item in part.items]
        case tree.LeafNode(written=None):
            return part.value
        case tree.LeafNode(written=str(word)):
            return _untyped(word, kind)
    raise AssertionError(part)


def _untyped(word: str, kind: ParamKind) -> object:
    """Type a bare word by its parameter's kind; a list is written with commas."""
    if kind.is_list:
        return [untyped(member.strip()) for member in word.split(",")]
    return word if kind.is_text else untyped(word)


T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound="Enum")

KEYS: Final = (
    "name", "description", "attribute", "missing", "payload", "fresh", "urgent", "matters", "digest",
    "levels",
)  # fmt: skip
"""Keys of a policy, in the order they are written."""

BESIDE: Final = ("attribute", "missing")
"""Keys allowed beside a filter."""

_VERBS: Final = tuple(verb.value for verb in Verb)
_EXAMPLE: Final = "for example `- drop: {delta: 5}`"


def policy_of(root: tree.Tree) -> Policy:
    """The policy a tree describes."""
    if not isinstance(root, tree.MapNode):
        raise complaints.wrong(
            f"a policy is a mapping, found {tree.shown(root)}", root.place, allowed=", ".join(KEYS)
        )
    found = _entries(root, KEYS, "key")
    if "levels" not in found:
        raise complaints.wrong(f"the policy has no 'levels', {_EXAMPLE}", root.place)
    attribute = _get(found, "attribute", _text, paths.Source.PAYLOAD.value)
    parts: dict[str, Any] = {
        "attribute": attribute,
        "name": _get(found, "name", _text, ""),
        "description": _get(found, "description", _text, ""),
        "missing": _get(found, "missing", lambda part: _choice(part, Missing), Missing.KEEP),
        "payload": _get(found, "payload", lambda part: _choice(part, PayloadFormat), PayloadFormat.AUTO),
        "fresh_us": _get(found, "fresh", _fresh, None),
        "urgent": _get(found, "urgent", predicates_of, ()),
        "matters": _get(found, "matters", predicates_of, ()),
        "levels": _get(found, "levels", _levels, ()),
        **_get(found, "digest", lambda part: _digest(part, attribute), {}),
    }
    with complaints.placed({key: entry.value.place for key, entry in found.items()}, root.place):
        return Policy(**parts)


# -- parts -------------------------------------------------------------------------------------------------


def _entries(found: tree.MapNode, options: Collection[str], what: str) -> dict[str, tree.Entry]:
    """Entries by key; raises PolicyError for unknown and duplicate keys."""
    entries: dict[str, tree.Entry] = {}
    for entry in found.entries:
        if entry.key not in options:
            raise complaints.unknown(what, entry.key, options, entry.place)
        complaints.check_once(entries.get(entry.key), entry)
        entries[entry.key] = entry
    return entries


def _get(found: dict[str, tree.Entry], key: str, read: Callable[[tree.Tree], T], default: D) -> T | D:
    if key not in found:
        return default
    part = found[key].value
    with complaints.inside(key, part.place):
        return read(part)


def _text(part: tree.Tree) -> str:
    if not isinstance(part, tree.LeafNode) or not isinstance(part.value, str):
        hint = ": put it into quotes" if isinstance(part, tree.LeafNode) and part.value is not None else ""
        raise PolicyError(f"expected a text, found {tree.shown(part)}{hint}")
    return part.value


def _choice(part: tree.Tree, options: type[E]) -> E:
    words = {option.value: option for option in options}
    if not isinstance(part, tree.LeafNode) or not isinstance(part.value, str):
        raise PolicyError(f"found {tree.shown(part)}", allowed=", ".join(words))
    if part.value not in words:
        raise complaints.unknown("word", part.value, words, part.place)
    return words[part.value]


def _list(part: tree.Tree, of: str) -> tuple[tree.Tree, ...]:
    if not isinstance(part, tree.ListNode):
        raise PolicyError(f"expected a list of {of}, found {tree.shown(part)}")
    return part.items


# -- digest --------------------------------------------------------------------------------------------------


def _digest(part: tree.Tree, attribute: str) -> dict[str, Any]:
    """Digesters as a list (about the policy's attribute) or by attribute, and how digests are sent."""
    if not isinstance(part, tree.MapNode):
        return {"digest": tuple((attribute, name) for name in _digesters(part))}
    pairs: list[tuple[str, str]] = []
    settings: dict[str, Any] = {}
    earlier: dict[str, tree.Entry] = {}
    for entry in part.entries:
        with complaints.inside(entry.key, entry.place):
            complaints.check_once(earlier.get(entry.key), entry)
            earlier[entry.key] = entry
            setting = SETTINGS.get(entry.key)
            if setting is not None and not isinstance(entry.value, tree.ListNode):
                field, kind = setting
                with complaints.at(entry.value.place):
                    settings[field] = kind.parse(_plain(entry.value, kind))
                continue
            paths.parse(entry.key)
            pairs.extend((entry.key, name) for name in _digesters(entry.value))
    return {"digest": tuple(pairs), **settings}


SETTINGS: Final = {
    nodes.EVERY: ("digest_every_us", params.DURATION),
    nodes.SHARE: ("digest_share", params.SHARE),
}
"""Keys of `digest` that say how digests are sent: the policy's field, and its kind. An attribute of that name
has a list of digesters."""


def _digesters(part: tree.Tree) -> list[str]:
    names: list[str] = []
    for number, item in enumerate(_list(part, "digesters")):
        with complaints.inside(f"[{number}]", item.place):
            name = _text(item)
            if name not in digesters.CATALOGUE:
                raise complaints.unknown("digester", name, digesters.CATALOGUE, item.place)
            names.append(name)
    return names


# -- predicates ----------------------------------------------------------------------------------------------

_PREDICATE: Final = "for example `{gt: 120}`"


def _fresh(part: tree.Tree) -> int:
    found: int = params.DURATION.parse(_plain(part, params.DURATION))
    return found


def predicates_of(part: tree.Tree) -> tuple[Step, ...]:
    """One predicate, or a list of them, of which an event must match one: steps that keep."""
    if not isinstance(part, tree.ListNode):
        return (_predicate(part),)
    if not part.items:
        raise PolicyError(f"expected a predicate, {_PREDICATE}, found an empty list")
    steps: list[Step] = []
    for number, item in enumerate(part.items):
        with complaints.inside(f"[{number}]", item.place):
            steps.append(_predicate(item))
    return tuple(steps)


def _predicate(part: tree.Tree) -> Step:
    """A filter that looks at one event alone, without a verb."""
    allowed = ", ".join(filters.PREDICATES)
    if not isinstance(part, tree.MapNode):
        raise PolicyError(f"expected a predicate, {_PREDICATE}, found {tree.shown(part)}", allowed=allowed)
    for entry in part.entries:
        if entry.key in filters.CATALOGUE and entry.key not in filters.PREDICATES:
            raise not_a_predicate(entry.key).at(line=entry.place.line, column=entry.place.column)
    found = _entries(part, (*filters.PREDICATES, "attribute"), "predicate")
    names = [key for key in found if key != "attribute"]
    if len(names) != 1:
        raise PolicyError(
            f"a predicate has one filter, found {' and '.join(names) or 'none'}; "
            "write several predicates as a list: an event must match one of them",
            allowed="" if names else allowed,
        )
    entry = found[names[0]]
    with complaints.inside(entry.key, entry.place):
        made = filter_of(filters.CATALOGUE[entry.key], entry.value)
    attribute = _get(found, "attribute", _text, None)
    with complaints.placed({key: found[key].value.place for key in found}, entry.place):
        return Step(Verb.KEEP, made, attribute=attribute)


# -- levels --------------------------------------------------------------------------------------------------


def _levels(part: tree.Tree) -> tuple[Level, ...]:
    levels: list[Level] = []
    for number, item in enumerate(_list(part, f"levels, {_EXAMPLE}")):
        with complaints.inside(f"[{number}]", item.place):
            levels.append(_level(item))
    return tuple(levels)


def _level(part: tree.Tree) -> Level:
    """One step, or a list of steps."""
    if not isinstance(part, tree.ListNode):
        return (_step(part),)
    if not part.items:
        raise PolicyError(f"a level needs at least one filter, {_EXAMPLE}")
    steps: list[Step] = []
    for number, item in enumerate(part.items):
        with complaints.inside(f"[{number}]", item.place):
            steps.append(_step(item))
    return tuple(steps)


def _step(part: tree.Tree) -> Step:
    if not isinstance(part, tree.MapNode):
        raise PolicyError(f"a filter with its verb was expected, {_EXAMPLE}, found {tree.shown(part)}")
    for entry in part.entries:
        if entry.key in filters.CATALOGUE:
            verb = filters.CATALOGUE[entry.key].verb.value
            problem = f"the verb of '{entry.key}' is missing: write `{verb}: {{{entry.key}: …}}`"
            raise complaints.wrong(problem, entry.place, allowed=" or ".join(_VERBS))
    found = _entries(part, _VERBS, "verb")
    if len(found) != 1:
        raise PolicyError(
            f"a step has one verb, found {' and '.join(found) or 'none'}; write a chain as a list of steps",
            allowed=" or ".join(_VERBS),
        )
    ((word, entry),) = found.items()
    with complaints.inside(word, entry.value.place):
        return _use(Verb(word), entry.value)


def _use(verb: Verb, part: tree.Tree) -> Step:
    """A filter by its name, or a mapping with its name, its parameters and keys of BESIDE."""
    if isinstance(part, tree.LeafNode) and isinstance(part.value, str):
        kind = _kind(part.value, part.place)
        with complaints.inside(kind.name, part.place):
            return Step(verb, filter_of(kind, tree.LeafNode(None, part.place)))
    if not isinstance(part, tree.MapNode):
        raise PolicyError(f"expected a filter, {_EXAMPLE}, found {tree.shown(part)}")
    found = _entries(part, (*filters.CATALOGUE, *BESIDE), "filter")
    names = [key for key in found if key not in BESIDE]
    if len(names) != 1:
        raise PolicyError(
            f"a step has one filter, found {' and '.join(names) or 'none'}; write a chain as a list of steps",
            allowed="" if names else ", ".join(filters.CATALOGUE),
        )
    entry = found[names[0]]
    with complaints.inside(entry.key, entry.place):
        made = filter_of(filters.CATALOGUE[entry.key], entry.value)
    attribute = _get(found, "attribute", _text, None)
    missing = _get(found, "missing", lambda part: _choice(part, Missing), None)
    with complaints.placed({key: found[key].value.place for key in found}, entry.place):
        return Step(verb, made, attribute=attribute, missing=missing)


def _kind(name: str, place: tree.Place) -> type[filters.Filter]:
    if name not in filters.CATALOGUE:
        raise complaints.unknown("filter", name, filters.CATALOGUE, place)
    return filters.CATALOGUE[name]
