"""The links of a node: one to each attached session, with the capacity that the settings give its client."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from penstock import limits
from penstock.core.slots.links import Link
from penstock.node.broker.receivers import Group, Spread, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.slots.options import ControlOptions
    from penstock.node.broker.routes import Router
    from penstock.node.broker.session import Session
    from penstock.node.config.slots import SlotSettings


class SessionLinks:
    """Links by session, and by the topics that their sessions have subscribed to."""

    def __init__(self, settings: SlotSettings, options: ControlOptions, router: Router) -> None:
        self._settings = settings
        self._options = options
        self._router = router
        self._links: WeakValueDictionary[str, Link] = WeakValueDictionary()
        """By client identifier; the lanes of a session hold its link."""
        self._connects = 0
        self._by_topic: dict[str, tuple[Link, ...]] = {}
        self._found_at = -1

    @property
    def version(self) -> int:
        """Grows whenever somebody subscribes, unsubscribes or connects."""
        return self._router.version + self._connects

    def of(self, topic: str) -> Sequence[Link]:
        """The links of a topic's receivers; those of the members of a shared group are among them."""
        version = self.version
        if version != self._found_at or len(self._by_topic) >= limits.ROUTES:
            self._by_topic.clear()
            self._found_at = version
        found = self._by_topic.get(topic)
        if found is None:
            sessions: dict[Session, None] = {}
            for receiver in self._router.find(topic).all:
                if isinstance(receiver, Target):
                    sessions[receiver.session] = None
                elif isinstance(receiver, Group | Spread):
                    sessions |= dict.fromkeys(member.session for member in receiver.members)
            links = (self._links.get(session.client_id) for session in sessions if session.attached)
            found = self._by_topic[topic] = tuple(link for link in links if link is not None)
        return found

    def attached(self, client_id: str) -> Link:
        """Return the link of a client that connects; what it had reserved ends with its last connection."""
        self._connects += 1
        link = Link(self._options, name=client_id, capacity=capacity_of(self._settings, client_id))
        self._links[client_id] = link
        return link

    def reconfigure(self, settings: SlotSettings) -> None:
        """Apply other capacities; flows that are served stay until they find a slot full."""
        self._settings = settings
        for client_id, link in self._links.items():
            link.resize(capacity_of(settings, client_id))

    def all(self) -> list[Link]:
        """Links on which flows have places."""
        return [link for link in self._links.values() if link.flows]


def capacity_of(settings: SlotSettings, client_id: str) -> int:
    """Return what the link of a client carries in one slot: the first pattern that matches counts."""
    for link in settings.links:
        if fnmatchcase(client_id, link.clients):
            return link.capacity
    return settings.capacity
