"""`penstock users`: users and access rules of a running node that it keeps in `access_file`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from penstock import limits
from penstock.cli.api import TokenOption, api_address, ask
from penstock.cli.context.target import HERE, ApiOption
from penstock.cli.files import read_bytes
from penstock.cli.output import JsonFlag, print_json, print_text, warn
from penstock.cli.passwd import given_password
from penstock.cli.terminal import print_table
from penstock.errors import InputError, counted, printable
from penstock.node.config.decode import ConfigDecoder

app = typer.Typer(no_args_is_help=True, help="Users and access rules of a running node.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
Stdin = Annotated[
    bool, typer.Option("--stdin", help="Read the password from the first line of standard input.")
]


@app.command("list")
def list_(node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """List the users and rules in force, and which of them can be changed here."""
    found = ask(api_address(node, token), "/access")
    if as_json:
        print_json(found)
        return
    own = set(found["own_users"])
    rows = [(printable(name), "access_file" if name in own else "configuration") for name in found["users"]]
    print_table(counted(len(rows), "user"), ("user", "kept in"), rows)
    first = len(found["rules"]) - found["own_rules"]
    print_table(
        counted(len(found["rules"]), "rule"),
        ("rule", "verdict", "user", "client", "action", "topics", "kept in"),
        [
            (*_cells(number, rule), "configuration" if number <= first else "access_file")
            for number, rule in enumerate(found["rules"], start=1)
        ],
    )
    if not found["editable"]:
        warn("nothing can be changed here: the node needs access_file and http.token in its configuration")


def _cells(number: int, rule: dict[str, Any]) -> tuple[str, ...]:
    verdict = "allow" if rule["allow"] else "deny"
    return (str(number), verdict, *(printable(rule[name]) for name in ("user", "client", "action", "topic")))


@app.command("set")
def set_(
    name: Name,
    from_stdin: Stdin = False,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Add a user, or change the password of one; the password is asked for twice.

    The node keeps its argon2 hash. Over a network, use an address that begins with https://.
    """
    where = api_address(node, token)
    body = {"name": name, "password": given_password(from_stdin=from_stdin)}
    _done(ask(where, "/access/users/set", body), as_json=as_json)


@app.command()
def remove(name: Name, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """Remove a user."""
    _done(ask(api_address(node, token), "/access/users/remove", {"name": name}), as_json=as_json)


@app.command()
def rules(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A list of rules, as acl: has it; - for input.")
    ],
    save: Annotated[bool, typer.Option("--save", help="Use these rules from now on.")] = False,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Show who may do what with other rules; use them with --save.

    They replace the rules in `access_file`, and apply after those of the configuration.
    """
    where = api_address(node, token)
    body = {"rules": _rules(file)}
    found = ask(where, "/access/rules/try", body)
    if as_json and not save:
        print_json(found)
        return
    if not as_json:
        rows = [
            (printable(each["user"]) or "(none)", each["action"], printable(each["topic"]), _becomes(each))
            for each in found["differences"]
        ]
        title = f"{counted(found['total'], 'change')} in {counted(found['compared'], 'verdict')}"
        print_table(title, ("user", "action", "topic", "becomes"), rows)
    if save:
        _done(ask(where, "/access/rules/set", body), as_json=as_json)


def _becomes(each: dict[str, Any]) -> str:
    return "allowed" if each["allowed"] else "refused"


def _rules(file: Path) -> list[Any]:
    """Read rules: a list, or the `acl` of a configuration; ConfigError names what is wrong and where."""
    text = read_bytes(file, most=limits.CONFIG_BYTES).decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    decoder = ConfigDecoder(str(file))
    found = decoder.read(f"acl:\n{text}" if lines and lines[0].startswith("-") else text)
    decoder.stop()
    if not found.acl and lines:
        raise InputError("there are no rules in it, as - {user: ann, topic: home/#}", path=str(file))
    rules: list[Any] = msgspec.to_builtins(found.acl)
    return rules


def _done(found: dict[str, Any], *, as_json: bool) -> None:
    print_json(found) if as_json else print_text(printable(found["done"]))
