"""`penstock conformance`: byte-level MQTT cases against a node, or any other broker."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import out, print_table, progress
from penstock.errors import GoalMissed, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_lab.experiments.conformance.runner import Report


def conformance(
    vectors: Annotated[
        Path, typer.Option("--vectors", metavar="DIR", help="Folder with the cases (*.json).")
    ],
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The broker, mqtt://host:port; if omitted, a node is started."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Play byte-level MQTT cases against a broker; exits 1 if fewer than 98 % pass."""
    from penstock_lab.experiments.conformance.runner import run_cases  # noqa: PLC0415  # other commands need none of it
    from penstock_lab.experiments.conformance.vectors import read_vectors  # noqa: PLC0415

    cases = read_vectors(vectors)
    with _broker(url) as (host, port, name), progress("conformance") as step:
        report = run_cases(cases, host=host, port=port, broker=name, progress=step)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    if not report.ok:
        raise typer.Exit(GoalMissed.exit_code)


@contextmanager
def _broker(url: str | None) -> Iterator[tuple[str, int, str]]:
    """Yield host, port and name of the broker; starts a node if no address is given."""
    if url is None:
        from penstock_lab.rigs.brokers import our_node  # noqa: PLC0415
        from penstock_lab.rigs.ports import HOST  # noqa: PLC0415

        with our_node() as node:
            yield HOST, node.port, node.name
        return
    from penstock.client.transport import read_address  # noqa: PLC0415

    address = read_address(url)
    if address.scheme != "mqtt":
        raise InputError(f"'{url}': the cases are bytes on a plain connection; the address must be mqtt://…")
    yield address.host, address.port, str(address)


def _show(report: Report) -> None:
    rows = [(file, str(cases), str(passed)) for file, cases, passed in report.by_file()]
    print_table(f"conformance of {report.broker}", ("file", "cases", "passed"), rows)
    if report.failures:
        otherwise = [
            (found["file"], found["group"], found["name"], found["problem"], found["reason"])
            for found in (result.as_json() for result in report.failures)
        ]
        print_table("otherwise", ("file", "group", "case", "what happened", "why"), otherwise)
    passed = len(report.results) - len(report.failures)
    out.print(f"{passed} of {len(report.results)} passed: {report.share:.1%}; {report.seconds:.0f} s")
