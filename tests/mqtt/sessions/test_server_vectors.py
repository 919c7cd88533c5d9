"""Byte-level cases of the Eclipse Mosquitto project, where they lie beside the checkout.

The data is read from there and not part of Penstock. Judged as it asks: a CONNACK or DISCONNECT by its reason
code, everything else by its bytes.
"""

from __future__ import annotations

import pytest

from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.sessions.server import Terms
from penstock_lab.experiments.conformance.vectors import Case, ExternalPublish, Receive, Send, read_vectors
from tests.kit.paths import ROOT
from tests.mqtt.sessions.broker import Broker, Link

FOLDER = ROOT.parent / "shared" / "conformance" / "mqtt"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the conformance data is not beside the checkout (../shared/conformance)"
)

DEPARTURES = {
    "CONNECT: v3.1 CONNECT: 10 ok": "MQTT 3.1 is not spoken",
    "CONNECT: v3.1 CONNECT: 14 ok": "MQTT 3.1 is not spoken",
    "CONNECT: v3.1 CONNECT: 10 empty client ID": "MQTT 3.1 is not spoken: refused for that, not for the name",
}
"""Cases that end otherwise, and why."""

cases = read_vectors(FOLDER) if FOLDER.is_dir() else []


def outcome(case: Case) -> str:
    """Empty if a case goes as it should, else what went wrong."""
    broker = Broker(terms=Terms(reason_strings=False))
    link = Link(broker)
    framer = Framer()
    if case.connect:
        link.feed(encode(Connect("first", version=case.version), case.version))
        link.said.clear()
    for message in case.messages:
        match message:
            case Send():
                link.feed(message.data)
            case ExternalPublish():
                broker.publish("second", Publish(message.topic, message.payload, message.qos))
            case Receive():
                frames = framer.feed(bytes(link.said))
                link.said.clear()
                link.said += b"".join(frames[1:])
                if not frames or not _alike(frames[0], message.data):
                    return f"{message.data.hex()} should have come, not {[each.hex() for each in frames]}"
    if link.closed != case.expect_disconnect:
        return f"closed: {link.closed} ({link.error})"
    return ""


def _alike(found: bytes, expected: bytes) -> bool:
    if found[0] != expected[0]:
        return False
    if found[0] == 0x20:
        return found[3] == expected[3]
    return found[2] == expected[2] if found[0] == 0xE0 else found == expected


@pytest.mark.parametrize("file", sorted({case.file for case in cases}) or [""])
def test_a_broker_of_these_parts_does_as_the_cases_say(file: str) -> None:
    wrong = {}
    for case in cases:
        if case.file != file:
            continue
        problem = outcome(case)
        if bool(problem) is not (case.title in DEPARTURES):
            wrong[case.title] = problem or "it goes as it should: no departure any more"
    assert wrong == {}


def test_the_cases_are_all_there() -> None:
    assert len(cases) > 800
    assert DEPARTURES.keys() <= {case.title for case in cases}
