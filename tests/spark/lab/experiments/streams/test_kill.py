"""A Spark query that reads a stream, killed in turn with the node it reads from."""

from __future__ import annotations

import pytest

from penstock_lab.experiments.streams.kill import reproduce


@pytest.mark.long
def test_a_killed_query_reads_everything_once_and_in_order() -> None:
    outcome = reproduce(
        seed=3,
        quick=True,
        out=None,
        progress=lambda *_: None,
        rounds="2",
        spark="yes",
        victims=("pb", "spark"),
    )
    assert outcome.ok, outcome.as_json()["rows"]
    killed = {row["who"]: row["times"] for row in outcome.as_json()["tables"][0]["rows"]}
    assert killed == {"publisher node": "1", "Spark query": "1"}
