"""Two sizes of property test: a score of examples in the fast run, hundreds in the full one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders that a run leaves out by their marker are not even imported."""
    name = collection_path.name
    left_out = name in ("spark", "e2e") and f"not {name}" in config.option.markexpr
    return True if left_out and collection_path.is_dir() else None
