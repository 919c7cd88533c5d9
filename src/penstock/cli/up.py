"""`penstock up`: runs a node."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from penstock.cli.config import named_or_usual
from penstock.cli.output import JsonFlag
from penstock.node.config.cluster import DEFAULT_NAME, ClusterSettings
from penstock.node.config.schema import Config


def _renamed(context: typer.Context, option: typer.CallbackParam, given: bool) -> None:
    if given:
        old = option.opts[0]
        context.fail(f"'{old}' is now '{old.replace('web', 'channels')}'")


def _joining(cluster: ClusterSettings, addresses: list[str]) -> ClusterSettings:
    """Settings of a node that joins these addresses besides those of its configuration."""
    name = cluster.name or DEFAULT_NAME
    return msgspec.structs.replace(cluster, name=name, join=(*cluster.join, *addresses))


def up(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration file; penstock.yaml in this folder, if it exists, when omitted.",
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address of the first listener.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the first listener; 0 for a free one."),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of dashboard and API; 0 for a free one."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of the store; '' keeps nothing on disk.")
    ] = None,
    channels: Annotated[
        bool | None,
        typer.Option(
            "--channels/--no-channels",
            help="Whether a subscription to web/<url> makes the node poll that page.",
        ),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Join the cluster of the node at this address, as tcp/10.0.0.1:7447; may be repeated.",
        ),
    ] = None,
    _web: Annotated[
        bool,
        typer.Option("--web", hidden=True, callback=_renamed, is_eager=True),
    ] = False,
    _no_web: Annotated[
        bool,
        typer.Option("--no-web", hidden=True, callback=_renamed, is_eager=True),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a node until interrupted: MQTT, dashboard, API.

    With --json the node prints one line when it is ready: where it listens.
    """
    from penstock.node import service  # noqa: PLC0415  # other commands need no node
    from penstock.node.config.read import LoadedConfig, load  # noqa: PLC0415
    from penstock.node.observe import logs  # noqa: PLC0415

    path = named_or_usual(config)

    def changed(found: Config) -> Config:
        first, *others = found.listeners or (None,)
        if first is not None:
            first = msgspec.structs.replace(
                first,
                host=first.host if host is None else host,
                port=first.port if port is None else port,
            )
            found = msgspec.structs.replace(found, listeners=(first, *others))
        if http_port is not None:
            found = msgspec.structs.replace(found, http=msgspec.structs.replace(found.http, port=http_port))
        if channels is not None:
            found = msgspec.structs.replace(
                found, channels=msgspec.structs.replace(found.channels, enabled=channels)
            )
        if join:
            found = msgspec.structs.replace(found, cluster=_joining(found.cluster, join))
        return found if data is None else msgspec.structs.replace(found, data=data)

    def read() -> LoadedConfig:
        return load(path, change=changed)

    def ready(node: service.Node) -> None:
        found = service.about(node)
        if as_json:
            about = {"ready": True, "pid": os.getpid(), "version": version("penstock")}
            line = json.dumps(about | found | {"config": None if path is None else str(path)})
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        logs.ready(found)

    loaded = read()
    logs.to_stderr(loaded.config)
    logs.begin(path, loaded.warnings)
    service.run(service.serve(loaded, again=None if path is None else read, ready=ready))
