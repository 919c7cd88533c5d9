"""How much of a long sweep a run of the tests does.

`make test` runs a quarter of the seeds of each sweep, `make test-long` all of them.
"""

from __future__ import annotations

import os

LONG = os.environ.get("PENSTOCK_TESTS") == "long"


def seeds(first: int, count: int) -> range:
    """The seeds of a sweep: all of them in a long run, else the first quarter."""
    return range(first, first + (count if LONG else max(1, count // 4)))
