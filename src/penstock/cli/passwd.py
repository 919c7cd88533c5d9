"""`penstock passwd`: prints the hash of a password, for the configuration."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.cli.output import print_text, warn
from penstock.errors import InputError
from penstock.mqtt.fields import TEXT_BYTES
from penstock.node.access.passwords import hashed, problem_with_password, weakness_of
from penstock.node.config.problems import problem_with_name


def passwd(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The user; if omitted, only the hash is printed.")
    ] = None,
    from_stdin: Annotated[
        bool, typer.Option("--stdin", help="Read the password from the first line of standard input.")
    ] = False,
) -> None:
    """Hash a password for an entry of `users`.

    The password is asked for twice; what is printed is an entry of the configuration with its argon2 hash.
    """
    if name is not None:
        wrong = problem_with_name(name)
        if wrong:
            raise typer.BadParameter(wrong, param_hint="NAME")
    found = hashed(given_password(from_stdin=from_stdin))
    print_text(found if name is None else f'- name: "{name}"\n  password: "{found}"\n')


def given_password(*, from_stdin: bool) -> str:
    """Ask for a password, or read it; InputError if nobody can have it, a warning if it is weak."""
    password = _from_stdin() if from_stdin else _asked()
    wrong = problem_with_password(password)
    if wrong:
        raise InputError(wrong)
    weak = weakness_of(password)
    if weak:
        warn(weak)
    return password


def _from_stdin() -> str:
    line = sys.stdin.readline(TEXT_BYTES + 2) if sys.stdin is not None else ""
    return line.rstrip("\r\n")


def _asked() -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError("standard input is no terminal to ask at; give the password with --stdin")
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt="Once more", err=True)
    return answer
