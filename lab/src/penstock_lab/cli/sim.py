"""`penstock sim`: random runs in the simulator, judged by checkers; a failure is reproduced by its seed."""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import typer

from penstock.cli.options import need_spark
from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import err, escape, out, print_table, progress
from penstock.errors import GoalMissed
from penstock_lab.experiments.streams.sweep import Sweep, here, on_spark

app = typer.Typer(no_args_is_help=True, help="Random runs in the simulator; a failure is a seed.")

SHOWN = 10
"""Failures that are printed in full."""


@app.callback()
def _root() -> None:
    """Random runs in the simulator; a failure is a seed."""


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
