"""Every run in a process of its own, one after the other, within a time; a failure does not stop the others.

A process of its own means that a run that hangs, dies or fills the memory ends alone, and that none is
measured in a process that others have used. A run that is out of time is interrupted as by Ctrl-C, so that it
stops what it has started; what then is left of it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import GoalMissed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STOP_S: Final = 30
"""How long an interrupted run may take to stop what it has started."""
LATE: Final = GoalMissed.exit_code
"""Exit code of a run that was not over in time."""
BUG: Final = 70
"""Exit code of a run that said nothing that can be read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of runs."""

    one_s: int
    """Each of them."""
    all_s: int
    """All of them: those that could not begin by then have failed."""

    def __str__(self) -> str:
        return f"{self.one_s // 60} min each, {self.all_s // 3600} h in all"


QUICK: Final = Limits(one_s=900, all_s=2 * 3600)
FULL: Final = Limits(one_s=5_400, all_s=8 * 3600)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one run: its exit code, its time, what it printed."""

    name: str
    seconds: float
    found: dict[str, Any] | None
    """The JSON that the command printed; None if it failed."""
    error: str = ""
    exit_code: int = 0


def run_all(
    commands: Mapping[str, Sequence[str]], limits: Limits, told: Callable[[int, str, Ended | None], None]
) -> list[Ended]:
    """Run `penstock …` for each name; `told` hears the number and name of each begun, and how each ended."""
    until_s = time.monotonic() + limits.all_s
    ended: list[Ended] = []
    for number, (name, arguments) in enumerate(commands.items()):
        left_s = until_s - time.monotonic()
        told(number, name, None)
        if left_s <= 0:
            one = Ended(name, 0.0, None, f"not run: the {limits.all_s} s for all runs were over", LATE)
        else:
            one = run(name, arguments, within_s=min(left_s, limits.one_s))
        ended.append(one)
        told(number + 1, name, one)
    return ended


def run(name: str, arguments: Sequence[str], *, within_s: float) -> Ended:
    """Run one command with `--json`, and return what it said."""
    start_s = time.monotonic()
    with subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-m", "penstock", *arguments, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        late = False
        try:
            said, complained = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            late = True
            said, complained = _stopped(process)
        except BaseException:  # interrupted ourselves
            _stopped(process)
            raise
    seconds = time.monotonic() - start_s
    if late:
        return Ended(name, seconds, None, f"stopped after {seconds:.0f} s, which is too long", LATE)
    return _ended(name, seconds, process.returncode, said, complained)


def _stopped(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Interrupt a run; kill what is left of it when it does not end by itself."""
    process.send_signal(signal.SIGINT)
    try:
        found = process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        found = ("", "")
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)  # its session: also brokers that it did not stop
    process.wait()
    return found


def _ended(name: str, seconds: float, code: int, said: str, complained: str) -> Ended:
    try:
        found = json.loads(said)
    except ValueError:
        found = {}
    if code in (0, GoalMissed.exit_code) and "rows" in found:
        return Ended(name, seconds, found, exit_code=code)
    error = found.get("error", {}).get("message") or (complained.strip().splitlines() or [""])[-1]
    problem = error or f"ended with exit code {code} and said nothing"
    return Ended(name, seconds, None, problem, code if code > 0 else BUG)
