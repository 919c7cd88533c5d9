"""Three sizes of property test: 20 examples in the fast run, 100 in the full one, 200 in the long one."""

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
for name, examples in (("full", 100), ("long", 200)):
    settings.register_profile(
        name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(os.environ.get("PENSTOCK_TESTS", "fast"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests start first: workers share what is short when these are done."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders that a run leaves out by their marker are not even imported."""
    name = collection_path.name
    left_out = name in ("spark", "e2e") and f"not {name}" in config.option.markexpr
    return True if left_out and collection_path.is_dir() else None
