"""Amounts with units."""

from __future__ import annotations

import pytest

from penstock.node.config.amounts import quantity


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("10s", "s", 10),
        ("1.5 min", "s", 90),
        ("250ms", "s", 0.25),
        ("1MiB", "bytes", 1_048_576),
        ("1MB", "bytes", 1_000_000),
        ("10", "s", None),
        ("10 parsecs", "s", None),
        ("10s", "bytes", None),
        ("-1s", "s", None),
        ("1e3s", "s", None),
        ("10  s", "s", None),
    ],
)
def test_quantities(text: str, unit: str, amount: float | None) -> None:
    assert quantity(text, unit) == amount
