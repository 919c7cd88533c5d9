"""Flows of constant rate at a broker that no service starts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.node.slots.flows import Flows
from penstock.node.slots.lanes import Entry, SessionLanes
from penstock.node.slots.publisher import add_flows

if TYPE_CHECKING:
    from penstock.core.slots.lanes import Lanes
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.session import Session


def start_flows(broker: Broker) -> Flows | None:
    """Start flows in the running loop, as a node does; None if no listener has slots."""
    config = broker.config
    if not any(listener.slots for listener in config.listeners):
        return None
    flows = Flows(config.slots, clock=broker.clock, publish=broker.publish, router=broker.router)
    add_flows(broker, flows)
    flows.start(asyncio.get_running_loop())
    return flows


def lanes_of(session: Session) -> Lanes[Entry]:
    """The lanes of a session."""
    return next(each.lanes for each in session.sources if isinstance(each, SessionLanes))
