"""A project run by a process on a standalone master with two workers, and by one on a Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.spark.cluster.findings import Found

# With those of tests/spark/cluster: one cluster for all.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.xdist_group("spark-cluster"),
    pytest.mark.timeout(1_800),
]


def test_on_a_master_and_then_on_a_server_by_either_engine(on_master: Found, on_remote: Found) -> None:
    """Each run goes on where the one before, elsewhere, has ended."""
    (first,) = on_master["project"]
    assert first["control"] == {"allocation": 1, "reservations": 1}
    assert (first["read"], first["reported"]) == (200, 200)
    second, third = on_remote["project"]
    assert (second["read"], second["reported"]) == (100, 300)
    assert (third["read"], third["reported"]) == (0, 300)
    assert "allocation" not in second["control"] | third["control"], "polls are the same"
    assert first["gold"]["allocation"]
    assert first["gold"]["allocation"] == second["gold"]["allocation"]
    assert second["gold"] == third["gold"], "either engine makes the same of what is in the tables"
