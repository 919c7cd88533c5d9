"""A cluster of nodes on this machine: processes that can be killed, frozen and started again."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from penstock.errors import NodeError
from penstock_lab.rigs.brokers import OURS, Broker
from penstock_lab.rigs.ports import HOST, free_port
from penstock_lab.rigs.process import Process

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MEET_S: Final = 300.0
"""Longest wait until all nodes know each other, on a machine that is busy with other things."""
ASK_S: Final = 60.0
"""Longest wait for the answer of a node."""
LOOK_S: Final = 0.05


class ClusterNode:
    """One node of a cluster, always with the same name, ports and data folder."""

    def __init__(self, folder: Path, name: str, *, join: Iterable[int] = (), **config: Any) -> None:
        """`join` are ports of other nodes, or of relays to them; `config` has further settings."""
        self.name = name
        self.port, self.fabric, self._http = free_port(), free_port(), free_port()
        self.direct = free_port()
        """Port for direct connections of other nodes."""
        settings: dict[str, Any] = {"data": "", "log": "info", "sys_interval_s": 0, **config}
        settings["listeners"] = [{"port": self.port}]
        settings["http"] = {"port": self._http}
        settings["cluster"] = {
            "name": "lab",
            "node": name,
            "listen": f"tcp/{HOST}:{self.fabric}",
            "direct": f"tcp/{HOST}:{self.direct}",
            "join": [f"tcp/{HOST}:{port}" for port in join],
        } | settings.get("cluster", {})
        path = folder / f"{name}.json"
        path.write_text(json.dumps(settings))  # JSON is YAML
        self.process = Process(
            name, ["penstock", "up", "--json", "--config", str(path)], folder / f"{name}.log"
        )

    @property
    def url(self) -> str:
        """URL for MQTT clients."""
        return f"mqtt://{HOST}:{self.port}"

    @property
    def http(self) -> str:
        """URL of the HTTP API."""
        return f"http://{HOST}:{self._http}/"

    @property
    def broker(self) -> Broker:
        """The node as a broker whose cost can be measured."""
        return Broker(OURS, self.port, self.process.pid, self.http)

    def status(self) -> dict[str, Any]:
        """Return the cluster as this node sees it; NodeError if it does not answer."""
        found: dict[str, Any] = self._get("cluster")["status"]
        return found

    def abandoned(self) -> int:
        """Return how many events this node tells as abandoned: on links, of sessions that moved or ended."""
        status = self.status()
        own: int = self._get("status")["account"]["abandoned"]
        moved: int = status["events"]["abandoned"] + status["sessions"]["abandoned"]
        return own + moved

    def _get(self, what: str) -> dict[str, Any]:
        try:
            with urlopen(f"{self.http}api/v1/{what}", timeout=ASK_S) as answer:  # noqa: S310  # its own
                found: dict[str, Any] = json.load(answer)
        except (URLError, TimeoutError, ConnectionError) as error:
            raise NodeError(f"node {self.name} does not answer: {error}") from None
        return found

    def knows(self) -> int:
        """Return how many other nodes this one has met and not lost."""
        return sum(row["state"] == "here" for row in self.status()["members"])


def await_met(nodes: Sequence[ClusterNode], *, within_s: float = MEET_S) -> None:
    """Wait until all these nodes know each other; NodeError if that takes too long."""
    until_s = time.monotonic() + within_s
    for node in nodes:
        while (known := node.knows()) < len(nodes) - 1:
            if time.monotonic() > until_s:
                raise NodeError(
                    f"node {node.name} knows {known} of {len(nodes) - 1} nodes: {node.process.said()}"
                )
            time.sleep(LOOK_S)


@contextmanager
def cluster(count: int, *, on_disk: bool = False, **config: Any) -> Iterator[list[ClusterNode]]:
    """Run nodes that know each other for the length of the block; the others join the first.

    `on_disk`: each has a data folder.
    """
    with TemporaryDirectory(prefix="penstock-cluster-") as text:
        folder = Path(text)
        nodes: list[ClusterNode] = []
        try:
            for number in range(1, count + 1):
                seed = [nodes[0].fabric] if nodes else []
                name = f"n{number}"
                store = {"data": str(folder / name)} if on_disk else {}
                nodes.append(ClusterNode(folder, name, join=seed, **store, **config))
                nodes[-1].process.start()
            await_met(nodes)
            yield nodes
        finally:
            for node in nodes:
                node.process.end()
