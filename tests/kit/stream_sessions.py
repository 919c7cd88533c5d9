"""Sessions that publish into and read reliable streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.mqtt.codes import Reason

if TYPE_CHECKING:
    from tests.kit.stream_nodes import WithStreams

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.kit.stream_nodes import WithStreams

KEPT: dict[str, Any] = {"clean": False, "session_expiry_s": 1000}


def hold_commits(running: WithStreams) -> Callable[[], None]:
    """Nothing becomes durable until what is returned is called."""
    hosted = running.orders
    waiting: list[tuple[int, int]] = []
    committed = hosted._committed  # what the log calls
    log: Any = hosted.log
    assert log._committed == committed
    log._committed = lambda until, claimed: waiting.append((until, claimed))

    def go_on() -> None:
        log._committed = committed
        for each in waiting:
            committed(*each)

    return go_on


async def publish(running: WithStreams, *payloads: bytes, topic: str = "orders/a", qos: int = 1) -> None:
    """Publish to the stream from inside, and wait until everything is told."""
    peer = await running.connect("publisher")
    for payload in payloads:
        if qos == 2:
            await peer.publish2(topic, payload)
        elif qos == 1:
            assert (await peer.publish1(topic, payload)).reason == Reason.SUCCESS
        else:
            peer.publish0(topic, payload)
    peer.abort()


def numbers(first: int, until: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, until)]
