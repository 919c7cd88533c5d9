"""The transforms, and the commands, on a standalone cluster of two workers and on a Spark Connect server.

One program for each: a process holds either kind of session, and one session.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.client import StreamReader, StreamWriter
from tests.kit.jvm import OPTIONS
from tests.kit.stream_programs import running
from tests.kit.streaming_reference import reference
from tests.spark.cluster.job import CAPACITY, POLICY
from tests.spark.cluster.servers import HOST, connect_server, standalone

if TYPE_CHECKING:
    from pathlib import Path

# One cluster, not one for each worker. The group "cluster" is of our own nodes, which run beside it.
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("spark-cluster"),
    pytest.mark.timeout(1_800),  # seconds; a fixture runs everything, on a busy machine either
]


Found = dict[str, Any]
MASTER = {  # settings that suit so small a cluster
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": OPTIONS,
}


@pytest.fixture(scope="module")
def on_master(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Findings of the program on a standalone master with two workers."""
    folder = tmp_path_factory.mktemp("master")
    given = [*(f"--conf={name}={value}" for name, value in MASTER.items()), "pyspark-shell"]
    with standalone(tmp_path_factory.mktemp("standalone")) as address:
        return run("master", address, folder, PYSPARK_SUBMIT_ARGS=shlex.join(given))


@pytest.fixture(scope="module")
def on_remote(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Findings of the program on a Spark Connect server."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        return run("remote", address, tmp_path_factory.mktemp("remote"))


def run(kind: str, address: str, folder: Path, **environment: str) -> Found:
    """Run the modules of this folder in one program; returns their findings, and what they wrote."""
    modules = ["job", "streams", "commands"]
    if kind == "remote":
        modules.append("graph")  # declarative pipelines need Connect
    for module in modules:
        (folder / module).mkdir()
    _input(folder / "job" / "in")
    with running(hosts=2) as node:
        (folder / "streams" / "url").write_text(node.url)
        with StreamWriter(node.url, "s", "w") as writer:
            for number in range(300):
                writer.write("a/b", str(number))
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster.program", kind, address, str(folder), *modules],
            capture_output=True,
            text=True,
            timeout=1_500,
            check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST, **environment},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        with StreamReader(node.url, "t", start="earliest", until="end") as reader:
            written = [(message.topic, int(message.payload)) for message in reader]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert isinstance(found, dict)
    return {**found, "folder": folder, "written": written}


def _input(folder: Path) -> None:
    """The two files of the stream that the job packs."""
    folder.mkdir()
    for number in range(2):
        rows = [
            {"room": room, "ts": 100 * number + spot, "seq": spot, "v": float(spot * 7 % 50)}
            for room in ("a", "b")
            for spot in range(30)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{number}.parquet")


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
    """Check what each command says of the same 600 events."""
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
