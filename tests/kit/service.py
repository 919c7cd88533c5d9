"""Clients of a node that runs as a service."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def client(
    port: int,
    *,
    name: str = "c",
    transport: Any = "tcp",
    ca: Path | None = None,
    user: tuple[str, str] | None = None,
) -> Iterator[Client]:
    made = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, transport=transport)
    found = Client(made)
    if user is not None:
        made.username_pw_set(*user)
    if ca is not None:
        made.tls_set(ca_certs=str(ca))
    made.on_connect = lambda _c, _u, _f, reason, _p: found.answers.append(reason)
    made.on_disconnect = lambda _c, _u, _f, reason, _p: found.ended.append(reason)
    made.on_message = lambda _c, _u, message: found.heard.append((message.topic, bytes(message.payload)))
    made.on_subscribe = lambda _c, _u, _m, reasons, _p: found.answers.append(reasons[0])
    made.reconnect_delay_set(60, 60)
    made.connect("localhost" if ca else "127.0.0.1", port)
    made.loop_start()
    try:
        yield found
    finally:
        made.disconnect()
        made.loop_stop()


def wait(true: Callable[[], object]) -> None:
    """Until it is true."""
    pause = threading.Event()
    for _ in range(2_000):
        if true():
            return
        pause.wait(0.01)
    pytest.fail("it did not come true")


@dataclass
class Client:
    """A paho client that keeps what it hears."""

    paho: paho.Client
    heard: list[tuple[str, bytes]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    ended: list[Any] = field(default_factory=list)
