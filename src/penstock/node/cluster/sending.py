"""Sends frames to other nodes: those of links along trees, acknowledgements, and what is passed on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from penstock.core.cluster.forwarding import Forwarding, Load
from penstock.core.cluster.frames import is_data

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.cluster.view import Sighting, View
    from penstock.model.instant import Instant
    from penstock.node.cluster.fabric import Fabric
    from penstock.node.cluster.peer import ClusterPeer


class SendingHost(Protocol):
    """The cluster, as what sends for it sees it."""

    def peer(self, name: str) -> ClusterPeer | None:
        """Another node of the view, by its name."""
        ...

    def now_us(self) -> Instant:
        """The time."""
        ...


class Sending:
    """Gives frames to the fabric, at the end of a turn of the event loop where they can wait for others."""

    def __init__(self, host: SendingHost, fabric: Fabric, view: View, *, zone: str, fan_out: int) -> None:
        self._host = host
        self._fabric = fabric
        self.forwarding = Forwarding(view, zone=zone, fan_out=fan_out)
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[ClusterPeer, None] = {}
        self._unsaid: dict[ClusterPeer, None] = {}
        """Nodes whose frames were taken in this turn of the event loop, and are not acknowledged."""
        self._timer: asyncio.TimerHandle | None = None

    def soon(self, peer: ClusterPeer) -> None:
        """Send what a peer has to send at the end of this turn of the event loop."""
        if not self._dirty:
            self._loop.call_soon(self._flush)
        self._dirty[peer] = None

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        self.now(dirty)

    def now(self, peers: Iterable[ClusterPeer]) -> None:
        """Send what some peers have to send, unless they are still taking over what waited."""
        now_us = self._host.now_us()
        loads: list[Load] = []
        for peer in peers:
            name, link = peer.seen.name, peer.link
            if self._host.peer(name) is peer:
                busy, answered = link.in_flight_bytes > 0, link.round_trip_us > 0
                frames = link.frames(now_us=now_us)
                if frames:
                    loads.append(Load(name, frames, busy, answered))
        if loads:
            self._post(self.forwarding.route(loads, now_us=now_us))

    def again(self, peer: ClusterPeer, frames: list[bytes]) -> None:
        """Send frames of a link directly: once more, or because the other node misses something."""
        if frames and is_data(frames[0]):
            self.forwarding.sent_again(peer.seen.name, now_us=self._host.now_us())
        for frame in frames:
            self._fabric.send(peer.seen, frame)

    def lost(self, name: str) -> None:
        """A node is not there any more: send what was on its way through it directly."""
        self._repair(self.forwarding.lost(name))

    def _repair(self, names: Iterable[str]) -> None:
        now_us = self._host.now_us()
        for name in names:
            peer = self._host.peer(name)
            if peer is not None and peer.link.connected:
                self.again(peer, peer.link.renewed(now_us=now_us))

    def forget(self, peer: ClusterPeer) -> None:
        """A node is given up: nothing more goes to it."""
        self._fabric.forget(peer.seen)
        self._dirty.pop(peer, None)

    # -- acknowledgements ------------------------------------------------------------------------------------

    def acknowledge_soon(self, peer: ClusterPeer) -> None:
        """Acknowledge what was taken behind what goes to clients, which is written at the end of this turn.

        Clients wait, and the other node mostly does not. One acknowledgement will do for all frames of the
        turn.
        """
        if not self._unsaid:
            self._loop.call_soon(self.acknowledge)
        self._unsaid[peer] = None

    def acknowledge(self) -> None:
        """Acknowledge the frames that were taken in this turn, as far as they did not wait for the disk."""
        unsaid, self._unsaid = self._unsaid, {}
        for peer in unsaid:
            if not peer.held:
                self._acknowledge(peer, peer.link.taken)

    def acknowledge_safe(self, peer: ClusterPeer, upto: int) -> None:
        """Acknowledge a frame whose messages are on disk."""
        peer.held -= 1
        self._acknowledge(peer, upto)

    def _acknowledge(self, peer: ClusterPeer, upto: int) -> None:
        name = peer.seen.name
        if self._host.peer(name) is peer:
            ack = peer.link.acknowledgement(upto)
            self._post(self.forwarding.acknowledge(name, ack, now_us=self._host.now_us()))
            self._wait()

    def farewell(self, peers: Iterable[ClusterPeer]) -> None:
        """Say that this node stops, and takes nothing more."""
        self.acknowledge()  # else the farewell would say that the last frames were not taken
        for peer in peers:
            if not peer.held:
                self._fabric.send(peer.seen, peer.link.farewell())

    # -- for others ------------------------------------------------------------------------------------------

    def pass_on(self, sender: Sighting, frame: bytes) -> list[tuple[Sighting, bytes]]:
        """Take a frame of a node; returns the frames of links in it, with the nodes they are from.

        What is for others is sent to them. ClusterError if the frame is damaged.
        """
        if not self.forwarding.concerns(frame):
            self.forwarding.came_directly(sender.name)
            return [(sender, frame)]
        arrived = self.forwarding.received(sender.name, frame, now_us=self._host.now_us())
        self._post(arrived.send)
        self._repair(arrived.unreached)
        self._wait()
        return arrived.taken

    def _post(self, frames: list[tuple[str, bytes]]) -> None:
        for name, frame in frames:
            peer = self._host.peer(name)
            if peer is not None:
                self._fabric.send(peer.seen, frame)

    def _wait(self) -> None:
        """Have acknowledgements that are kept back for others sent in time."""
        at_us = self.forwarding.timer()
        if at_us is not None and self._timer is None:
            self._timer = self._loop.call_later(max(0, at_us - self._host.now_us()) / 1e6, self._due)

    def _due(self) -> None:
        self._timer = None
        self._post(self.forwarding.due(now_us=self._host.now_us()))
        self._wait()
