"""A configuration as text: every setting, defaults included; what is secret is not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

if TYPE_CHECKING:
    from penstock.node.config import Config

HIDDEN: Final = "(hidden)"


def shown(config: Config) -> dict[str, Any]:
    """The configuration as plain values."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    if found["http"]["token"]:
        found["http"]["token"] = HIDDEN
    for user in found["users"]:
        user["password"] = HIDDEN
    if found["telling"]["xmpp"]["password"]:
        found["telling"]["xmpp"]["password"] = HIDDEN
    for target in found["telling"]["apprise"]["targets"]:
        target["url"] = HIDDEN  # it holds passwords and keys
    return found


class _Dumper(yaml.SafeDumper):
    """Texts of several lines are written as they read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(config: Config) -> str:
    """The configuration in YAML."""
    text: str = yaml.dump(
        shown(config),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )
    return text
