"""Prints the result of `penstock allocate`."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from penstock.cli.terminal import MARKS, escape, out, print_table
from penstock.core.channels.allocation.factors import GOALS
from penstock.errors import counted
from penstock.model.instant import SECOND_US, duration

if TYPE_CHECKING:
    from penstock.core.channels.allocation import Allocation, Scheme
    from penstock.pipeline.jobs.allocation import Allocated

SHOWN_HOSTS = 5


@dataclass(frozen=True, slots=True)
class AllocationSummary:
    """Figures of an allocation, by either engine."""

    scheme: Scheme
    channels: int
    tau_us: int
    by_cost: bool
    load: float
    polls: float
    budget: float | None
    target_us: int | None
    mean_delay_us: float
    mean_delay_per_update_us: float | None
    """None if update intervals are not known."""
    price: float
    host_prices: dict[str, float]
    hosts_over: list[str]
    intervals_us: list[int]
    """Shortest, quartiles, longest."""
    met: bool
    out: tuple[str, int] | None
    """Folder and version of the control table that was written."""

    @staticmethod
    def of(
        found: Allocation | Allocated,
        *,
        scheme: Scheme,
        channels: int,
        intervals_us: list[int],
        tau_us: int,
        by_cost: bool,
        per_update: bool,
        out: tuple[str, int] | None,
    ) -> AllocationSummary:
        """Make a summary of what a solver returns."""
        return AllocationSummary(
            scheme=scheme,
            channels=channels,
            tau_us=tau_us,
            by_cost=by_cost,
            load=found.load,
            polls=found.polls,
            budget=found.budget,
            target_us=found.target_us,
            mean_delay_us=found.mean_delay_us,
            mean_delay_per_update_us=found.mean_delay_per_update_us if per_update else None,
            price=found.price,
            host_prices=found.host_prices,
            hosts_over=found.hosts_over,
            intervals_us=intervals_us,
            met=found.met,
            out=out,
        )

    @property
    def missed(self) -> str:
        """Return warnings: limits that could not be kept, and what to do."""
        if self.hosts_over:
            return (
                f"{len(self.hosts_over)} hosts are beyond their limit even with the longest interval, "
                f"'{self.hosts_over[0]}' among them: raise --max or --host-limit"
            )
        if self.target_us is not None:
            return (
                f"a mean delay of {duration(self.target_us)} cannot be reached, {_delay(self.mean_delay_us)} "
                "is the least: lower --min or raise --host-limit"
            )
        return (
            f"the load is {self.load:,.0f} even with the longest interval, the budget "
            f"{self.budget or 0:,.0f}: raise --max or --budget"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that `penstock allocate --json` prints."""
        per_update = self.mean_delay_per_update_us
        names = ("least", "p25", "median", "p75", "most")
        return {
            "scheme": self.scheme.value,
            "channels": self.channels,
            "tau_s": self.tau_us / SECOND_US,
            "unit": "cost" if self.by_cost else "polls",
            "budget": self.budget,
            "target_s": None if self.target_us is None else self.target_us / SECOND_US,
            "load": self.load,
            "load_per_channel": self.load / self.channels,
            "polls": self.polls,
            "mean_delay_s": self.mean_delay_us / SECOND_US,
            "mean_delay_per_update_s": None if per_update is None else per_update / SECOND_US,
            "price": self.price,
            "hosts_limited": len(self.host_prices),
            "hosts_over": self.hosts_over,
            "interval_s": {
                name: value / SECOND_US for name, value in zip(names, self.intervals_us, strict=True)
            },
            "met": self.met,
            "missed": "" if self.met else self.missed,
            "out": None if self.out is None else {"folder": self.out[0], "version": self.out[1]},
        }


def show(found: AllocationSummary, *, seconds: float) -> None:
    """Print the allocation as a table."""
    unit = "cost" if found.by_cost else "polls"
    tau = duration(found.tau_us)
    spare = ", more than bounds and limits let it use" if found.price == 0 else ""
    bound = f"at most {found.budget:,.0f}{spare}" if found.budget is not None else "the least for the target"
    rows = [
        ("scheme", f"{found.scheme.value}: {GOALS[found.scheme].says}"),
        ("load", f"{found.load:,.0f} {unit} per {tau} ({bound})"),
        ("per channel", f"{found.load / found.channels:,.2f} {unit} per {tau}"),
        ("polls per second", f"{found.polls * SECOND_US / found.tau_us:,.2f}"),
        ("mean delay per subscription", _delay(found.mean_delay_us)),
    ]
    if found.target_us is not None:
        rows[-1] = (rows[-1][0], f"{rows[-1][1]} (at most {duration(found.target_us)})")
    if found.mean_delay_per_update_us is not None:
        rows.append(("mean delay per delivered update", _delay(found.mean_delay_per_update_us)))
    shown = " · ".join(duration(value) for value in found.intervals_us)
    rows.append(("intervals: least · quartiles · most", shown))
    if found.host_prices:
        dearest = sorted(found.host_prices, key=lambda host: -found.host_prices[host])[:SHOWN_HOSTS]
        more = ", …" if len(found.host_prices) > SHOWN_HOSTS else ""
        rows.append(("hosts at their limit", f"{len(found.host_prices):,}: {', '.join(dearest)}{more}"))
    table = [(escape(name), escape(value)) for name, value in rows]
    table.append(("kept", MARKS[found.met]))
    print_table(counted(found.channels, "channel"), ("what", "value"), table, markup=True)
    if found.out is not None:
        out.print(f"written: version {found.out[1]} of {escape(found.out[0])}")
    out.print(f"{seconds:.1f} s")


def _delay(delay_us: float) -> str:
    return "nobody waits" if isnan(delay_us) else duration(round(delay_us))
