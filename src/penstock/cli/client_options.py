"""What `penstock pub` and `penstock sub` have in common: where the node is, and who asks."""

from __future__ import annotations

import logging
import os
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import warn
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.client import Client

UrlOption = Annotated[
    str,
    typer.Option(
        "--url", envvar="PENSTOCK_URL", metavar="URL", help="The node: mqtt://, mqtts://, ws:// or wss://."
    ),
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="User name.")]
PasswordEnvOption = Annotated[
    str | None,
    typer.Option("--password-env", metavar="NAME", help="Environment variable that holds the password."),
]
PasswordStdinOption = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password from the first line of standard input."),
]
CaOption = Annotated[
    Path | None,
    typer.Option("--ca", metavar="FILE", help="Authorities to trust, PEM; the system's if omitted."),
]
ClientIdOption = Annotated[
    str | None, typer.Option("--client-id", metavar="ID", help="Client id; a new one if omitted.")
]
QosOption = Annotated[int, typer.Option("--qos", min=0, max=2, help="Quality of service: 0, 1 or 2.")]

URL = "mqtt://127.0.0.1:1883"


@dataclass(frozen=True, slots=True)
class Way:
    """How to reach a node."""

    url: str
    user: str | None
    password: str | None
    ca: Path | None
    client_id: str | None

    def client(self, *, session_expiry_s: int | None = None) -> Client:
        """A client that is not connected yet."""
        from penstock.client import Client  # noqa: PLC0415  # other commands need no client

        return Client(
            self.url,
            client_id=self.client_id,
            user=self.user,
            password=self.password,
            tls=None if self.ca is None else trusting(self.ca),
            session_expiry_s=session_expiry_s,
        )


def way(
    *,
    url: str,
    user: str | None,
    password_env: str | None,
    password_stdin: bool,
    ca: Path | None,
    client_id: str | None,
) -> Way:
    """The options, read."""
    if password_env is not None and password_stdin:
        raise typer.BadParameter("--password-env and --password-stdin: give one of them")
    password = None
    if password_env is not None:
        password = password_of(password_env)
    elif password_stdin:
        if sys.stdin is None:
            raise InputError("standard input is closed", path="--password-stdin")
        password = sys.stdin.readline().rstrip("\r\n")
    if password is not None and user is None:
        raise typer.BadParameter("a password without --user")
    return Way(url, user, password, ca, client_id)


def password_of(variable: str) -> str:
    """The password in an environment variable; InputError if there is none of that name."""
    found = os.environ.get(variable)
    if found is None:
        raise InputError(f"there is no environment variable '{variable}'", path="--password-env")
    return found


def trusting(ca: Path) -> ssl.SSLContext:
    """A context that trusts these authorities; InputError if they cannot be read."""
    try:
        return ssl.create_default_context(cafile=str(ca))
    except OSError as error:  # ssl.SSLError is one
        raise InputError(f"no certificates can be read: {error.strerror or error}", path=ca) from None


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def show_warnings() -> None:
    """Say on standard error when a connection is lost and made again."""
    logger = logging.getLogger("penstock.client")
    logger.addHandler(_Warnings(logging.INFO))
    logger.setLevel(logging.INFO)
    logger.propagate = False
