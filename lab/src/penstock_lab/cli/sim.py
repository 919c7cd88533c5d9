"""`penstock sim`: random runs, judged by checkers; a failure is reproduced by its seed.

`streams` and `cluster` run in the simulator, `fuzz` against a node that it starts.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import msgspec
import typer

from penstock import limits
from penstock.cli.options import chosen, need_spark
from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import err, escape, out, print_table, progress
from penstock.errors import GoalMissed, counted
from penstock_lab.experiments.fuzz import run as fuzzing
from penstock_lab.experiments.fuzz.exchange import read_exchanges, write_exchanges
from penstock_lab.experiments.fuzz.run import FuzzRun
from penstock_lab.experiments.fuzz.subject import node
from penstock_lab.experiments.fuzz.targets.catalogue import NAMES
from penstock_lab.experiments.streams.sweep import Sweep, here, on_spark
from penstock_lab.rigs.moving_cluster import moving as cluster_moving
from penstock_lab.sim.cluster import links as cluster_links
from penstock_lab.sim.cluster.cost import Large, cost

app = typer.Typer(
    no_args_is_help=True, help="Random runs in the simulator or against a node; a failure is a seed."
)

SHOWN = 10
"""Failures that are printed in full."""


@app.callback()
def _root() -> None:
    """Random runs in the simulator or against a node; a failure is a seed."""


@app.command("streams")
def streams(
    runs: Annotated[int, typer.Option("--runs", min=1, max=10**7, help="Number of runs.")] = 100,
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, max=2**62, help="Random seed of the first run; the next has seed + 1."),
    ] = 1,
    spark: Annotated[bool, typer.Option("--spark", help="Run as tasks of a local Spark.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Reliable streams under random faults: losses, copies, reordering, cut links, crashes, wrong clocks.

    Each run is checked: every subscriber gets each message once and in order, nothing acknowledged is lost,
    silence never hides data. Exits 1 if a run breaks a rule, and prints how to repeat it.
    """
    seeds = range(seed, seed + runs)
    began_s = monotonic()
    if spark:
        need_spark()
        from penstock.pipeline.session import open_session  # noqa: PLC0415  # Spark is an extra

        with progress("sim streams") as step:
            step(0, runs, "on Spark")
            with open_session(app="penstock sim streams") as session:
                found = on_spark(session, seeds)
    else:
        with progress("sim streams") as step:

            def told(done: int, failed: int) -> None:
                step(done, runs, f"{failed} failed" if failed else "no failure")

            found = here(seeds, told)
    _tell(found, seed=seed, seconds=monotonic() - began_s, as_json=as_json)
    if found.failures:
        raise typer.Exit(GoalMissed.exit_code)


def replay(seed: int) -> str:
    """Return the command that repeats one run."""
    return f"penstock sim streams --runs 1 --seed {seed}"


def _tell(found: Sweep, *, seed: int, seconds: float, as_json: bool) -> None:
    counts = {
        "runs": found.runs,
        "published": found.published,
        "delivered": found.delivered,
        "crashes": found.crashes,
        "lost": found.lost,
    }
    if as_json:
        failures = [
            {"seed": run.seed, "problems": list(run.problems[:SHOWN]), "replay": replay(run.seed)}
            for run in found.failures
        ]
        ok = not found.failures
        told = {"sim": "streams", "seed": seed, "ok": ok, **counts, "failures": failures}
        print_json(told | {"seconds": round(seconds, 1)})
        return
    print_table("", tuple(counts), [tuple(f"{count:,}" for count in counts.values())])
    for run in found.failures[:SHOWN]:
        more = f" (and {len(run.problems) - 1:,} more)" if len(run.problems) > 1 else ""
        err.print(f"[bold red]seed {run.seed}:[/] {escape(run.problems[0])}{more}", soft_wrap=True)
        err.print(f"  {replay(run.seed)}", soft_wrap=True)
    if len(found.failures) > SHOWN:
        err.print(f"and {len(found.failures) - SHOWN:,} more seeds")
    if not found.failures:
        out.print(f"no rule broken in {found.runs:,} runs, {seconds:.1f} s")


@app.command("cluster")
def cluster(
    runs: Annotated[int, typer.Option("--runs", min=1, max=10**7, help="Number of runs.")] = 100,
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, max=2**62, help="Random seed of the first run; the next has seed + 1."),
    ] = 1,
    moving: Annotated[
        bool,
        typer.Option("--moving", help="Whole nodes, with clients whose kept sessions move between them."),
    ] = False,
    trees: Annotated[
        bool,
        typer.Option("--trees", help="More nodes, in zones and with a small fan-out: nodes pass events on."),
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            min=2,
            max=limits.CLUSTER_MEMBERS,
            help="In the place of random runs, the cost of trees and interest in a cluster of so many nodes.",
        ),
    ] = None,
    zones: Annotated[
        int, typer.Option("--zones", min=1, max=100, help="With --nodes: zones that they are in.")
    ] = 1,
    fan_out: Annotated[
        int,
        typer.Option(
            "--fan-out",
            min=1,
            max=limits.CLUSTER_FAN_OUT_MOST,
            help="With --nodes: nodes of a zone that a node sends to.",
        ),
    ] = limits.CLUSTER_FAN_OUT,
    as_json: JsonFlag = False,
) -> None:
    """A cluster under random faults: losses, copies, reordering, cut links, frozen and killed nodes.

    Each run is checked: nothing twice and in order, every event accounted for, every node knows what the
    others want, the same retained messages everywhere. Exits 1 if a run breaks a rule, and prints its seed.
    """
    if nodes is not None:
        _cost(Large(nodes, zones, fan_out), seed, as_json=as_json)
        return
    began_s = monotonic()
    found: list[cluster_links.ClusterRun | cluster_moving.MovingRun] = []
    failed: list[cluster_links.ClusterRun | cluster_moving.MovingRun] = []
    columns = ["published", "received", "digested", "abandoned", "faults"]
    if moving:
        columns += ["moves", "repeated"]
    elif trees:
        columns += ["forwarded", "repaired"]
    with progress("sim cluster") as step:
        for number in range(seed, seed + runs):
            found.append((cluster_moving if moving else cluster_links).run(number, trees=trees))
            if found[-1].problems:
                failed.append(found[-1])
            step(len(found), runs, f"{len(failed)} failed" if failed else "no failure")
    counts = {"runs": runs} | {name: sum(getattr(one, name) for one in found) for name in columns}
    kind = (" --moving" if moving else "") + (" --trees" if trees else "")
    again = f"penstock sim cluster{kind} --runs 1 --seed {{}}"
    if as_json:
        failures = [
            {"seed": one.seed, "problems": list(one.problems[:SHOWN]), "replay": again.format(one.seed)}
            for one in failed
        ]
        told = {"sim": "cluster", "seed": seed, "ok": not failed, **counts, "failures": failures}
        print_json(told | {"seconds": round(monotonic() - began_s, 1)})
    else:
        print_table("", tuple(counts), [tuple(f"{count:,}" for count in counts.values())])
        for one in failed[:SHOWN]:
            err.print(f"[bold red]seed {one.seed}:[/] {escape(one.problems[0])}", soft_wrap=True)
            err.print(f"  {again.format(one.seed)}", soft_wrap=True)
        if not failed:
            out.print(f"no rule broken in {runs:,} runs, {monotonic() - began_s:.1f} s")
    if failed:
        raise typer.Exit(GoalMissed.exit_code)


def _cost(shape: Large, seed: int, *, as_json: bool) -> None:
    """Show the cost of trees and interest in a large cluster."""
    found = cost(shape, seed=seed)
    if as_json:
        print_json({"sim": "cluster-cost", "seed": seed} | msgspec.to_builtins(found))
        return
    print_table(
        f"{shape.nodes:,} nodes in {counted(shape.zones, 'zone')}, fan-out {shape.fan_out}",
        (
            "told",
            "nodes",
            "hops",
            "links of the origin",
            "most links",
            "bytes of the origin",
            "most bytes",
            "without trees",
            "acks",
        ),
        [
            (what, *(f"{count:,}" for count in astuple(reach)))
            for what, reach in (
                ("a message for all", found.everybody),
                ("a message for one in eleven", found.some),
                ("a new filter", found.filter),
            )
        ],
    )
    print_table(
        "forwarders killed in the middle of a message for all",
        ("killed", "which", "missed it", "sent again"),
        [
            (f"{one.killed:,}", "the worst" if one.worst else "any", f"{one.missed:,}", f"{one.resent:,}")
            for one in found.repairs
        ],
    )
    each = found.interest_bytes // (shape.nodes - 1)
    out.print(f"a node is told {found.interest_bytes:,} bytes of what the others want: {each:,} of each")


@app.command("fuzz")
def fuzz(  # options of a command
    target: Annotated[str, typer.Argument(help="What is attacked: " + ", ".join(NAMES) + ".")],
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.01, max=10_000, help="How long exchanges are sent.")
    ] = 1.0,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**62, help="Random seed: the same seed sends the same bytes.")
    ] = 1,
    again: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="FILE", help="Play the exchanges of a file that a failure has left."
        ),
    ] = None,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where a failure leaves its bytes; fuzz-TARGET-SEED.json."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Valid exchanges, damaged by seed, against a node started on free ports of loopback.

    The node must not end, nor log a traceback or an error; bystanders must be served all the time; at the
    end its memory and its open files must be back to where they were. Exits 1 if one of this is not so, and
    leaves the bytes that did it in a file.
    """
    chosen(dict.fromkeys(NAMES, ""), target, "target")
    if again is not None:
        meant, seed, exchanges = read_exchanges(again)
        if meant != target:
            raise typer.BadParameter(f"the file is one of target '{meant}'", param_hint="--replay")
        found = fuzzing.replay(target, exchanges, seed=seed, subjects=node)
    else:
        with progress(f"sim fuzz {target}") as step:
            began_s, seconds = monotonic(), minutes * 60

            def told(run: FuzzRun) -> None:
                step(
                    min(int(monotonic() - began_s), int(seconds)),
                    int(seconds),
                    f"{run.exchanges:,} exchanges",
                )

            found = fuzzing.fuzz(target, seed=seed, seconds=seconds, subjects=node, told=told)
    path = out_file or Path(f"fuzz-{target}-{seed}.json")
    left = bool(found.suspects) and not found.ok and again is None
    if left:
        write_exchanges(path, found.suspects, target=target, seed=seed, problem=found.problem)
    _tell_fuzz(found, path if left else None, minutes=minutes, as_json=as_json)
    if not found.ok:
        raise typer.Exit(GoalMissed.exit_code)


def _tell_fuzz(found: FuzzRun, path: Path | None, *, minutes: float, as_json: bool) -> None:
    figures: dict[str, Any] = {
        "exchanges": found.exchanges,
        "bytes": found.bytes,
        "bystander_messages": len(found.round_trips_s),
        "round_trip_p99_ms": round(found.round_trip_ms(99), 1),
        "round_trip_worst_ms": round(found.round_trip_ms(100), 1),
        "memory_before": None if found.before is None else found.before.resident_bytes,
        "memory_peak": found.peak_bytes,
        "memory_after": None if found.after is None else found.after.resident_bytes,
        "files_before": None if found.before is None else found.before.files,
        "files_after": None if found.after is None else found.after.files,
    }
    repeat = f"penstock sim fuzz {found.target} " + (
        f"--replay {path}"
        if path is not None and found.alone
        else f"--seed {found.seed} --minutes {minutes:g}"
    )
    if as_json:
        told = {"sim": "fuzz", "target": found.target, "seed": found.seed, "ok": found.ok, **figures}
        failure = {"problem": found.problem, "file": None if path is None else str(path), "repeat": repeat}
        print_json(told | {"failure": None if found.ok else failure, "seconds": round(found.seconds, 1)})
        return
    shown = [
        (name.replace("_", " "), f"{value / 2**20:.1f} MB" if name.startswith("memory") else f"{value:,}")
        for name, value in figures.items()
        if value is not None
    ]
    print_table(f"fuzz {found.target}, seed {found.seed}", ("figure", "value"), shown)
    if found.ok:
        out.print(f"no rule broken in {found.exchanges:,} exchanges, {found.seconds:.1f} s")
        return
    err.print(f"[bold red]seed {found.seed}:[/] {escape(found.problem)}", soft_wrap=True)
    if path is not None:
        what = (
            "the shortest exchange that does it"
            if found.alone
            else f"the last {len(found.suspects)} exchanges"
        )
        err.print(f"  {what}: {path}", soft_wrap=True)
    err.print(f"  {repeat}", soft_wrap=True)
