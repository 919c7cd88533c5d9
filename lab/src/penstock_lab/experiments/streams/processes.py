"""A tree of nodes and its clients as processes that can be killed and started again where they were."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock_lab.experiments.streams.programs import STREAM
from penstock_lab.rigs.ports import HOST, free_port
from penstock_lab.rigs.process import Process

if TYPE_CHECKING:
    from pathlib import Path

RETAIN_S: Final = 1.0
"""Retention of the log: short, so that a node that trims too early is found out."""
PER_S: Final = 150
"""Messages per second of each publisher."""


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
