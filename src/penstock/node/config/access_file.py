"""The file of users and rules that a node changes by itself: `access_file` of the configuration.

It has `users` and `acl` like the configuration, and nothing else. The node replaces it as a whole, so
comments in it do not last; what should keep its comments belongs into the configuration.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from penstock import limits
from penstock.errors import NodeError
from penstock.node.config.decode import ConfigDecoder
from penstock.node.config.schema import Config, Rule, User

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD: Final = (
    "# Users and access rules. Written by the node: `penstock users`, or Access on its dashboard.\n"
)


class AccessEntries(msgspec.Struct, frozen=True):
    """The content of the file."""

    users: tuple[User, ...] = ()
    acl: tuple[Rule, ...] = ()


def read_entries(path: Path) -> AccessEntries:
    """Read the file; one that does not exist is empty. ConfigError has all problems."""
    decoder = ConfigDecoder(str(path), folder=path.parent)
    try:
        with path.open("rb") as file:
            data = file.read(limits.CONFIG_BYTES + 1)
        text = data.decode()
    except FileNotFoundError:
        return AccessEntries()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        decoder.complain(f"cannot be read: {why}", "")
        text, data = "", b""
    if len(data) > limits.CONFIG_BYTES:
        decoder.complain(f"is larger than {limits.CONFIG_BYTES} bytes", "")
        text = ""
    found = decoder.read(text)
    if found != Config(users=found.users, acl=found.acl):
        decoder.complain("has other settings", "", allowed="users and acl")
    decoder.stop()
    return AccessEntries(found.users, found.acl)


def write_entries(path: Path, entries: AccessEntries) -> None:
    """Replace the file, readable by its owner only; NodeError: it is as it was, and why."""
    usual = Rule()
    rules = [
        {name: value for name, value in msgspec.to_builtins(rule).items() if value != getattr(usual, name)}
        or {"topic": rule.topic}
        for rule in entries.acl
    ]
    found = {"users": msgspec.to_builtins(entries.users), "acl": rules}
    text = _HEAD + yaml.safe_dump(
        {name: value for name, value in found.items() if value},
        sort_keys=False,
        allow_unicode=True,
        width=200,
    )
    if len(text.encode()) > limits.CONFIG_BYTES:
        raise NodeError(f"{path} would be larger than {limits.CONFIG_BYTES} bytes")
    draft = ""
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        Path(draft).replace(path)
    except OSError as error:
        if draft:
            Path(draft).unlink(missing_ok=True)
        raise NodeError(f"{path} cannot be written: {error.strerror}") from None


def merged(config: Config, entries: AccessEntries) -> Config:
    """Return a configuration with the file's users and rules behind its own."""
    return msgspec.structs.replace(
        config, users=(*config.users, *entries.users), acl=(*config.acl, *entries.acl)
    )


def without(config: Config, entries: AccessEntries) -> Config:
    """Return a configuration without the users and rules that came from the file."""
    names = {user.name for user in entries.users}
    return msgspec.structs.replace(
        config,
        users=tuple(user for user in config.users if user.name not in names),
        acl=_in_front(config.acl, entries.acl),
    )


def _in_front(rules: Sequence[Rule], own: Sequence[Rule]) -> tuple[Rule, ...]:
    rules, own = tuple(rules), tuple(own)
    return rules[: len(rules) - len(own)] if own and rules[-len(own) :] == own else rules
