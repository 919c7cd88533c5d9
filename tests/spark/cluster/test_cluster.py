"""The transforms, and the commands, on a standalone cluster of two workers and on a Spark Connect server.

Each runs in a process of its own: one holds either kind of session, and one session.
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
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cluster")]  # one cluster, not one for each worker


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("standalone")) as address:
        yield address


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


def run(module: str, kind: str, address: str, folder: Path) -> dict[str, Any]:
    """What a module of this folder prints, as a program with settings that suit so small a cluster."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": OPTIONS,
    }
    given = [f"--conf={name}={value}" for name, value in settings.items()]
    done = subprocess.run(
        [sys.executable, "-m", f"tests.spark.cluster.{module}", kind, address, str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            **({"PYSPARK_SUBMIT_ARGS": f"{shlex.join(given)} pyspark-shell"} if kind == "master" else {}),
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert isinstance(found, dict)
    return found


def job(kind: str, address: str, folder: Path) -> dict[str, Any]:
    """Run the job there, on a stream of two files, and check all but where it ran."""
    (folder / "in").mkdir()
    for number in range(2):
        rows = [
            {"room": room, "ts": 100 * number + spot, "seq": spot, "v": float(spot * 7 % 50)}
            for room in ("a", "b")
            for spot in range(30)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / "in" / f"{number}.parquet")
    found = run("job", kind, address, folder)
    assert found["queue"] == [8, 8.0, 1, None]
    assert found["effects"] == [["delta", 11, 5], ["within", 6, 2], ["latest", 4, 2]]
    assert found["stream"] == reference(folder / "checkpoint", POLICY, CAPACITY)
    assert any(isinstance(item, list) for item in found["stream"]["a"])
    assert found["held"] == 0
    return found


def test_a_standalone_cluster_of_two_workers(master: str, tmp_path: Path) -> None:
    assert job("master", master, tmp_path)["places"] == 2


def test_a_connect_server(remote: str, tmp_path: Path) -> None:
    assert job("remote", remote, tmp_path)["places"] == 1


def test_every_transform_is_a_table_of_a_declarative_pipeline(remote: str, tmp_path: Path) -> None:
    """The graph is resolved by Spark itself, which refuses a flow that has something analysed."""
    found = run("graph", "remote", remote, tmp_path)
    assert len(found["tables"]) == 10
    assert "FAILED" not in " ".join(found["messages"])


def commands(kind: str, address: str, folder: Path) -> dict[str, Any]:
    """Run the commands there, and check what each says of the same 600 events."""
    found = run("commands", kind, address, folder)
    assert (found["generate"]["events"], found["generate"]["sources"]) == (600, 3)
    assert found["backtest"]["stream"]["queues"] == 3
    assert list(found["backtest"]["candidates"]) == ["vitals", "drop-newest", "drop-oldest"]
    for account in found["backtest"]["candidates"].values():
        assert account["conserved"] is True
        assert account["accepted"] == 600
        assert account["digested"] > 0
    assert found["advise"]["met"] is True
    schema, _, policy = (folder / "policy.yaml").read_text().partition("\n")
    assert schema == "# yaml-language-server: $schema=policy.schema.json"
    assert found["advise"]["policy"] == policy
    shed = found["shed"]
    assert shed["conserved"] is True
    assert shed["events_in"] == 600 == shed["events_out"] + shed["digested"] + shed["held_after"]
    assert shed["digests"] > 0
    assert (folder / "report" / "backtest.html").exists()
    return found


def test_the_commands_do_the_same_on_both(master: str, remote: str, tmp_path: Path) -> None:
    there = {}
    for kind, address in (("master", master), ("remote", remote)):
        folder = tmp_path / kind
        folder.mkdir()
        there[kind] = commands(kind, address, folder)
    one, other = there["master"], there["remote"]
    assert one["backtest"]["candidates"] == other["backtest"]["candidates"]
    assert one["advise"]["levels"] == other["advise"]["levels"]
    assert one["advise"]["backtest"] == other["advise"]["backtest"]


def test_streams_of_a_node_on_both(master: str, remote: str, tmp_path: Path) -> None:
    for kind, address in (("master", master), ("remote", remote)):
        folder = tmp_path / kind
        folder.mkdir()
        with running(hosts=2) as node:
            (folder / "url").write_text(node.url)
            with StreamWriter(node.url, "s", "w") as writer:
                for number in range(300):
                    writer.write("a/b", str(number))
            assert run("streams", kind, address, folder) == {"rows": 300, "parts": 3}
            with StreamReader(node.url, "t", start="earliest", until="end") as reader:
                found = [(message.topic, int(message.payload)) for message in reader]
        assert found == [(topic, number) for topic in ("t/b", "t/c") for number in range(300)]
