"""Changed exchanges: repeatable, bounded, and most of them no longer what they were."""

from __future__ import annotations

from random import Random

import pytest

from penstock.errors import PenstockError
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode
from penstock_lab.experiments.fuzz.mutations import MOST_PIECES, changed, paced
from penstock_lab.experiments.fuzz.targets import mqtt
from penstock_lab.experiments.fuzz.targets.catalogue import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_changes_depend_on_the_dice_alone(name: str) -> None:
    target = TARGETS[name]

    def made(seed: int) -> tuple[object, ...]:
        dice = Random(seed)
        pieces = changed(
            target.valid(dice), dice, donor=target.valid(dice), tokens=target.tokens, lengths=target.lengths
        )
        assert len(pieces) <= MOST_PIECES + 8
        return paced(pieces, dice)

    found = [made(seed) for seed in range(200)]
    assert found == [made(seed) for seed in range(200)]
    assert len(set(found)) > 150


def test_valid_exchanges_of_mqtt_are_valid_and_have_every_packet() -> None:
    kinds = set()
    for seed in range(300):
        packets = mqtt.valid(Random(seed))
        version = packets[0][packets[0].index(b"MQTT") + 4]
        assert Framer().feed(b"".join(packets)) == packets
        kinds |= {type(decode(packet, version)).__name__ for packet in packets}
    assert kinds == {
        "Auth", "Connect", "Disconnect", "Puback", "Pubcomp", "Publish", "Pubrec", "Pubrel", "Subscribe",
        "Unsubscribe",
    }  # fmt: skip


def test_most_changes_are_noticed() -> None:
    broken = 0
    for seed in range(300):
        dice = Random(seed)
        packets = mqtt.valid(dice)
        pieces = changed(packets, dice, donor=packets, tokens=mqtt.TOKENS, lengths=mqtt.lengths)
        version = packets[0][packets[0].index(b"MQTT") + 4]
        framer = Framer()
        try:
            for frame in framer.feed(b"".join(pieces)):
                decode(frame, version)
        except PenstockError:
            broken += 1
        else:
            broken += framer.fault is not None or bool(framer.kept)
    assert broken > 100
