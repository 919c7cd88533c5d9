"""A tree of nodes and its clients as processes that can be killed and started again where they were."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import NodeError
from penstock_lab.experiments.streams.programs import STREAM
from penstock_lab.rigs.local_node import stop
from penstock_lab.rigs.ports import HOST, free_port

if TYPE_CHECKING:
    from pathlib import Path

READY_S: Final = 300.0
"""Longest wait for a process to be ready; one that ends early is noticed at once."""
RETAIN_S: Final = 1.0
"""Retention of the log: short, so that a node that trims too early is found out."""
PER_S: Final = 150
"""Messages per second of each publisher."""


class Process:
    """A process that prints a line when it is ready."""

    def __init__(self, name: str, command: list[str], log: Path, *, alone: bool = True) -> None:
        self.name = name
        self.kills = 0
        self._alone = alone
        """Whether the process is killed alone; otherwise with its process group."""
        self._command = command
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process and wait until it is ready; NodeError if it ends or prints nothing."""
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(  # noqa: S603  # our own commands
                [sys.executable, "-m", *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=not self._alone,
            )
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], READY_S)[0]:
            raise NodeError(f"{self.name} printed nothing for {READY_S:g} s: {self.said()}")
        if "ready" not in self._process.stdout.readline():
            raise NodeError(f"{self.name} did not start: {self.said()}")

    def kill(self) -> None:
        """Kill the process with SIGKILL, as a crash would."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise NodeError(f"{self.name} ended before it was killed: {self.said()}")
        self._kill()
        self.kills += 1
        self._gone()

    def finish(self, seconds: float) -> bool:
        """Ask the process to finish; return whether it did."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("stop\n")
            self._process.stdin.flush()
        try:
            return self._process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False

    def end(self) -> None:
        """End the process, whatever its state."""
        if self._process is not None:
            if self._process.poll() is None:
                if self._alone:
                    stop(self._process)
                else:
                    self._kill()
            self._gone()

    def _kill(self) -> None:
        assert self._process is not None
        if self._alone:
            self._process.kill()
        else:
            os.killpg(self._process.pid, signal.SIGKILL)

    def said(self) -> str:
        """Return the end of the process's log."""
        return self._log.read_text(errors="replace")[-600:].strip() if self._log.exists() else ""

    def _gone(self) -> None:
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process = None


class KillTree:
    """PB, IB and SB in a row; publishers and a reader at PB, subscribers at SB."""

    def __init__(self, folder: Path, *, nats: str = "", spark: bool = False) -> None:
        self.folder = folder
        names = [f"{node} {kind}" for node in ("pb", "ib", "sb") for kind in ("mqtt", "streams")]
        self._ports = {name: free_port() for name in names}
        log = {"log": "nats", "nats": {"servers": [nats]}} if nats else {}
        hosted = [{"name": STREAM, "topics": ["kill/#"], "retain_s": RETAIN_S}]
        nodes: dict[str, dict[str, Any]] = {
            "pb": {"host": hosted, "neighbours": [{"name": "ib"}], **log},
            "ib": {"neighbours": [self._called("pb"), {"name": "sb"}]},
            "sb": {"neighbours": [self._called("ib")]},
        }
        self.nodes = {name: self._node(name, streams) for name, streams in nodes.items()}
        pb = {"url": f"mqtt://{HOST}:{self._ports['pb mqtt']}", "per_s": PER_S}
        listener = {"url": f"stream://{HOST}:{self._ports['pb streams']}", "per_s": PER_S}
        sb = {"url": f"mqtt://{HOST}:{self._ports['sb mqtt']}"}
        self.publishers = {
            "mqtt": self._client("publish-mqtt", "publisher mqtt", pb),
            "writer": self._client("publish-writer", "publisher writer", listener),
        }
        self.subscribers = {
            "QoS 1": self._client("subscribe", "QoS 1", {**sb, "client_id": "one", "qos": 1}),
            "QoS 2": self._client("subscribe", "QoS 2", {**sb, "client_id": "two", "qos": 2}),
            "reader": self._client("read", "reader", listener),
        }
        if spark:
            told = {"file": str(self.file("spark")), "checkpoint": str(folder / "checkpoint"), **listener}
            command = ["penstock_lab.experiments.streams.spark_program", json.dumps(told)]
            self.subscribers["spark"] = Process("spark", command, folder / "spark.log", alone=False)

    def file(self, name: str) -> Path:
        """Return the path of the file in which a client records what it processed."""
        return self.folder / f"{name}.txt"

    def end(self) -> None:
        """End all processes."""
        for process in (*self.publishers.values(), *self.subscribers.values(), *self.nodes.values()):
            process.end()

    def _called(self, name: str) -> dict[str, Any]:
        return {"name": name, "host": HOST, "port": self._ports[f"{name} streams"]}

    def _node(self, name: str, streams: dict[str, Any]) -> Process:
        config = {
            "data": str(self.folder / name),
            "log": "info",
            "sys_interval_s": 0,
            "http": {"enabled": False},
            "listeners": [{"port": self._ports[f"{name} mqtt"]}],
            "streams": {
                "node": name,
                "listen": {"enabled": True, "port": self._ports[f"{name} streams"]},
                **streams,
            },
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML
        return Process(name, ["penstock", "up", "--json", "--config", str(path)], self.folder / f"{name}.log")

    def _client(self, role: str, name: str, told: dict[str, Any]) -> Process:
        command = [
            "penstock_lab.experiments.streams.programs",
            role,
            json.dumps({"file": str(self.file(name)), **told}),
        ]
        return Process(name, command, self.folder / f"{name}.log")
