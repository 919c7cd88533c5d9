"""The transforms, and the commands, on a standalone cluster of two workers and on a Spark Connect server.

One program for each: a process holds either kind of session, and one session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.streaming_reference import reference
from tests.spark.cluster.job import CAPACITY, POLICY

if TYPE_CHECKING:
    from tests.spark.cluster.findings import Found

# One cluster, not one for each worker. The group "cluster" is of our own nodes, which run beside it.
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("spark-cluster"),
    pytest.mark.timeout(1_800),  # seconds; a fixture runs everything, on a busy machine either
]


def packed(found: Found) -> Found:
    """Check all that the job found but where it ran."""
    job: Found = found["job"]
    assert job["queue"] == [8, 8.0, 1, None]
    assert job["effects"] == [["delta", 11, 5], ["within", 6, 2], ["latest", 4, 2]]
    assert job["stream"] == reference(found["folder"] / "job" / "checkpoint", POLICY, CAPACITY)
    assert any(isinstance(item, list) for item in job["stream"]["a"])
    assert job["held"] == 0
    return job


def test_a_standalone_cluster_of_two_workers(on_master: Found) -> None:
    assert packed(on_master)["places"] == 2


def test_a_connect_server(on_remote: Found) -> None:
    assert packed(on_remote)["places"] == 1


def test_every_transform_is_a_table_of_a_declarative_pipeline(on_remote: Found) -> None:
    """The graph is resolved by Spark itself, which refuses a flow that has something analysed."""
    graph = on_remote["graph"]
    assert len(graph["tables"]) == 10
    assert "FAILED" not in " ".join(graph["messages"])


def commands(found: Found) -> Found:
    """Check what each command says of the same 600 events, and of the polls of three channels."""
    folder = found["folder"] / "commands"
    told: Found = found["commands"]
    assert (told["generate"]["events"], told["generate"]["sources"]) == (600, 3)
    assert told["backtest"]["stream"]["queues"] == 3
    assert list(told["backtest"]["candidates"]) == ["vitals", "drop-newest", "drop-oldest"]
    for account in told["backtest"]["candidates"].values():
        assert account["conserved"] is True
        assert account["accepted"] == 600
        assert account["digested"] > 0
    assert told["advise"]["met"] is True
    schema, _, policy = (folder / "policy.yaml").read_text().partition("\n")
    assert schema == "# yaml-language-server: $schema=policy.schema.json"
    assert told["advise"]["policy"] == policy
    shed = told["shed"]
    assert shed["conserved"] is True
    assert shed["events_in"] == 600 == shed["events_out"] + shed["digested"] + shed["held_after"]
    assert shed["digests"] > 0
    assert (folder / "report" / "backtest.html").exists()
    assert (told["allocate"]["channels"], told["allocate"]["out"]["version"]) == (3, 1)
    return told


def test_the_commands_do_the_same_on_both(on_master: Found, on_remote: Found) -> None:
    one, other = commands(on_master), commands(on_remote)
    assert one["backtest"]["candidates"] == other["backtest"]["candidates"]
    assert one["advise"]["levels"] == other["advise"]["levels"]
    assert one["advise"]["backtest"] == other["advise"]["backtest"]


def test_streams_of_a_node_on_both(on_master: Found, on_remote: Found) -> None:
    for found in (on_master, on_remote):
        assert found["streams"] == {"rows": 300, "parts": 3}
        assert found["written"] == [(topic, number) for topic in ("t/b", "t/c") for number in range(300)]
