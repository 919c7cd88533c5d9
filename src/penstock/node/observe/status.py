"""The snapshot of a whole node, from which API, dashboard, metrics, $SYS and `penstock top` are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from penstock.core.slots.statistics import FlowStatistics
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.status import BrokerStatus
    from penstock.node.channels.status import ChannelsStatus
    from penstock.node.cluster.status import ClusterStatus
    from penstock.node.notify.status import NotifyFigures
    from penstock.node.slots.status import FlowsStatus
    from penstock.node.store.control_table import TableFollower, TableStatus
    from penstock.node.store.recording import RecorderStatus
    from penstock.node.streams.status import StreamsStatus

_Status_co = TypeVar("_Status_co", covariant=True)


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of the broker and of each part that is on."""

    broker: BrokerStatus
    recorder: RecorderStatus | None = None
    """Figures of the recorder; None if it is off."""
    flows: FlowsStatus | None = None
    """Figures of flows; None if no listener has slots."""
    channels: ChannelsStatus | None = None
    """Figures of channels; None if they are off."""
    notify: NotifyFigures | None = None
    """Figures of notifications; None if they are off."""
    streams: StreamsStatus | None = None
    """Figures of reliable streams; None if there are none."""
    tables: tuple[TableStatus, ...] = ()
    """Control tables that the node follows."""
    cluster: ClusterStatus | None = None
    """Figures of the cluster; None if the node is on its own."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts that are on, besides the broker."""
        names = (name for name in self.__struct_fields__ if name != "broker")
        return tuple(sorted(name for name in names if getattr(self, name) not in (None, ())))

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults at the moment, each with its consequence."""
        found = list(self.broker.faults)
        if self.recorder is not None and self.recorder.fault:
            found.append(f"nothing is recorded: {self.recorder.fault}")
        if self.flows is not None and self.flows.table_fault:
            found.append(f"a newer table of flows was refused: {self.flows.table_fault}")
        found.extend(
            f"a newer table of policies was refused: {table.fault}"
            for table in self.tables
            if table.table == "policies" and table.fault
        )
        for part in (self.channels, self.streams, self.cluster):
            found.extend(() if part is None else part.faults)
        return tuple(found)


class Part(Protocol[_Status_co]):
    """A part of a node that can be observed."""

    def status(self) -> _Status_co:
        """Take a snapshot of this part."""
        ...


class FlowsPart(Part["FlowsStatus"], Protocol):
    """The flows of constant rate."""

    def rows(self) -> list[FlowStatistics]:
        """Return the figures of each flow."""
        ...


class ClusterPart(Part["ClusterStatus"], Protocol):
    """The cluster."""

    async def drain(self, node: str, *, undo: bool, rate: int, leave: bool) -> tuple[str, int]:
        """Have a node send its clients away; returns its name and its clients. ClusterError if it cannot."""
        ...


class NotifyPart(Protocol):
    """The notifications."""

    def figures(self) -> NotifyFigures:
        """Return the figures of all subscribers together."""
        ...


@dataclass(slots=True)
class Observed:
    """The parts of a node that snapshots are made of; the service adds each part when it starts it."""

    broker: Broker
    recorder: Part[RecorderStatus] | None = None
    flows: FlowsPart | None = None
    channels: Part[ChannelsStatus] | None = None
    notify: NotifyPart | None = None
    streams: Part[StreamsStatus] | None = None
    tables: list[TableFollower] = field(default_factory=list)
    """Control tables that the node follows."""
    cluster: ClusterPart | None = None

    def status(self) -> NodeStatus:
        """Take a snapshot of all parts."""
        return NodeStatus(
            broker=self.broker.status(),
            recorder=None if self.recorder is None else self.recorder.status(),
            flows=None if self.flows is None else self.flows.status(),
            channels=None if self.channels is None else self.channels.status(),
            notify=None if self.notify is None else self.notify.figures(),
            streams=None if self.streams is None else self.streams.status(),
            tables=tuple(table.status() for table in self.tables),
            cluster=None if self.cluster is None else self.cluster.status(),
        )
