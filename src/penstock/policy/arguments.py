"""A filter's parameters in the shapes people write them.

By name (`within: {low: 0, high: 1}`), by position (`within: [0, 1]`), the first alone (`delta: 5`), or none
(`uniq`). A list given to a filter whose first parameter is itself a list is that parameter (`inset: [a, b]`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.policy import complaints, tree
from penstock.policy.core_schema import untyped
from penstock.policy.params import params_of

if TYPE_CHECKING:
    from penstock.policy.filters import Filter
    from penstock.policy.params import Kind, Param


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
    """The parts given, by the name of their parameter."""
    if isinstance(part, tree.Mapping):
        return _named(declared, part)
    if isinstance(part, tree.Leaf) and part.value is None:
        return {}
    by_position = isinstance(part, tree.Listing) and not (declared and declared[0].kind.is_list)
    values = part.items if isinstance(part, tree.Listing) and by_position else (part,)
    if len(values) > len(declared):
        takes = f"takes {len(declared)} parameters" if declared else "takes no parameters"
        raise complaints.wrong(
            f"'{kind.name}' {takes}, found {len(values) if by_position else tree.shown(part)}",
            values[len(declared)].place,
            allowed=_signature(declared),
        )
    return {param.name: value for param, value in zip(declared, values, strict=False)}


def _named(declared: tuple[Param, ...], part: tree.Mapping) -> dict[str, tree.Tree]:
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
    """Places by the path under which a parameter complains."""
    places = {name: part.place for name, part in given.items()}
    for name, part in given.items():
        if isinstance(part, tree.Listing):
            places |= {f"{name}[{number}]": item.place for number, item in enumerate(part.items)}
    return places


def _plain(part: tree.Tree, kind: Kind) -> object:
    """The part as a Python value; whether it is a right one is for the parameter to say."""
    match part:
        case tree.Mapping():
            return {}
        case tree.Listing():
            return [_plain(item, kind) for item in part.items]
        case tree.Leaf(written=None):
            return part.value
        case tree.Leaf(written=str(word)):
            return _untyped(word, kind)
    raise AssertionError(part)


def _untyped(word: str, kind: Kind) -> object:
    """A word of unknown type, as a parameter of this kind takes it: a list is written with commas."""
    if kind.is_list:
        return [untyped(member.strip()) for member in word.split(",")]
    return word if kind.is_text else untyped(word)
