"""A session's subscriptions."""

from __future__ import annotations

import pytest

from penstock.errors import MqttError
from penstock.mqtt.packets.subscribe import Subscription
from penstock.mqtt.sessions.session import Subscribed, Subscriptions


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
    assert held.get("$share/g/a") == Subscribed(Subscription("$share/g/a"))


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
