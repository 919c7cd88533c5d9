"""A session's subscriptions, and what their options mean."""

from __future__ import annotations

import pytest

from penstock.errors import MqttError
from penstock.mqtt.subscribe import Subscription
from penstock.mqtt.subscriptions import Delivery, Subscribed, Subscriptions, delivery


@pytest.mark.parametrize(
    ("handling", "first", "second"), [(0, True, True), (1, True, False), (2, False, False)]
)
def test_retained_messages_are_sent_as_the_subscription_says(
    handling: int, first: bool, second: bool
) -> None:
    held = Subscriptions()
    wanted = Subscription("a/#", retain_handling=handling)
    assert held.add(wanted) is first
    assert held.add(wanted) is second


def test_shared_subscriptions_get_no_retained_messages() -> None:
    held = Subscriptions()
    assert not held.add(Subscription("$share/g/a"))
    (only,) = held
    assert only.shared


def test_subscribing_again_takes_the_place_of_what_was_there() -> None:
    held = Subscriptions(most=2)
    held.add(Subscription("a", qos=0), subscription_id=1)
    held.add(Subscription("a", qos=2), subscription_id=2)
    assert held.get("a") == Subscribed(Subscription("a", qos=2), 2)
    held.add(Subscription("b"))
    with pytest.raises(MqttError, match="2 subscriptions") as caught:
        held.add(Subscription("c"))
    assert caught.value.reason == 0x97
    held.add(Subscription("b", qos=1))
    assert held.remove("a") is not None
    assert held.remove("a") is None
    assert len(held) == 1


def test_one_copy_for_all_that_match() -> None:
    matching = [
        Subscribed(Subscription("a/#", qos=0, retain_as_published=True), 7),
        Subscribed(Subscription("a/+", qos=2), 9),
        Subscribed(Subscription("a/b", qos=1), 7),
        Subscribed(Subscription("+/b", qos=1)),
    ]
    assert delivery(matching, qos=2, retain=True, own=False) == Delivery(2, True, (7, 9))
    assert delivery(matching, qos=1, retain=False, own=False) == Delivery(1, False, (7, 9))
    assert delivery(matching[1:], qos=0, retain=True, own=True) == Delivery(0, False, (9, 7))


def test_no_local_keeps_a_clients_own_messages_from_it() -> None:
    quiet = Subscribed(Subscription("a", qos=2, no_local=True), 1)
    loud = Subscribed(Subscription("#", qos=1), 2)
    assert delivery([quiet], qos=2, retain=False, own=True) is None
    assert delivery([quiet], qos=2, retain=False, own=False) == Delivery(2, False, (1,))
    assert delivery([quiet, loud], qos=2, retain=False, own=True) == Delivery(1, False, (2,))
