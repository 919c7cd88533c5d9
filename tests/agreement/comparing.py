"""When two engines' queues are the same: exactly, but for rounding in sums and noise in sketches."""

from __future__ import annotations

from math import isclose, isnan
from typing import TYPE_CHECKING

from penstock.model import AttributeSummary, Digest
from penstock.model.sketches import distinct_estimate, quantile_estimates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model import Item


def assert_same(ours: Sequence[Item], theirs: Sequence[Item]) -> None:
    """Fail with the first difference."""
    assert [type(item) for item in ours] == [type(item) for item in theirs]
    for place, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(a, Digest) and isinstance(b, Digest):
            assert_same_digest(a, b)
        else:
            assert a == b, f"item {place}"


def assert_same_digest(a: Digest, b: Digest) -> None:
    """Fail with the first field that differs."""
    for field in ("count", "from_us", "to_us", "seq_first", "seq_last", "causes"):
        assert getattr(a, field) == getattr(b, field), field
    assert [name for name, _ in a.attributes] == [name for name, _ in b.attributes]
    for (name, x), (_, y) in zip(a.attributes, b.attributes, strict=True):
        assert same_summary(x, y), (name, x, y)


ROUNDED = {"total", "squares"}
SKETCHES = {"distinct", "quantiles"}


def same_summary(a: AttributeSummary, b: AttributeSummary) -> bool:
    """Whether every field agrees; one that is added later is compared exactly unless it is named above."""
    exact = [name for name in AttributeSummary.__struct_fields__ if name not in ROUNDED | SKETCHES]
    scale = max(abs(found) for one in (a, b) for found in (one.total, one.least or 0.0, one.most or 0.0))
    return (
        all(getattr(a, name) == getattr(b, name) for name in exact)
        and close(a.total, b.total, scale)
        and (a.squares is None) is (b.squares is None)
        and close(a.squares or 0.0, b.squares or 0.0, scale * scale)
        and same_sketches(a, b)
    )


def close(a: float, b: float, scale: float) -> bool:
    """Equal to rounding, measured against the size of what was added up; overflow counts as equal."""
    if scale > 1e300:  # partial sums may overflow in one order and not in another
        return True
    if isnan(a) or isnan(b):
        return isnan(a) and isnan(b)
    return isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * max(scale, 1.0))


def same_sketches(a: AttributeSummary, b: AttributeSummary) -> bool:
    if (a.distinct is None, a.quantiles is None) != (b.distinct is None, b.quantiles is None):
        return False
    if a.distinct is not None and b.distinct is not None:
        x, y = distinct_estimate(a.distinct), distinct_estimate(b.distinct)
        if not isclose(x, y, rel_tol=0.05, abs_tol=0.5):
            return False
    if a.quantiles is not None and b.quantiles is not None:
        return quantile_estimates(a.quantiles) == quantile_estimates(b.quantiles)
    return True
