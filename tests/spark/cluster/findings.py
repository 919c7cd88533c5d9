"""What the modules of this folder found on a standalone cluster and on a Connect server; see test_cluster."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.client import StreamReader, StreamWriter
from tests.kit.jvm import OPTIONS
from tests.kit.stream_programs import running
from tests.spark.cluster.servers import HOST, connect_server, standalone

if TYPE_CHECKING:
    from pathlib import Path

Found = dict[str, Any]
MASTER = {  # settings that suit so small a cluster
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": OPTIONS,
}


def on_master(folder: Path, project: Path) -> Found:
    """Findings of the program on a standalone master with two workers; `project` is of a pipeline."""
    given = [*(f"--conf={name}={value}" for name, value in MASTER.items()), "pyspark-shell"]
    with standalone(folder / "standalone") as address:
        return _run("master", address, folder, project, PYSPARK_SUBMIT_ARGS=shlex.join(given))


def on_remote(folder: Path, project: Path) -> Found:
    """Findings of the program on a Spark Connect server."""
    with connect_server(folder / "connect") as address:
        return _run("remote", address, folder, project)


def _run(kind: str, address: str, folder: Path, project: Path, **environment: str) -> Found:
    """Run the modules of this folder in one program; returns their findings, and what they wrote."""
    # The first one opens the session, and tables need a catalog that no other asks for.
    modules = ["project", "job", "streams", "commands"]
    if kind == "remote":
        modules.append("graph")  # declarative pipelines need Connect
    for module in modules:
        (folder / module).mkdir()
    (folder / "project" / "where").write_text(str(project))
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
