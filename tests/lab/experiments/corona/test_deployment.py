"""The deployment on 60 nodes: rows fail for methods that are slower, or poll more than legacy clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock_lab.experiments.corona import deployment

LEGACY, OURS, PAPER, BASE4, LOAD = range(5)


@dataclass
class Method:
    """A run of one method as far as rows look at it."""

    per_subscription_s: float
    settled_load: float = 20.0
    empty_cells: int = 0
    first_load: float = 20.0
    """Load of each half hour but the last."""

    def load(self, _: int, until_us: int) -> float:
        return self.settled_load if until_us >= deployment.SETTING.length_us else self.first_load


def failing(**other: Method) -> list[int]:
    found: dict[str, Any] = {
        "Legacy-RSS": [other.get("legacy", Method(900.0))],
        "Corona-Lite": [other.get("lite", Method(46.0))],
        "Corona-Lite, base 4, solved centrally": [Method(57.0)],
        "ours, lite": [other.get("ours", Method(40.0))],
    }
    return [number for number, row in enumerate(deployment._rows(found)) if row.ok is False]


def test_rows_fail_for_what_is_slower_or_polls_more() -> None:
    assert failing() == []
    assert failing(legacy=Method(950.0)) == [LEGACY]
    assert failing(ours=Method(46.0)) == [OURS]
    assert failing(ours=Method(40.0, settled_load=21.0)) == [OURS, LOAD]
    assert failing(ours=Method(40.0, first_load=21.0)) == [LOAD], "one half hour is enough"
    assert failing(lite=Method(168.0)) == [PAPER]
    assert failing(lite=Method(30.0)) == [PAPER], "better than the paper is not what it found"
