"""`penstock allocate` on Spark: from a node's logs to a table that a node loads.

`tests/spark/cluster` runs it by a Spark of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.node.store.control_table import load
from tests.kit.command import answer_here

if TYPE_CHECKING:
    from pathlib import Path

HOUR_US = 3_600_000_000


@pytest.mark.usefixtures("opened")
def test_logs_of_a_node_become_its_table(tmp_path: Path) -> None:
    urls = [
        f"https://{'big' if number < 6 else f'h{number}'}.example{number % 2}.org/{number}"
        for number in range(12)
    ]
    polls = [
        {
            "url": url,
            "ts": 10**15 + hour * HOUR_US,
            "status": 200,
            "changed": hour % (number + 1) == 0,
            "bytes": 5_000,
            "duration_us": 9,
            "error": "",
        }
        for number, url in enumerate(urls)
        for hour in range(50)
    ]
    subscriptions = [
        {"url": url, "who_kind": "mqtt", "ts": 1, "change": 1, "subscribers": 1 + number}
        for number, url in enumerate(urls)
    ]
    for name, rows in (("polls", polls), ("subscriptions", subscriptions)):
        (tmp_path / name).mkdir()
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / name / "part-0.parquet")
    found = answer_here(
        "allocate",
        "--polls",
        str(tmp_path / "polls"),
        "--subscriptions",
        str(tmp_path / "subscriptions"),
        "--scheme",
        "fair",
        "--host-limit",
        "20",
        "--out",
        str(tmp_path / "allocation"),
        "--master",
        "local[2]",
    )
    assert (found["channels"], found["scheme"], found["met"]) == (12, "fair", True)
    assert found["out"]["version"] == 1
    assert found["hosts_limited"] == 2
    loaded = load(
        tmp_path / "allocation", "allocation", {"url": "string", "interval_us": "int64", "host": "string"}
    )
    assert loaded is not None
    rows = loaded.table.to_pylist()
    assert {row["host"] for row in rows} == {"example0.org", "example1.org"}
    for host in ("example0.org", "example1.org"):
        polled = sum(1_800e6 / row["interval_us"] for row in rows if row["host"] == host)
        assert polled == pytest.approx(20, rel=1e-3)
