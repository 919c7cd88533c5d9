"""Two sizes of property test: a score of examples in the fast run, hundreds in the full one."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The machine that runs this may be busy with other work: time is judged by benchmarks, never here.
settings.register_profile(
    "fast",
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "full", max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("PENSTOCK_TESTS", "fast"))
