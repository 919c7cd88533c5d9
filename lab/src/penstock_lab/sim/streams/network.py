"""A tree of simulated nodes with everything between them: links, clocks, publishers, subscribers, history.

The tree leads from the node that hosts the pubends to the nodes that host subscribers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.streams.broker import StreamBroker
from penstock.core.streams.log import MemoryLog
from penstock.core.streams.ticks import tick_at
from penstock.errors import SimulationError
from penstock_lab.sim.faults import FaultOptions
from penstock_lab.sim.link import Link
from penstock_lab.sim.streams.node import EPOCH_US, History, StreamNode, Subscriber

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.streams.messages import Matches, Message
    from penstock.core.streams.pubend import Pubend
    from penstock.core.streams.subend import Subend
    from penstock_lab.sim.streams.node import NetworkOptions
    from penstock_lab.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The shape of the tree: which node gets the streams from which; leaves host subscribers."""

    root: str
    parents: Mapping[str, str]
    """Child → parent, parents before their children."""
    filters: Mapping[str, Matches] = field(default_factory=dict)
    """Filters of leaves; a leaf without one gets everything."""

    def __post_init__(self) -> None:
        known = {self.root}
        for child, parent in self.parents.items():
            if parent not in known or child in known:
                raise SimulationError(f"{child!r} below {parent!r}: name parents before their children, once")
            known.add(child)

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, the root first."""
        return (self.root, *self.parents)

    def children(self, node: str) -> tuple[str, ...]:
        """Return the nodes directly below a node."""
        return tuple(child for child, parent in self.parents.items() if parent == node)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The subscriber-hosting nodes."""
        inner = set(self.parents.values())
        return tuple(child for child in self.parents if child not in inner)

    def below(self, node: str) -> tuple[str, ...]:
        """Return the leaves at or below a node."""
        if node in self.leaves:
            return (node,)
        return tuple(leaf for child in self.children(node) for leaf in self.below(child))

    def link_filter(self, node: str) -> Matches | None:
        """Return the filter of the link down to a node: whatever a leaf below it wants; None: everything."""
        filters = [self.filters.get(leaf) for leaf in self.below(node)]
        wanted = [matches for matches in filters if matches is not None]
        if len(wanted) < len(filters):
            return None
        return wanted[0] if len(wanted) == 1 else lambda body: any(matches(body) for matches in wanted)

    def interest(self, node: str) -> str:
        """Return the name of a leaf's filter, which is the leaf's; inner nodes have none."""
        return node if node in self.filters else ""


class StreamNetwork:
    """A tree of nodes with links, publishers and subscribers in a world; `world.run` plays it."""

    def __init__(self, world: World, tree: Tree, pubends: tuple[str, ...], options: NetworkOptions) -> None:
        self.world = world
        self.tree = tree
        self.pubends = pubends
        self.options = options
        self.history = History()
        self.logs = {pubend: MemoryLog() for pubend in pubends}
        self.nodes = {name: self._node(name) for name in tree.nodes}
        self.nodes[tree.root].logs = self.logs
        for leaf in tree.leaves:
            start = dict.fromkeys(pubends, tick_at(EPOCH_US - options.before_us))
            self.add_subscriber(Subscriber(f"{leaf}/all", leaf, tree.filters.get(leaf), start))
        for child, parent in tree.parents.items():
            self._connect(child, parent)
            self._connect(parent, child)

    def start(self) -> None:
        """Start all nodes."""
        for node in self.nodes.values():
            node.start()

    def add_subscriber(self, subscriber: Subscriber) -> None:
        """Add a subscriber at its leaf, before the leaf starts."""
        self.nodes[subscriber.node].subscribers.append(subscriber)
        self.history.subscribers.append(subscriber)

    def subend(self, leaf: str, pubend: str) -> Subend:
        """Return the subend of a pubend at a leaf."""
        return next(one for one in self.nodes[leaf].subends if one.pubend == pubend)

    def pubend(self, name: str) -> Pubend:
        """Return the pubend of a name, at the root."""
        broker = self.nodes[self.tree.root].broker
        assert broker is not None
        return broker.pubend(name)

    def _node(self, name: str) -> StreamNode:
        faults = self.options.faults.get(name, self.options.faults.get("", FaultOptions()))
        return StreamNode(
            self.world,
            name,
            clock=self.world.local_clock(name, faults),
            build=self._build,
            history=self.history,
            options=self.options,
        )

    def _build(self, node: StreamNode) -> StreamBroker:
        """Build the broker of a starting node from its position in the tree, its log and its subscribers."""
        name, tree = node.name, self.tree
        below = {leaf: tree.filters[leaf] for leaf in tree.below(name) if leaf in tree.filters}
        broker = StreamBroker(name, self.options.streams, interest=tree.interest(name), interests=below)
        for pubend in self.pubends:
            if name == tree.root:
                broker.host(pubend, self.logs[pubend], now_us=node.now_us)
            else:
                broker.follow(pubend, tree.parents[name])
            for child in tree.children(name):
                broker.attach(pubend, child, tree.link_filter(child), interest=tree.interest(child))
            if node.subscribers:
                start = min(subscriber.position[pubend] for subscriber in node.subscribers)
                node.subends.append(broker.subscribe(pubend, f"{name}/local", start=start))
        return broker

    def _connect(self, sender: str, receiver: str) -> None:
        down = self.tree.parents.get(receiver) == sender
        child = receiver if down else sender
        faults = self.options.faults.get(child, self.options.faults.get("", FaultOptions()))
        if self.options.down_only and not down:
            faults = FaultOptions(partitions=faults.partitions)
        source, target = self.nodes[sender], self.nodes[receiver]
        name = f"{sender}-{receiver}"

        def deliver(message: Message, now_us: int) -> None:
            del now_us
            target.arrive(sender, message)

        def ready(now_us: int) -> None:
            del now_us
            source.pump(receiver)

        link: Link[Message]
        if self.options.record:
            link = self.world.link(name, self.options.link, deliver=deliver, on_ready=ready, faults=faults)
        else:
            link = Link(
                name,
                self.options.link,
                clock=self.world.clock,
                dice=self.world.dice(f"link {name}"),
                deliver=deliver,
                on_ready=ready,
                faults=faults,
            )
        source.connect(receiver, link)

    def plan_crash(self, node: str, *, at_us: int, down_us: int, set_back_us: int = 0) -> None:
        """Plan a crash of a node and its restart, with its clock set back meanwhile."""
        self.world.clock.at(at_us, self.nodes[node].crash)
        self.world.clock.at(at_us + down_us, partial(self._restart, node, set_back_us))

    def _restart(self, node: str, set_back_us: int) -> None:
        if self.nodes[node].broker is None:
            self.nodes[node].set_back_us += set_back_us
            self.nodes[node].start()
