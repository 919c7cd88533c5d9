"""Messages as they cross a link between nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.cluster.copies import Outgoing, OutgoingRun
from penstock.core.cluster.frames import Carried, CarriedRun, Shared, encode_item
from penstock.errors import ClusterError, MqttError
from penstock.model.event import Event
from penstock.mqtt.fields import decode_varint
from penstock.mqtt.packets.fanout import forwarded
from penstock.mqtt.packets.properties import NONE
from penstock.node.broker.message import Message, restored

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.cluster.stamps import Stamp
    from penstock.mqtt.packets.properties import Properties
    from penstock.node.broker.runs import Run


def item_of(event: Event, number: int, *, stamp: Stamp | None = None, kept_only: bool = False) -> bytes:
    """A message as an item of a frame."""
    return encode_item(_carried(event, number, stamp=stamp, kept_only=kept_only))


def shared_item_of(event: Event, number: int, groups: tuple[str, ...], tried: tuple[str, ...]) -> bytes:
    """A message for shared groups as an item of a frame."""
    return encode_item(Shared(groups, tried, _carried(event, number)))


def run_item_of(run: Run, number: int) -> OutgoingRun:
    """Messages as one item of a frame, the first of which has this number; it may be taken apart later."""

    def opened() -> list[Outgoing]:
        events = enumerate(run.events(), start=number)
        return [Outgoing(event, item_of(event, at), number=at) for at, event in events]

    item = CarriedRun(number, run.count, run.data, run.version, run.now_us, run.sender, run.seq)
    return OutgoingRun(run.count, encode_item(item), opened, ts_us=run.now_us)


def _carried(event: Event, number: int, *, stamp: Stamp | None = None, kept_only: bool = False) -> Carried:
    if type(event) is not Message:
        return Carried(number, event.topic, event.payload, event.ts_us, event.sender, event.seq)
    return Carried(
        number,
        event.topic,
        event.payload,
        event.ts_us,
        event.sender,
        event.seq,
        event.qos,
        event.retain,
        b"" if event.mqtt is NONE else _packed(event.mqtt),
        event.expires_us,
        None if stamp is None else (stamp.at_us, stamp.origin, stamp.number),
        kept_only,
    )


def _packed(properties: Properties) -> bytes:
    """Properties without their length in front."""
    packed = forwarded(properties)
    return packed[decode_varint(packed, 0, where="properties")[1] :]


def event_from(item: Carried, read: Callable[[bytes], Properties]) -> Event:
    """A message of another node, whose topic was checked; ClusterError if it cannot be one.

    `read` decodes MQTT properties.
    """
    try:
        if not item.qos and not item.retain and not item.properties:
            return Event(item.topic, item.payload, item.ts_us, item.sender, item.seq)
        properties = read(item.properties) if item.properties else NONE
    except MqttError as error:
        raise ClusterError(f"a message that MQTT does not allow: {error}") from None
    return restored(item, properties)
