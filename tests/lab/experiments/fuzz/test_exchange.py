"""Files of exchanges are read as they were written, or refused with a word."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError, PenstockError
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode
from penstock_lab.experiments.fuzz.exchange import (
    MOST_PIECES,
    changed,
    paced,
    read_exchanges,
    write_exchanges,
)
from penstock_lab.experiments.fuzz.targets import mqtt
from penstock_lab.experiments.fuzz.targets.catalogue import NAMES, TARGETS, exchange_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("target", NAMES)
def test_a_file_is_read_as_it_was_written(target: str, tmp_path: Path) -> None:
    found = [exchange_of(target, 1, number) for number in range(40)]
    path = tmp_path / "x.json"
    write_exchanges(path, found, target=target, seed=1, problem="p")
    assert read_exchanges(path) == (target, 1, found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"fuzz": "mqtt", "seed": "x", "exchanges": []}',
        '{"fuzz": "mqtt", "seed": 1, "exchanges": [{"number": 1, "door": "roof", "ending": "close"}]}',
    ],
)
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match="not a file of `penstock sim fuzz`"):
        read_exchanges(path)


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_exchanges(tmp_path / "none")


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
