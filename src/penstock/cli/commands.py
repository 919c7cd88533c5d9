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


MESSAGES: Final = "Messages"
NODE: Final = "Node"
POLICIES: Final = "Policies"
SPARK: Final = "Recorded streams"
LAB: Final = "Lab"
OTHERS: Final = "Commands of other packages"

GROUPS: Final = (MESSAGES, NODE, POLICIES, SPARK, LAB, OTHERS)
"""Headings in the order of `penstock --help`."""

COMMANDS: Final[dict[str, CommandEntry]] = {
    "pub": CommandEntry("penstock.cli.pub", "pub", "Publish to a node.", MESSAGES),
    "sub": CommandEntry(
        "penstock.cli.sub", "sub", "Subscribe and print events, until interrupted.", MESSAGES
    ),
    "streams": CommandEntry(
        "penstock.cli.streams",
        "app",
        "Reliable streams: at a running node, read, or written to.",
        MESSAGES,
    ),
    "watch": CommandEntry(
        "penstock.cli.watch", "watch", "Show what changes on a web page, until interrupted.", MESSAGES
    ),
    "up": CommandEntry(
        "penstock.cli.up", "up", "Run a node until it is interrupted: MQTT, dashboard, API.", NODE
    ),
    "top": CommandEntry(
        "penstock.cli.top",
        "top",
        "Show a running node: clients, queues, levels, rates, and whether every event is accounted for.",
        NODE,
    ),
    "context": CommandEntry(
        "penstock.cli.context.command",
        "app",
        "Nodes by name: addresses and credentials, for every command with --node.",
        NODE,
    ),
    "config": CommandEntry("penstock.cli.config", "app", "Check and show a node's configuration.", NODE),
    "passwd": CommandEntry(
        "penstock.cli.passwd",
        "passwd",
        "Ask for a password twice and print an entry of `users` with its argon2 hash.",
        NODE,
    ),
    "channels": CommandEntry(
        "penstock.cli.channels",
        "app",
        "Channels of a running node: the web pages and feeds that it polls.",
        NODE,
    ),
    "notify": CommandEntry(
        "penstock.cli.notify", "app", "Notifications of changes by chat, webhook, Apprise and feed.", NODE
    ),
    "flows": CommandEntry(
        "penstock.cli.flows",
        "app",
        "Flows of constant rate: at a running node, or in recorded arrivals.",
        NODE,
    ),
    "policy": CommandEntry(
        "penstock.cli.policy", "app", "Check, explain, convert and try policies.", POLICIES
    ),
    "filters": CommandEntry(
        "penstock.cli.filters", "show", "List every filter and digester with its parameters.", POLICIES
    ),
    "generate": CommandEntry(
        "penstock.cli.generate",
        "generate",
        "Generate a stream with Spark: patients' vitals, a campus' syslog, or vehicles' telemetry.",
        SPARK,
    ),
    "backtest": CommandEntry(
        "penstock.cli.backtest.backtest",
        "backtest",
        "Replay every queue of a recorded stream under each policy.",
        SPARK,
    ),
    "advise": CommandEntry(
        "penstock.cli.advise",
        "advise",
        "Propose a policy whose levels come down to a share of the events.",
        SPARK,
    ),
    "shed": CommandEntry(
        "penstock.cli.shed",
        "shed",
        "Pack a stream of files by a policy; dropped events are counted in digests.",
        SPARK,
    ),
    "allocate": CommandEntry(
        "penstock.cli.allocate.allocate",
        "allocate",
        "Give every channel the interval that makes the most of a load, or reaches a delay with the least.",
        SPARK,
    ),
}
"""Every command of the product by name."""

RENAMED: Final[dict[str, str]] = {"telling": "notify"}
"""Names that commands had before, and the names they have now: the old name is an error that says so."""
