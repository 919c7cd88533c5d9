"""`penstock context`: nodes by name, for every command with --node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import typer

from penstock.cli.context import store, target
from penstock.cli.context.store import Context
from penstock.cli.output import JsonFlag, print_json, print_text
from penstock.errors import InputError, printable

app = typer.Typer(
    no_args_is_help=True,
    help="Nodes by name, for every command with --node.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.")]

SERVICES: Final[tuple[target.Service, ...]] = ("mqtt", "http", "stream")


@app.command()
def add(
    name: NameArgument,
    node: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="The node: HOST, HOST:PORT of its MQTT listener, or a URL as mqtts://nas.local; "
            "several of a cluster as A,B,C.",
        ),
    ],
    *,
    http: Annotated[
        str, typer.Option("--http", metavar="URL", help="Dashboard and API, if not at the usual place.")
    ] = "",
    streams: Annotated[
        str, typer.Option("--streams", metavar="URL", help="`streams.listen`, if not at the usual place.")
    ] = "",
    user: Annotated[str, typer.Option("--user", "-u", metavar="NAME", help="User name.")] = "",
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="File whose first line is the password."),
    ] = None,
    password_env: Annotated[
        str, typer.Option("--password-env", metavar="NAME", help="Environment variable with the password.")
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File whose first line is the API's token."),
    ] = None,
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="NAME", help="Environment variable with the API's token.")
    ] = "",
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="File of trusted CA certificates, PEM.")
    ] = None,
    use_it: Annotated[bool, typer.Option("--use", help="Use the context from now on.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a context of this name.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Add a context.

    A context holds no passwords, only where to find them, which is looked up when a command needs them.
    """
    if password_file is not None and password_env:
        raise typer.BadParameter("--password-file and --password-env: give one of them")
    if token_file is not None and token_env:
        raise typer.BadParameter("--token-file and --token-env: give one of them")
    if (password_file is not None or password_env) and not user:
        raise typer.BadParameter("a password without --user")
    found = Context(
        node=_plain(node, "ADDRESS"),
        http=_service(http, "http", "--http"),
        streams=_service(streams, "stream", "--streams"),
        user=user,
        password_file=_place(password_file),
        password_env=password_env,
        token_file=_place(token_file),
        token_env=token_env,
        ca=_place(ca),
    )
    for service in SERVICES:
        target.address_in(found, service)  # an error names what is wrong
    with store.changing() as held:
        contexts = held[0]
        if store.checked_name(name) in contexts.contexts and not replace:
            raise InputError(f"there is a context '{name}' already; --replace replaces it", path="NAME")
        held[0] = msgspec.structs.replace(
            contexts,
            contexts=contexts.contexts | {name: found},
            current=name if use_it else contexts.current,
        )
    _show(name, as_json=as_json)


@app.command("list")
def list_(as_json: JsonFlag = False) -> None:
    """List the contexts; a star marks the one in use."""
    contexts = store.load()
    if as_json:
        rows = [_about(name, contexts) for name in sorted(contexts.contexts)]
        print_json({"file": str(store.path()), "current": contexts.current, "contexts": rows})
        return
    if not contexts.contexts:
        print_text("no contexts yet; make one with `penstock context add NAME ADDRESS`")
    width = max(map(len, contexts.contexts), default=0)
    for name in sorted(contexts.contexts):
        one = contexts.contexts[name]
        user = f"  user {one.user}" if one.user else ""
        print_text(printable(f"{'*' if name == contexts.current else ' '} {name:{width}}  {one.node}{user}"))


@app.command()
def use(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the context.", show_default=False)
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no context: the node of this machine.")] = False,
) -> None:
    """Use a context from now on, in every command without --node."""
    if (name is None) != none:
        raise typer.BadParameter("give the name of a context, or --none")
    with store.changing() as held:
        if name is not None:
            held[0].named(name, said="NAME")
        held[0] = msgspec.structs.replace(held[0], current=name or "")
    print_text(f"in use: {name}" if name else "no context in use: commands go to the node of this machine")


@app.command()
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Name of a context; if omitted, the one in use.", show_default=False
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show where a context leads to, and where its password and token are; neither is printed."""
    name = name or target.target(target.HERE, "mqtt").name
    if not name:
        raise InputError("no context is in use; name one, or choose one with `penstock context use NAME`")
    _show(name, as_json=as_json)


@app.command()
def remove(name: NameArgument) -> None:
    """Remove a context; files that it names stay."""
    with store.changing() as held:
        contexts = held[0]
        contexts.named(name, said="NAME")
        held[0] = msgspec.structs.replace(
            contexts,
            contexts={each: found for each, found in contexts.contexts.items() if each != name},
            current="" if contexts.current == name else contexts.current,
        )
    print_text(f"removed: {name}")


def _show(name: str, *, as_json: bool) -> None:
    about = _about(name, store.load())
    if as_json:
        print_json(about)
        return
    for key, value in about.items():
        if value not in ("", False):
            print_text(printable(f"{key.replace('_', ' '):14}{'yes' if value is True else value}"))


def _about(name: str, contexts: store.Contexts) -> dict[str, Any]:
    found = contexts.named(name, said="NAME")
    return {
        "name": name,
        "in_use": name == contexts.current,
        **{service: target.address_in(found, service) for service in SERVICES},
        **{
            field: getattr(found, field)
            for field in ("user", "password_file", "password_env", "token_file", "token_env", "ca")
        },
    }


def _plain(given: str, where: str) -> str:
    """Return an address without a password in it: the file of contexts holds none."""
    try:
        secret = "://" in given and any("@" in (urlsplit(part).netloc or part) for part in given.split(","))
    except ValueError as error:
        raise InputError(f"'{given}' is not a URL: {error}", path=where) from None
    if secret:
        raise InputError("give the user with --user and the password with --password-file", path=where)
    return given


def _service(given: str, service: target.Service, where: str) -> str:
    """Return the URL of one service; InputError if it is not one."""
    if given and target.SCHEMES.get(given.partition("://")[0]) != service:
        usual = " or ".join(f"{name}://" for name, kind in target.SCHEMES.items() if kind == service)
        raise InputError(f"'{given}' should begin with {usual}", path=where)
    return _plain(given, where)


def _place(file: Path | None) -> str:
    """Return the absolute path of a file: commands run in other folders."""
    return "" if file is None else str(file.expanduser().absolute())
