"""The table of commands: where each one is, and the line that `penstock --help` prints for it.

The table is all that is loaded to start the program. The module of a command is imported when the command
runs, so `penstock pub` does not wait for numpy or Spark. A test compares the help lines with the commands.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class CommandEntry(NamedTuple):
    """One row of the table."""

    module: str
    attribute: str
    """A function, or a `typer.Typer` for a command with subcommands."""
    help: str
    """First line of the command's own help."""
    group: str
    """Heading under which `penstock --help` lists the command."""


USE: Final = "Use"
OPERATE: Final = "Operate"
DESIGN: Final = "Design"
LAB: Final = "Lab"
OTHERS: Final = "Others"

GROUPS: Final = (USE, OPERATE, DESIGN, LAB, OTHERS)
"""Headings in the order of `penstock --help`."""

COMMANDS: Final[dict[str, CommandEntry]] = {
    "pub": CommandEntry("penstock.cli.pub", "pub", "Publish to a node.", USE),
    "sub": CommandEntry("penstock.cli.sub", "sub", "Subscribe and print events, until interrupted.", USE),
    "watch": CommandEntry(
        "penstock.cli.watch", "watch", "Show what changes on a web page, until interrupted.", USE
    ),
    "streams": CommandEntry(
        "penstock.cli.streams", "app", "Reliable streams: list, read and write them.", USE
    ),
    "up": CommandEntry(
        "penstock.cli.up", "up", "Run a node until interrupted: MQTT, dashboard, API.", OPERATE
    ),
    "top": CommandEntry(
        "penstock.cli.top", "top", "Show a running node: clients, queues, rates, the account.", OPERATE
    ),
    "context": CommandEntry(
        "penstock.cli.context.command", "app", "Nodes by name, for every command with --node.", OPERATE
    ),
    "channels": CommandEntry(
        "penstock.cli.channels", "app", "Web pages and feeds that a running node polls.", OPERATE
    ),
    "notify": CommandEntry(
        "penstock.cli.notify", "app", "Notifications by chat, webhook, Apprise and feed.", OPERATE
    ),
    "flows": CommandEntry(
        "penstock.cli.flows", "app", "Flows of constant rate: at a node, or recorded.", OPERATE
    ),
    "cluster": CommandEntry(
        "penstock.cli.cluster", "app", "The cluster of a running node: nodes, links, account.", OPERATE
    ),
    "config": CommandEntry("penstock.cli.config", "app", "Check and show a node's configuration.", OPERATE),
    "users": CommandEntry("penstock.cli.users", "app", "Users and access rules of a running node.", OPERATE),
    "passwd": CommandEntry(
        "penstock.cli.passwd", "passwd", "Hash a password for an entry of `users`.", OPERATE
    ),
    "policy": CommandEntry("penstock.cli.policy", "app", "Check, explain, convert and try policies.", DESIGN),
    "filters": CommandEntry("penstock.cli.filters", "show", "List every filter and digester.", DESIGN),
    "backtest": CommandEntry(
        "penstock.cli.backtest.backtest", "backtest", "Replay a recorded stream under each policy.", DESIGN
    ),
    "advise": CommandEntry(
        "penstock.cli.advise", "advise", "Propose a policy for a share of the events.", DESIGN
    ),
    "generate": CommandEntry(
        "penstock.cli.generate", "generate", "Generate a stream to try policies with.", DESIGN
    ),
    "shed": CommandEntry(
        "penstock.cli.shed", "shed", "Pack a stream of files by a policy, on Spark.", DESIGN
    ),
    "pipeline": CommandEntry(
        "penstock.cli.pipeline",
        "app",
        "Tables from recordings, and decisions that nodes follow.",
        OPERATE,
    ),
    "allocate": CommandEntry(
        "penstock.cli.allocate.allocate",
        "allocate",
        "How often to poll each channel for the least delay.",
        DESIGN,
    ),
}
"""Every command of the product by name, in the order of `penstock --help`."""

RENAMED: Final[dict[str, str]] = {"telling": "notify"}
"""Names that commands had before, and the names they have now: the old name is an error that says so."""
