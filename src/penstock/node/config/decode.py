"""From the text of a configuration to its values.

msgspec converts the settings and keeps their bounds. It stops at the first problem, and knows no places in a
file, so each setting is tried by itself first: all problems are reported at once, with line and column, what
was found, what is allowed and the nearest name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
from msgspec import inspect

from penstock import limits
from penstock.errors import ConfigError, PolicyError
from penstock.node.config.amounts import MOST, UNITS, quantity
from penstock.node.config.schema import Config
from penstock.policy.lint import lint
from penstock.policy.params import shown
from penstock.policy.text import tree, yaml_form
from penstock.policy.text.forms import parse, to_yaml
from penstock.policy.text.from_tree import policy_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.policy.nodes import Policy

POLICY_FILES: Final = (".yaml", ".yml", ".json", ".xml")
"""A policy given as one word with such an ending is the path of a file."""

RENAMED_KEYS: Final = {
    "web": "channels",
    "channels.channels": "channels.max_channels",
    "channels.subscriptions": "channels.max_subscriptions",
    "channels.per_subscriber": "channels.max_per_subscriber",
    "channels.polling.contact": "http.contact",
    "telling": "notify",
    "notify.base_url": "http.base_url",
}
"""Old path of a setting → its path now, items of lists as `users[].name`; the old one is refused."""


@cache
def _about(kind: Any) -> inspect.Type:
    """Look a type up in msgspec, once: this takes longer than a conversion."""
    return inspect.type_info(kind)


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {one.name: one for one in msgspec.structs.fields(kind)}


@dataclass(slots=True)
class ConfigDecoder:
    """Decodes one configuration and collects the problems found in it."""

    source: str
    folder: Path = Path()
    """Relative paths of policy files start here."""
    files: list[Path] = field(default_factory=list)
    """Files that were read."""
    warnings: list[str] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)
    places: dict[str, tree.Place] = field(default_factory=dict)
    """Where each setting is in the file, by path."""

    def read(self, text: str) -> Config:
        """Decode a text; a section with a problem has its default value in the result."""
        if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
            return Config()
        try:
            root = yaml_form.tree_of(text)
        except PolicyError as error:
            self.problems.append(
                ConfigError(error.problem, source=self.source, line=error.line, column=error.column)
            )
            return Config()
        found = self.plain(Config, root, "")
        unreadable = self.uncertain()
        if "" in unreadable:
            return Config()
        return msgspec.convert({key: found[key] for key in found if key not in unreadable}, Config)

    def complain(self, problem: str, path: str, *, allowed: str = "", near: str = "") -> None:
        """Note a problem, at the place of the setting or of the section around it."""
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

    def uncertain(self) -> set[str]:
        """Return the sections whose values are unknown because of a problem in them; "" means all sections.

        A wrong policy does not make `policies` uncertain: that a policy of its name exists is known.
        """
        found = set()
        for problem in self.problems:
            section = _section(problem.path)
            if section != "policies" or problem.path == section:
                # An unknown section was probably meant to be the one with the near or the new name.
                meant = problem.near if problem.path == section else ""
                found |= {section, meant or section, _section(RENAMED_KEYS.get(problem.path, section))}
        return found

    def stop(self) -> None:
        """Raise the problems found so far, if there are any."""
        if self.problems:
            first, *others = sorted(self.problems, key=lambda found: (found.line or 0, found.column or 0))
            first.also = tuple(others[: limits.CONFIG_PROBLEMS - 1])
            first.args = (str(first),)
            raise first

    # -- settings ------------------------------------------------------------------------------------------

    def plain(self, kind: Any, part: tree.Tree, path: str) -> Any:
        """Return a part of the file as plain values for msgspec, after noting every problem in the part."""
        self.places.setdefault(path, part.place)
        about, unit = bare(_about(kind))
        found: Any = part.value if isinstance(part, tree.LeafNode) else part
        match about:
            case inspect.StructType() if isinstance(found, str) and found in words_of(about):
                return words_of(about)[found]
            case inspect.StructType() if found is None or isinstance(part, tree.MapNode):
                return self.struct(about, part, path)
            case inspect.DictType() if found is None or isinstance(part, tree.MapNode):
                return self.policies(self.entries(part, path), path)
            case inspect.VarTupleType() if found is None:
                return []
            case inspect.VarTupleType() if isinstance(part, tree.ListNode):
                item = get_args(kind)[0]
                return [self.plain(item, one, f"{path}[{number}]") for number, one in enumerate(part.items)]
        if unit and isinstance(found, str):
            amount = quantity(found, unit)
            found = found if amount is None else amount
        try:
            msgspec.convert(found, kind)
        except msgspec.ValidationError:
            self.refuse(about, found, part, path, unit)
        return found

    def struct(self, about: inspect.StructType, part: tree.Tree, path: str) -> dict[str, Any]:
        fields = _fields(about.cls)
        entries = self.entries(part, path, options=fields)
        for name, one in fields.items():
            if one.required and name not in entries:
                self.complain("is missing", _inner(path, name))
        return {
            key: self.plain(fields[key].type, entry.value, _inner(path, key))
            for key, entry in entries.items()
        }

    def entries(
        self, part: tree.Tree, path: str, *, options: Iterable[str] | None = None
    ) -> dict[str, tree.Entry]:
        """Return the entries of a mapping by key, without unknown and duplicate keys; of nothing, none."""
        entries: dict[str, tree.Entry] = {}
        for entry in part.entries if isinstance(part, tree.MapNode) else ():
            inner = _inner(path, entry.key)
            if options is not None and entry.key not in options:
                self.places.setdefault(inner, entry.place)
                old = re.sub(r"\[\d+\]", "[]", inner)
                if old in RENAMED_KEYS:
                    self.complain(f"'{old}' is now '{RENAMED_KEYS[old]}'", inner)
                else:
                    near = get_close_matches(entry.key.lower(), options, n=1)
                    self.complain(
                        "unknown setting", inner, allowed=", ".join(options), near=near[0] if near else ""
                    )
            elif entry.key in entries:
                self.places[inner] = entry.place
                self.complain(f"duplicate key, first at {entries[entry.key].place}", inner)
            else:
                entries[entry.key] = entry
        return entries

    def refuse(self, about: inspect.Type, found: object, part: tree.Tree, path: str, unit: str) -> None:
        """Say what is wrong with a value that msgspec did not convert."""
        allowed = near = quotes = ""
        match about:
            case inspect.StructType():
                names, words = ", ".join(one.name for one in about.fields), list(words_of(about))
                near = next(iter(get_close_matches(str(found), words, n=1)), "")
                expected, allowed = "a mapping", ", ".join([*words, f"{{{names}}}"]) if words else names
            case inspect.DictType():
                expected, allowed = "a mapping", "name: value"
            case inspect.VarTupleType():
                expected, allowed = "a list", "- … in each line"
            case inspect.LiteralType():
                words = [str(word) for word in about.values]
                near = next(iter(get_close_matches(str(found), words, n=1)), "")
                expected, allowed = "", ", ".join(words)
            case inspect.IntType() | inspect.FloatType():
                whole = isinstance(about, inspect.IntType)
                if isinstance(found, int if whole else int | float) and not isinstance(found, bool):
                    self.complain(f"found {shown(found)}", path, allowed=allowed_of(about))
                    return
                expected = f"a {'whole ' if whole else ''}number{f' ({unit})' if unit else ''}"
                allowed = f"a number with one of {', '.join(UNITS[unit])} behind it" if unit else ""
            case inspect.BoolType():
                expected = "true or false"
            case _:
                expected = "a text"
                quotes = ": put it into quotes" if isinstance(part, tree.LeafNode) else ""
        before = f"expected {expected}, " if expected else ""
        self.complain(f"{before}found {tree.shown(part)}{quotes}", path, allowed=allowed, near=near)

    # -- policies ------------------------------------------------------------------------------------------

    def policies(self, entries: dict[str, tree.Entry], path: str) -> dict[str, str]:
        """Return the text of each policy by name; of one with a problem, an empty text."""
        found = dict.fromkeys(entries, "")
        for name, entry in entries.items():
            inner = f"{path}.{name}"
            self.places.setdefault(inner, entry.value.place)
            try:
                policy = self.policy(entry.value)
            except PolicyError as error:
                if isinstance(entry.value, tree.MapNode):  # its places are places of this file
                    facts = error.of(self.source).inside(inner).facts()
                    self.problems.append(ConfigError(**facts))  # type: ignore[arg-type]  # the same facts
                else:
                    self.complain(f"the policy cannot be used: {error}", inner)
            except ConfigError as error:
                self.complain(error.problem, inner, allowed=error.allowed)
            else:
                found[name] = to_yaml(policy)
                self.warnings.extend(f"policy {name}: {warning}" for warning in lint(policy))
        return found

    def policy(self, part: tree.Tree) -> Policy:
        """Read a policy that is written out, given as a text, or in a file."""
        if isinstance(part, tree.MapNode):
            return policy_of(part)
        if not isinstance(part, tree.LeafNode) or not isinstance(part.value, str):
            raise ConfigError(
                f"expected a policy, found {tree.shown(part)}",
                allowed="a policy, its text after |, or the path of a file with it",
            )
        text = part.value.strip()
        if not text.endswith(POLICY_FILES) or "\n" in text:
            return parse(part.value, source="text")
        file = self.folder / text
        self.files.append(file)
        try:
            with file.open("rb") as opened:
                data = opened.read(limits.POLICY_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
        return parse(data, source=str(file))


def _inner(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _section(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def words_of(about: inspect.StructType) -> dict[str, dict[str, str]]:
    """Words that may be written in place of a section, with what each stands for."""
    return getattr(about.cls, "WORDS", {})


def bare(about: inspect.Type) -> tuple[inspect.Type, str]:
    """Return the type of a setting without its metadata, and its unit; empty if it has none."""
    if isinstance(about, inspect.Metadata):
        return about.type, str((about.extra or {}).get("unit", ""))
    return about, ""


def allowed_of(kind: inspect.IntType | inspect.FloatType) -> str:
    """Return the range of a number in words."""
    least = f"above {kind.gt:,g}" if kind.gt is not None else f"{kind.ge or 0:,g}"
    if kind.le is None or kind.le >= MOST:
        return f"{least} or more"
    return f"{least} to {int(kind.le) if kind.le == int(kind.le) else kind.le:,}"
