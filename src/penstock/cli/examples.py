"""An example for the help of each command.

`EXAMPLES` has those that say more than the arguments do. For other commands one is made of their arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typer._click.core import Command

PAGE: Final = "https://example.org/news"

EXAMPLES: Final[dict[str, str]] = {
    "pub": """penstock pub ward/7 '{"pulse": 72}' -q 1""",
    "sub": "penstock sub 'ward/#' --policy ward.yaml -i phone --keep 3600",
    "watch": f"penstock watch {PAGE} --every 5min",
    "up": "penstock up --config penstock.yaml",
    "top": "penstock top --node nas.local",
    "streams": "penstock streams --watch",
    "streams read": "penstock streams read orders --from earliest --consumer billing",
    "streams write": "penstock streams write orders orders/new --writer import-1 < orders.txt",
    "context add": "penstock context add home mqtts://nas.local -u ann --password-file pw --use",
    "context use": "penstock context use home",
    "cluster status": "penstock cluster status --node nas.local --watch",
    "config check": "penstock config check penstock.yaml --strict",
    "config schema": "penstock config schema > penstock.schema.json",
    "config init": "penstock config init penstock.yaml",
    "policy init": "penstock policy init ward.yaml",
    "config settings": "penstock config settings --json",
    "passwd": "penstock passwd ann",
    "channels list": "penstock channels list --search example.org",
    "channels add": f"penstock channels add {PAGE} --every 5min --css '#headlines'",
    "channels history": f"penstock channels history {PAGE} --count 3",
    "channels subscribe": f"penstock channels subscribe webhook:https://example.org/hook {PAGE}",
    "channels import": "penstock channels import feeds.opml --for xmpp:ann@example.org",
    "channels export": "penstock channels export feeds.opml",
    "notify key": "penstock notify key https://example.org/hook",
    "notify feed": f"penstock notify feed --page {PAGE}",
    "flows": "penstock flows --state silent --watch",
    "flows analyse": "penstock flows analyse --packets recorded/events --out reservations",
    "pipeline init": "penstock pipeline init pipeline --data penstock-data",
    "pipeline run": "penstock pipeline run pipeline --engine plain --every 10m",
    "pipeline status": "penstock pipeline status pipeline --json",
    "policy rollback": "penstock policy rollback pipeline/control/policies",
    "policy check": "penstock policy check ward.yaml --strict",
    "policy convert": "penstock policy convert ward.yaml --to python",
    "policy schema": "penstock policy schema > policy.schema.json",
    "policy try": "penstock policy try ward.yaml --events events.jsonl --drain 50/s",
    "generate": "penstock generate vitals --events 100000 --out vitals.parquet",
    "backtest": "penstock backtest --events vitals.parquet --policy ward.yaml --capacity 300 --drain 50/s",
    "advise": "penstock advise --events vitals.parquet --attribute pulse --matters '> 120' --budget 0.5 "
    "--out mine.yaml",
    "shed": "penstock shed --in events --out packed --policy ward.yaml --capacity 300 --key topic --once",
    "allocate": "penstock allocate --channels channels.csv --budget 10000 --out intervals",
    "bench": "penstock bench node --quick",
    "conformance": "penstock conformance --vectors vectors/mqtt",
    "demo": "penstock demo --quick",
    "reproduce": "penstock reproduce pack-fig8 --quick",
    "sim cluster": "penstock sim cluster --runs 100 --seed 1",
    "sim streams": "penstock sim streams --runs 100 --seed 1",
    "sim fuzz": "penstock sim fuzz mqtt --minutes 1",
}
"""Examples by command."""

VALUES: Final = {"PAGE": PAGE, "NAME": "home", "FILE": "ward.yaml", "STREAM": "orders", "CONSUMER": "billing"}
"""The word that examples show in the place of an argument."""


def illustrate(command: Command, path: str) -> None:
    """Put an example below the help of a command, and of its subcommands."""
    subcommands = getattr(command, "commands", {})
    for name, each in subcommands.items():
        illustrate(each, f"{path} {name}")
    if not command.epilog and "Example: " not in (command.help or ""):
        example = EXAMPLES.get(path) or made(command, path)
        command.epilog = f"Example: {example}"


def made(command: Command, path: str) -> str:
    """Return an example: the command, and its required arguments and options."""
    if getattr(command, "commands", {}) and not getattr(command, "invoke_without_command", False):
        name, first = next(iter(command.commands.items()))  # type: ignore[attr-defined]
        return EXAMPLES.get(f"{path} {name}") or made(first, f"{path} {name}")
    words = ["penstock", path]
    for each in command.params:
        if each.required:
            value = VALUES.get(name := (each.metavar or each.name or "").strip(), name)
            words += [value] if each.param_type_name == "argument" else [each.opts[0], value]
    return " ".join(words)
