"""The smaller parts of the broker, each on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.queues import Ladder, Predictive
from penstock.errors import PolicyError
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.node.broker.deadlines import Deadlines
from penstock.node.broker.link import Latency
from penstock.node.broker.message import Message, Retained, expired, expiry_of, message_of
from penstock.node.broker.policies import NO_POLICY, Policies, Queueing
from penstock.node.broker.routes import Router
from penstock.node.config.schema import Config, ControllerSettings, Installed, Queues

if TYPE_CHECKING:
    from penstock.model.event import Event

SECOND_US = 1_000_000


class Clockwork:
    """Something with a moment."""

    def __init__(self, when_us: int | None) -> None:
        self.when_us = when_us

    def timer(self) -> int | None:
        return self.when_us


def test_deadlines_come_when_they_are_due_and_move_freely() -> None:
    deadlines: Deadlines[Clockwork] = Deadlines(horizon_us=1000)
    first, second, moved = Clockwork(10), Clockwork(20), Clockwork(15)
    for each in (first, second, moved):
        deadlines.watch(each, now_us=0)
    moved.when_us = 500
    assert list(deadlines.due(now_us=5)) == []
    assert list(deadlines.due(now_us=20)) == [first, second]
    assert list(deadlines.due(now_us=499)) == []
    assert list(deadlines.due(now_us=500)) == [moved]


def test_a_deadline_that_comes_closer_is_kept_once() -> None:
    deadlines: Deadlines[Clockwork] = Deadlines(horizon_us=1000)
    one = Clockwork(900)
    deadlines.watch(one, now_us=0)
    one.when_us = 100
    deadlines.watch(one, now_us=0)
    assert list(deadlines.due(now_us=100)) == [one]
    one.when_us = None
    assert list(deadlines.due(now_us=5000)) == []


def test_nothing_is_held_beyond_the_horizon() -> None:
    deadlines: Deadlines[Clockwork] = Deadlines(horizon_us=1000)
    one = Clockwork(10**9)
    deadlines.watch(one, now_us=0)
    one.when_us = None  # it has ended
    assert list(deadlines.due(now_us=1000)) == []
    assert not deadlines._heap
    assert not deadlines._keys


def message(topic: str, payload: bytes = b"x", *, expiry_s: int | None = None, now_us: int = 0) -> Message:
    properties = NONE if expiry_s is None else Properties(message_expiry_s=expiry_s)
    return message_of(
        topic,
        payload,
        topic_bytes=topic.encode(),
        now_us=now_us,
        qos=1,
        retain=True,
        properties=properties,
        expires_us=expiry_of(properties, now_us),
    )


def test_retained_messages_replace_expire_and_are_bounded() -> None:
    retained = Retained(most=2, most_bytes=200)
    assert retained.keep(message("a", b"1"))
    assert retained.keep(message("a", b"22"))
    assert retained.keep(message("b", b"x", expiry_s=1))
    assert not retained.keep(message("c"))
    assert not retained.keep(message("a", b"x" * 200))
    assert (len(retained), retained.bytes) == (2, 3 + 2 + 64)  # topics, payloads, properties
    assert retained.get("b", now_us=SECOND_US - 1) is not None
    assert retained.get("b", now_us=SECOND_US) is None
    assert retained.keep(message("a", b""))
    assert (len(retained), retained.bytes) == (0, 0)


def test_an_expiry_of_nothing_is_at_once_and_none_is_never() -> None:
    assert expired(message("a", expiry_s=0, now_us=5), 5)
    assert not expired(message("a", now_us=5), 2**62)


def test_policies_are_found_by_name_text_and_installation() -> None:
    text = "levels: [drop: uniq]"
    config = Config(
        policies={"mine": text},
        install=(Installed(policy="mine", client="phone-?", filter="a/+"),),
    )
    policies = Policies(config)
    assert policies.asked("mine").name == "mine"
    assert policies.asked(text).name == "inline"
    assert policies.asked(text).plan is policies.asked(f"  {text}\n").plan
    assert policies.chosen(client_id="phone-1", filter_="a/b", asked=None).name == "mine"
    assert policies.chosen(client_id="phone-1", filter_="$share/g/a/b", asked=None).name == "mine"
    assert policies.chosen(client_id="phone-12", filter_="a/b", asked=None) is NO_POLICY
    assert policies.chosen(client_id="phone-1", filter_="b", asked=None) is NO_POLICY
    with pytest.raises(PolicyError, match="did you mean 'mine'"):
        policies.asked("nine")
    with pytest.raises(PolicyError, match="no policy 'gone'"):
        policies.reconfigure(Config(install=(Installed(policy="gone"),)))
    assert policies.asked("mine").name == "mine"


def test_queues_are_made_as_configured() -> None:
    queueing = Queueing(Queues(events=10, bytes=1000))
    assert (queueing.options.capacity_events, queueing.options.capacity_bytes) == (10, 1000)
    assert queueing.firm.capacity_events > 10
    assert isinstance(queueing.controller(), Predictive)
    printed = Queueing(Queues(controller=ControllerSettings(ladder="printed", alpha=0.2))).controller()
    assert isinstance(printed, Ladder)


def test_latency_keeps_the_last_samples() -> None:
    latency = Latency()
    assert latency.quantiles() == (0, 0)
    for took_us in range(10_000):
        latency.add(took_us)
    p50_us, p99_us = latency.quantiles()
    assert 9_800 < p50_us < p99_us < 10_000


def test_what_a_router_remembers_is_bounded_and_forgotten() -> None:
    router = Router()
    known = router.known
    fan = router.look_up(b"a", known, denied=None)
    assert router.look_up(b"$SYS/x", known, denied=None).denied
    assert router.look_up(b"no", known, denied=lambda topic: topic == "no").denied
    assert known[b"a"] is fan
    seen: list[Event] = []
    tap = router.tap("#", seen.append)
    assert known == {}
    assert router.look_up(b"a", known, denied=None).special
    tap.close()
    assert not router.look_up(b"a", known, denied=None).all
