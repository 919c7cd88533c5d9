"""`penstock bench cluster` with little of everything: all contestants run, and no message is lost."""

from __future__ import annotations

import os
import shutil

import pytest

from penstock_lab.bench.cluster import fan_out, growth, one_hop

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("cluster")]

PLACES = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"

LITTLE = one_hop.ClusterEffort(
    run_s=0.01,
    rounds=1,
    paced_s=0.05,
    rounds_paced=1,
    growth=growth.GrowthEffort((1, 2), 0.1, 0.01, 1, 1_000),
    fan_out=fan_out.FanOutEffort(3, 10, 20),
)


@pytest.mark.skipif(
    shutil.which("mosquitto", path=PLACES) is None or shutil.which("nats-server", path=PLACES) is None,
    reason="mosquitto or nats-server is not installed",
)
def test_the_benchmark_has_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_hop, "QUICK", LITTLE)
    outcome = one_hop.measure(quick=True, progress=lambda *_: None)
    rows = {row.name: row for row in outcome.rows}
    judged = {name: row.goal for name, row in rows.items() if row.goal is not None}
    bridge = next(row.rival for row in outcome.rows if row.rival.startswith("bridge of mosquitto 2"))
    links = "3 nodes, 10 subscribers at each: bytes of a message on a link"
    assert judged == {
        f"one hop, QoS 0, 1 → 1, beside {bridge}": one_hop.THROUGHPUT,
        "one hop, latency at 1,000 msg/s, p50, beside one node": one_hop.LATENCY,
        links: fan_out.SAME,
    }
    assert {row.rival.partition(" ")[0] for row in outcome.rows} == {"", "bridge", "NATS", "one"}
    assert all("fails" in row.told for row in outcome.rows if row.goal is not None)
    assert all(row.value > 0 for row in outcome.rows if "memory for each" not in row.name)
    # A subscriber more or less is nothing to a link: ten copies of a message would show. On a busy machine
    # several messages cross together, which costs less for each: the goal itself is for a quiet one.
    assert (rows[links].ratio or 0) > 0.5, rows[links]
    assert 100 < rows[links].value < 400
