"""A standalone master with two workers and a Spark Connect server on loopback: real processes, free ports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from penstock_lab.rigs.ports import free_port
from tests.kit.jvm import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    port = free_port()
    address = f"spark://{HOST}:{port}"
    here = ("--host", HOST, "--webui-port", "0")
    master = ("org.apache.spark.deploy.master.Master", *here, "--port", str(port))
    with ExitStack() as stack:
        stack.enter_context(_process(folder / "master", *master, said="I have been elected leader"))
        for number in range(2):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}"))
            worker = ("org.apache.spark.deploy.worker.Worker", *here, *size, address)
            said = "Successfully registered with master"
            stack.enter_context(_process(folder / f"worker{number}", *worker, said=said))
        yield address


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server of two local cores."""
    port = free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = ("org.apache.spark.deploy.SparkSubmit", *given, "--class", server, "spark-internal")
    with _process(folder / "connect", *command, said="Spark Connect server started at"):
        yield f"sc://{HOST}:{port}"


@contextmanager
def _process(log: Path, *command: str, said: str) -> Iterator[None]:
    """A class of Spark in a JVM of its own, ready once its log says so; ended by its process group."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": OPTIONS,  # of master and workers
        "PYSPARK_PYTHON": sys.executable,
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 300
        while said not in log.read_text():
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{command[0]} does not come up: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=300)
