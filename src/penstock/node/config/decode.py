"""From the text of a configuration to its values.

The decoder goes on after a problem, so that all problems are found at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import inspect

from penstock import limits
from penstock.errors import ConfigError, PolicyError
from penstock.node.config.schema import MOST, UNITS, Config, quantity
from penstock.policy.lint import lint
from penstock.policy.params import shown
from penstock.policy.text import tree, yaml_form
from penstock.policy.text.forms import parse, to_yaml
from penstock.policy.text.from_tree import policy_of

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy

POLICY_FILES: Final = (".yaml", ".yml", ".json", ".xml")
"""A policy given as one word with such an ending is the path of a file."""

_SETTINGS: Final = inspect.type_info(Config)


class _Wrong(Exception):
    """A part that cannot be read; it has been complained about."""


@dataclass(slots=True)
class ConfigDecoder:
    """One reading: goes on behind a problem, so that all are found at once."""

    source: str
    folder: Path = Path()
    files: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)
    places: dict[str, tree.Place] = field(default_factory=dict)

    def read(self, text: str) -> Config:
        """What a text says; settings that cannot be read, and are complained about, have their defaults."""
        if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
            return Config()  # nothing said: every default
        try:
            root = yaml_form.tree_of(text)
        except PolicyError as error:
            self.problems.append(
                ConfigError(error.problem, source=self.source, line=error.line, column=error.column)
            )
            return Config()
        try:
            found = self.value(_SETTINGS, root, "")
        except _Wrong:
            return Config()
        assert isinstance(found, Config)
        return found

    def complain(self, problem: str, path: str, *, allowed: str = "", near: str = "") -> _Wrong:
        """Note a problem, at the place of the setting or of what holds it."""
        holder = path
        while holder and holder not in self.places:
            holder = holder[: max(holder.rfind("."), holder.rfind("["), 0)]
        place = self.places.get(holder)
        self.problems.append(
            ConfigError(
                problem,
                path=path,
                source=self.source,
                line=place.line if place else None,
                column=place.column if place else None,
                allowed=allowed,
                near=near,
            )
        )
        return _Wrong()

    def uncertain(self) -> set[str]:
        """Settings of the top that have a default for want of something readable; "" if all have.

        A policy that is wrong is none of them: that there is one of its name is known.
        """
        found = set()
        for problem in self.problems:
            section = problem.path.partition(".")[0].partition("[")[0]
            if section != "policies" or problem.path == section:
                found.add(section)
                if problem.near and problem.path == section:  # it was meant to be that one
                    found.add(problem.near)
        return found

    def stop(self) -> None:
        """Raise what was found so far, if anything was."""
        if self.problems:
            first, *others = sorted(self.problems, key=lambda found: (found.line or 0, found.column or 0))
            first.also = tuple(others[: limits.CONFIG_PROBLEMS - 1])
            first.args = (str(first),)
            raise first

    # -- parts ---------------------------------------------------------------------------------------------

    def value(self, kind: inspect.Type, part: tree.Tree, path: str, unit: str = "") -> Any:
        """What a part says; _Wrong if it cannot be read."""
        self.places.setdefault(path, part.place)
        match kind:
            case inspect.Metadata():
                return self.value(kind.type, part, path, str((kind.extra or {}).get("unit", "")))
            case inspect.StructType():
                return self.struct(kind, part, path)
            case inspect.VarTupleType():
                return self.items(kind, part, path)
            case inspect.DictType():
                return self.policies(part, path)
            case inspect.LiteralType():
                return self.choice(kind, part, path)
            case inspect.IntType() | inspect.FloatType():
                return self.number(kind, part, path, unit)
            case inspect.BoolType():
                return self.plain(bool, "true or false", part, path)
            case _:
                assert isinstance(kind, inspect.StrType)
                return self.plain(str, "a text", part, path)

    def struct(self, kind: inspect.StructType, part: tree.Tree, path: str) -> Any:
        found = {
            key: entry.value
            for key, entry in self.entries(part, path, options=[one.name for one in kind.fields]).items()
        }
        values: dict[str, Any] = {}
        wrong = False
        for one in kind.fields:
            inner = f"{path}.{one.name}" if path else one.name
            if one.name not in found:
                if one.required:
                    self.complain("is missing", inner)
                    wrong = True
                continue
            try:
                values[one.name] = self.value(one.type, found[one.name], inner)
            except _Wrong:
                wrong = True
        if wrong and path:
            raise _Wrong
        return kind.cls(**values)  # of the whole, what is wrong has its default: the rest can be looked at

    def entries(
        self, part: tree.Tree, path: str, *, options: list[str] | None = None
    ) -> dict[str, tree.Entry]:
        """The entries of a mapping by key, each known and there once; nothing at all is an empty one."""
        if isinstance(part, tree.LeafNode) and part.value is None:
            return {}
        if not isinstance(part, tree.MapNode):
            allowed = ", ".join(options) if options else "name: value"
            raise self.complain(f"expected a mapping, found {tree.shown(part)}", path, allowed=allowed)
        entries: dict[str, tree.Entry] = {}
        for entry in part.entries:
            inner = f"{path}.{entry.key}" if path else entry.key
            if options is not None and entry.key not in options:
                near = get_close_matches(entry.key.lower(), options, n=1)
                self.places.setdefault(inner, entry.place)
                self.complain(
                    "unknown setting", inner, allowed=", ".join(options), near=near[0] if near else ""
                )
            elif entry.key in entries:
                self.places[inner] = entry.place
                self.complain(f"stands twice, first at {entries[entry.key].place}", inner)
            else:
                entries[entry.key] = entry
        return entries

    def items(self, kind: inspect.VarTupleType, part: tree.Tree, path: str) -> tuple[Any, ...]:
        if isinstance(part, tree.LeafNode) and part.value is None:
            return ()
        if not isinstance(part, tree.ListNode):
            raise self.complain(
                f"expected a list, found {tree.shown(part)}", path, allowed="- … in each line"
            )
        values = []
        for number, item in enumerate(part.items):
            try:
                values.append(self.value(kind.item_type, item, f"{path}[{number}]"))
            except _Wrong:
                continue
        if len(values) < len(part.items):
            raise _Wrong
        return tuple(values)

    def plain(self, kind: type, expected: str, part: tree.Tree, path: str) -> Any:
        if isinstance(part, tree.LeafNode) and isinstance(part.value, kind):
            return part.value
        quotes = ": put it into quotes" if kind is str and isinstance(part, tree.LeafNode) else ""
        raise self.complain(f"expected {expected}, found {tree.shown(part)}{quotes}", path)

    def choice(self, kind: inspect.LiteralType, part: tree.Tree, path: str) -> Any:
        if isinstance(part, tree.LeafNode) and part.value in kind.values:
            return part.value
        words = [str(word) for word in kind.values]
        near = get_close_matches(str(part.value), words, n=1) if isinstance(part, tree.LeafNode) else []
        raise self.complain(
            f"found {tree.shown(part)}", path, allowed=", ".join(words), near=near[0] if near else ""
        )

    def number(
        self, kind: inspect.IntType | inspect.FloatType, part: tree.Tree, path: str, unit: str
    ) -> int | float:
        found: object = part.value if isinstance(part, tree.LeafNode) else None
        if unit and isinstance(found, str):
            found = quantity(found, unit)
        whole = isinstance(kind, inspect.IntType)
        if isinstance(found, bool) or not isinstance(found, int if whole else (int, float)):
            with_unit = f"a number with one of {', '.join(UNITS[unit])} behind it" if unit else ""
            raise self.complain(
                f"expected a {'whole ' if whole else ''}number{f' ({unit})' if unit else ''}, "
                f"found {tree.shown(part)}",
                path,
                allowed=with_unit,
            )
        assert isinstance(found, int | float)
        if not (_finite(found) and _within(kind, found)):
            raise self.complain(f"found {shown(found)}", path, allowed=allowed_of(kind))
        return found if whole else float(found)

    # -- policies ------------------------------------------------------------------------------------------

    def policies(self, part: tree.Tree, path: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, entry in self.entries(part, path).items():
            inner = f"{path}.{name}"
            self.places.setdefault(inner, entry.value.place)
            try:
                policy = self.policy(entry.value, inner)
            except PolicyError as error:
                if isinstance(entry.value, tree.MapNode):  # its places are places of this file
                    facts = error.of(self.source).inside(inner).facts()
                    self.problems.append(ConfigError(**facts))  # type: ignore[arg-type]  # the same facts
                else:
                    self.complain(f"the policy cannot be used: {error}", inner)
                found[name] = ""  # there is one of that name
            except _Wrong:
                found[name] = ""
            else:
                found[name] = to_yaml(policy)
                self.warnings.extend(f"policy {name}: {warning}" for warning in lint(policy))
        return found

    def policy(self, part: tree.Tree, path: str) -> Policy:
        """A policy written out, in a text of its own, or in a file."""
        if isinstance(part, tree.MapNode):
            return policy_of(part)
        if not isinstance(part, tree.LeafNode) or not isinstance(part.value, str):
            raise self.complain(
                f"expected a policy, found {tree.shown(part)}",
                path,
                allowed="a policy, its text after |, or the path of a file with it",
            )
        text = part.value
        if not text.strip().endswith(POLICY_FILES) or "\n" in text.strip():
            return parse(text, source="text")
        file = self.folder / text.strip()
        self.files.append(file)
        try:
            with file.open("rb") as opened:
                data = opened.read(limits.POLICY_BYTES + 1)
        except OSError as error:
            raise self.complain(f"{file}: cannot be read: {error.strerror}", path) from None
        return parse(data, source=str(file))


def _finite(found: float) -> bool:
    try:
        return isfinite(found)
    except OverflowError:  # a whole number beyond all others
        return False


def _within(kind: inspect.IntType | inspect.FloatType, found: float) -> bool:
    return not (
        (kind.ge is not None and found < kind.ge)
        or (kind.gt is not None and found <= kind.gt)
        or (kind.le is not None and found > kind.le)
    )


def allowed_of(kind: inspect.IntType | inspect.FloatType) -> str:
    """The range of a number, as people read it."""
    least = f"above {kind.gt:,g}" if kind.gt is not None else f"{kind.ge or 0:,g}"
    return f"{least} or more" if kind.le is None or kind.le >= MOST else f"{least} to {int(kind.le):,}"
