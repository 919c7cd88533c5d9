"""Options that several commands share: the node to connect to, the Spark session, a choice by name."""

from __future__ import annotations

import logging
import os
import ssl
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from penstock import limits
from penstock.cli.context.target import HERE, Target, target
from penstock.cli.output import warn
from penstock.errors import InputError, MissingTool, printable
from penstock.model.instant import to_us
from penstock.node.config.amounts import SECONDS, quantity
from penstock.pipeline.session import QUICK_JAVA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client import Client

T = TypeVar("T")


def chosen(catalogue: Mapping[str, T], name: str, what: str, *, also: str = "") -> T:
    """Return the entry of a name; an unknown name is a wrong command line."""
    if name in catalogue:
        return catalogue[name]
    names = [*catalogue, also] if also else list(catalogue)
    near = get_close_matches(name, names, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    raise typer.BadParameter(f"there is no {what} '{name}'{hint}; there are: {', '.join(names)}")


HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        "-h",
        metavar="NAME",
        help="Host of the node, in the place of --node; with --ca by TLS, on port 8883.",
    ),
]
PortOption = Annotated[
    int | None, typer.Option("--port", "-p", min=1, max=65_535, metavar="N", help="Port of the node.")
]
UserOption = Annotated[str | None, typer.Option("--user", "-u", metavar="NAME", help="User name.")]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        "-P",
        metavar="TEXT",
        help="Password; others on this machine see it: better --password-env.",
    ),
]
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
    typer.Option(
        "--ca", metavar="FILE", help="File of trusted CA certificates, PEM; those of the system if omitted."
    ),
]
ClientIdOption = Annotated[
    str | None, typer.Option("--client-id", "-i", metavar="ID", help="Client id; a random one if omitted.")
]
QosOption = Annotated[int, typer.Option("--qos", "-q", min=0, max=2, help="Quality of service: 0, 1 or 2.")]


@dataclass(frozen=True, slots=True)
class NodeLogin:
    """Address and credentials of a node."""

    url: str
    user: str | None
    password: str | None
    ca: Path | None
    client_id: str | None

    @property
    def shown(self) -> str:
        """The addresses without users and passwords."""
        parts = (url.partition("://") for url in self.url.split(","))
        return printable(",".join(f"{scheme}://{rest.rpartition('@')[2]}" for scheme, _, rest in parts))

    def client(self, *, session_expiry_s: int | None = None) -> Client:
        """Make a client, not connected yet."""
        from penstock.client import Client  # noqa: PLC0415  # other commands need no client

        return Client(
            self.url,
            client_id=self.client_id,
            user=self.user,
            password=self.password,
            tls=None if self.ca is None else tls_context(self.ca),
            session_expiry_s=session_expiry_s,
        )


def node_login(
    *,
    node: str,
    user: str | None,
    password_env: str | None,
    password_stdin: bool,
    ca: Path | None,
    client_id: str | None,
    password: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> NodeLogin:
    """Find the node, check the options and read the password; a context has what is not given."""
    if sum((password is not None, password_env is not None, password_stdin)) > 1:
        raise typer.BadParameter("--password, --password-env and --password-stdin: give one of them")
    if host is not None or port is not None:
        if node not in (HERE, os.environ.get("PENSTOCK_URL")):
            raise typer.BadParameter("--host and --port: give --node, or these")
        found = Target(_address(host, port, tls=ca is not None))
    else:
        found = target(node, "mqtt")
    if password_env is not None:
        password = password_of(password_env)
    elif password_stdin:
        if sys.stdin is None:
            raise InputError("standard input is closed", path="--password-stdin")
        password = sys.stdin.readline().rstrip("\r\n")
    user, password, ca = found.login(user, password, ca)
    return NodeLogin(found.url, user, password, ca, client_id)


def _address(host: str | None, port: int | None, *, tls: bool) -> str:
    """Return the URL of --host and --port; they win over an address in the environment."""
    host = host or "127.0.0.1"
    if "/" in host or "@" in host:
        raise typer.BadParameter(f"--host {host}: write a name or an address; a URL goes to --node")
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"  # IPv6
    return f"mqtts://{host}:{port or 8883}" if tls else f"mqtt://{host}:{port or 1883}"


def password_of(variable: str) -> str:
    """Return the password in an environment variable; raises InputError if it is not set."""
    found = os.environ.get(variable)
    if found is None:
        raise InputError(f"there is no environment variable '{variable}'", path="--password-env")
    return found


def tls_context(ca: Path) -> ssl.SSLContext:
    """Return a TLS context that trusts these authorities; raises InputError if the file cannot be read."""
    try:
        return ssl.create_default_context(cafile=str(ca))
    except OSError as error:  # ssl.SSLError is one
        raise InputError(f"no certificates can be read: {error.strerror or error}", path=ca) from None


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def show_warnings() -> None:
    """Print warnings of the client on standard error: a lost connection, a reconnection."""
    logger = logging.getLogger("penstock.client")
    logger.addHandler(_Warnings(logging.INFO))
    logger.setLevel(logging.INFO)
    logger.propagate = False


MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark master; all cores of this machine if omitted."),
]
RemoteOption = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="Spark Connect server, as sc://host:15002.")
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Memory of a local Spark, as 8g.")
]
EventsOption = Annotated[
    str,
    typer.Option(
        "--events", metavar="PATH", help="A recorded stream: Parquet, JSON lines or CSV, a file or a folder."
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="parquet, json or csv; by the suffix of the file if omitted."
    ),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="COL", help="Column that names a queue; if omitted all events are one queue."
    ),
]
TsOption = Annotated[str, typer.Option("--ts", metavar="COL", help="Column of the event time.")]
SeqOption = Annotated[
    str | None,
    typer.Option("--seq", metavar="COL", help="Column of sequence numbers; 'seq' if there is one."),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="PATH=COL", help="Column of an attribute that is not in the column of its name."
    ),
]


MattersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--matters",
        metavar="PREDICATE",
        help="What matters to the receiver, as 'pulse > 120'; how much of it arrives is shown. Repeatable.",
    ),
]
WindowOption = Annotated[
    str,
    typer.Option("--window", metavar="TIME", help="Window whose largest and smallest values are counted."),
]


def window_of(text: str) -> int:
    """Return a window of time in microseconds."""
    seconds = quantity(text, SECONDS)
    if seconds is None or not limits.WINDOW_LEAST_S <= seconds <= limits.WINDOW_MOST_S:
        raise typer.BadParameter(
            f"--window {text}: write a duration like 10s, 1min or 1h, from 1 ms to a year"
        )
    return to_us(seconds)


def columns_of(given: list[str] | None, *, seq: str | None) -> dict[str, str]:
    """Return columns by attribute."""
    found = {} if seq is None else {"$seq": seq}
    for one in given or ():
        name, sign, column = one.rpartition("=")
        if not sign or not name or not column:
            raise typer.BadParameter(
                f"'{one}': write --column ATTRIBUTE=COLUMN, as --column pulse=heart_rate"
            )
        found[name] = column
    return found


def need_spark() -> None:
    """Raise MissingTool if PySpark is not installed; call it before importing `penstock.pipeline`."""
    if find_spec("pyspark") is None:
        raise MissingTool("Spark is not installed: pip install 'penstock[spark]'")


def in_a_hurry(*, events: int = 0, size: int = 0, path: str | None = None) -> None:
    """Before a local Spark starts for a short stream: its Java compiles quickly instead of well.

    Of what a command with some ten thousand events takes, a third is Java's second compiler. Spark reads the
    variable when it starts Java on this machine; a cluster does not, and what the user has set stays.
    """
    found = size if path is None else _bytes_at(path)
    if events <= limits.SHORT_EVENTS and found <= limits.SHORT_BYTES:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JAVA)


def _bytes_at(path: str) -> float:
    """Return the size of the files at a path, infinite for one that is not on this machine."""
    top, found = Path(path), 0
    try:
        for file in [top] if top.is_file() else top.rglob("*"):
            found += file.stat().st_size if file.is_file() else 0
            if found > limits.SHORT_BYTES:
                break
    except OSError:
        pass
    return found or float("inf")
