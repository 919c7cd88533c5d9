"""YAML files that commands write: with the comment by which editors find the JSON Schema, which lies beside.

Editors that follow yaml-language-server (VS Code, Neovim, Emacs, JetBrains) then complete and check such a
file. The schema is a file of its own beside it, so that this needs no network and works in any checkout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from penstock.cli.files import write_text
from penstock.errors import InputError

if TYPE_CHECKING:
    from typing import Any

Kind = Literal["penstock", "policy"]

POLICY: Final = """\
# What a phone on a slow link gets of a ward: alarms at once, and a value of each patient as new as the link
# allows. Try it on recorded events: penstock policy try FILE --events events.jsonl
name: ward
attribute: pulse                 # default attribute of every filter; a filter may name its own
fresh: 1s                        # no reading should wait longer
urgent: {gt: 120}                # these go first and are dropped last
matters: {gt: 120}               # and backtests show how many of them arrive
digest: [count, mean, min, max]  # summaries of what was dropped
levels:                          # the fuller the queue, the further down
  - keep: {latest_by: {by: $topic, n: 3}}
  - keep: {latest_by: $topic}    # the newest reading of each patient
  - drop: {within: [50, 100]}    # the normal range
"""
"""A policy to start from; `penstock filters` lists all filters."""

CONFIG: Final = """\
# A node for this machine. What is not said here has its default; `penstock config settings` lists every
# setting, `penstock config check` says what is wrong with this file, `penstock up` runs the node.
listeners:
  - kind: tcp                    # only this machine; other hosts need users, and better TLS
    port: 1883
  # - {kind: tls, host: 0.0.0.0, port: 8883, certificate: server.pem, key: server.key}

http:
  port: 8080                     # dashboard, API, /metrics

data: penstock-data              # sessions, retained messages, queues

# users:                         # `penstock passwd ann` prints an entry
# acl:                           # the first line that fits decides; what fits none is refused
#   - {user: ann, topic: ward/#}

# policies: {ward: ward.yaml}    # by name, for clients that ask for it
# install:                       # and for those that bring no policy of their own
#   - {policy: ward, client: "phone-*", filter: ward/#}

# channels: {enabled: true}      # subscriptions to web/<url> watch web pages
"""
"""A configuration to start from."""


def schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema of configurations or of policies."""
    if kind == "penstock":
        from penstock.node.config import write as config  # noqa: PLC0415  # one of both is needed

        return config.json_schema()
    from penstock.policy import schema as policy  # noqa: PLC0415

    return policy.json_schema()


def write_yaml(path: Path, text: str, kind: Kind) -> None:
    """Write a YAML file with the comment for editors, and the schema that the comment names beside it."""
    beside = path.with_name(f"{kind}.schema.json")
    body = text if text.endswith("\n") else text + "\n"
    write_text(path, f"# yaml-language-server: $schema={beside.name}\n{body}")
    if beside != path:
        write_text(beside, json.dumps(schema(kind), ensure_ascii=False, indent=2) + "\n")


def begin_file(path: Path, text: str, kind: Kind) -> None:
    """Write a file to start from; InputError if there is one."""
    if path.exists():
        raise InputError("is there already; name another file, or remove it", path=path)
    write_yaml(path, text, kind)
