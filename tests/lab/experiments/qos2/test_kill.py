"""QoS 2 under `kill -9`: each named point once; `penstock reproduce qos2-kill` has hundreds of rounds."""

from __future__ import annotations

import pytest

from penstock.errors import InputError
from penstock_lab.experiments.qos2 import wire
from penstock_lab.experiments.qos2.kill import POINTS, PUBLISHER, QUICK_ROUNDS, SUBSCRIBER, Judge, reproduce


@pytest.mark.e2e
@pytest.mark.parametrize("client", ["raw", "paho"])
@pytest.mark.parametrize("version", ["4", "5"])
def test_exactly_once_whatever_step_the_node_is_killed_at(version: str, client: str) -> None:
    outcome = reproduce(
        seed=3, quick=True, out=None, progress=lambda *_: None, version=version, client=client
    )
    assert outcome.ok, outcome.as_json()["rows"]
    assert len(outcome.rows) == 9
    assert QUICK_ROUNDS > len(POINTS) >= 17


@pytest.mark.parametrize("option", [{"rounds": "0"}, {"version": "3"}, {"client": "telnet"}])
def test_options_are_checked(option: dict[str, str]) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(option))} is '"):
        reproduce(seed=1, quick=True, out=None, progress=lambda *_: None, **option)


def test_a_receiver_that_is_wronged_is_found() -> None:
    judge = Judge()
    publish, pubrel = wire.Seen(wire.PUBLISH, 7, "a", b"1"), wire.Seen(wire.PUBREL, 7)
    judge.passed(SUBSCRIBER, publish)
    judge.passed(SUBSCRIBER, publish._replace(dup=True))
    assert (judge.again, judge.reused, judge.unmarked) == (1, [], [])
    judge.passed(SUBSCRIBER, publish)
    assert judge.unmarked == ["1 under 7"]
    judge.passed(SUBSCRIBER, wire.Seen(wire.PUBLISH, 7, "a", b"2"))
    assert judge.reused == ["7: 1, then 2"]
    judge.passed(SUBSCRIBER, pubrel)
    assert not judge.held
    judge.passed(SUBSCRIBER, wire.Seen(wire.PUBLISH, 7, "a", b"3"))
    assert judge.held == {7: b"3"}
    assert len(judge.reused) == 1
    judge.passed(PUBLISHER, wire.Seen(wire.CONNACK))
    judge.passed(PUBLISHER, wire.Seen(wire.CONNACK, present=True))
    assert not judge.sessions_lost
    judge.passed(PUBLISHER, wire.Seen(wire.CONNACK))
    assert judge.sessions_lost == ["publisher, connection 3"]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("size", [0, 1, 300, 20_000])
def test_packets_are_read_as_they_were_written(version: int, size: int) -> None:
    frames = [
        wire.publish(9, "kill/a", b"x" * size, version, dup=True),
        wire.ack(wire.PUBREL, 513),
        wire.ack(wire.PUBCOMP, 1),
    ]
    buffer = bytearray(b"".join(frames)[:-1])
    assert wire.cut(buffer) == frames[:2]
    buffer += frames[2][-1:]
    assert wire.cut(buffer) == frames[2:]
    assert wire.read(frames[0], version) == wire.Seen(wire.PUBLISH, 9, "kill/a", b"x" * size, dup=True)
    assert wire.read(frames[1], version) == wire.Seen(wire.PUBREL, 513)
