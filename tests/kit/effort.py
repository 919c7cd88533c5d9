"""How much of a long sweep a run of the tests does.

`make test-long` runs every seed of a sweep, `make test` an eighth and `make test-fast` a sixteenth of them.
"""

from __future__ import annotations

import os

SIZE = os.environ.get("PENSTOCK_TESTS", "fast")
LONG = SIZE == "long"
_ONE_OF = {"long": 1, "full": 8, "fast": 16}[SIZE]


def seeds(first: int, count: int) -> range:
    """The seeds of a sweep that this run tries: the first ones, at least one."""
    return range(first, first + max(1, count // _ONE_OF))
