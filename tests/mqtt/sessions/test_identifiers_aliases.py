"""Topic aliases, either way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MqttError
from penstock.mqtt.sessions.identifiers import AliasesIn, AliasesOut


def test_an_alias_stands_for_its_topic_until_it_is_given_another() -> None:
    aliases = AliasesIn(2)
    assert aliases.resolve(b"a", 1) == b"a"
    assert aliases.resolve(b"", 1) == b"a"
    assert aliases.resolve(b"b", 1) == b"b"
    assert aliases.resolve(b"", 1) == b"b"
    assert aliases.resolve(b"c", None) == b"c"


@pytest.mark.parametrize(
    ("topic", "alias", "reason"),
    [(b"a", 0, 0x94), (b"a", 3, 0x94), (b"", 2, 0x82), (b"", None, 0x82), (b"", 65_535, 0x94)],
)
def test_an_alias_that_stands_for_nothing_is_refused(topic: bytes, alias: int | None, reason: int) -> None:
    with pytest.raises(MqttError) as caught:
        AliasesIn(2).resolve(topic, alias)
    assert caught.value.reason == reason


def test_no_alias_is_taken_where_none_was_offered() -> None:
    with pytest.raises(MqttError, match="none were offered") as caught:
        AliasesIn(0).resolve(b"a", 1)
    assert caught.value.reason == 0x94


@given(topics=st.lists(st.sampled_from([b"a", b"b", b"c", b"d"])), maximum=st.integers(0, 3))
def test_both_ends_agree(topics: list[bytes], maximum: int) -> None:
    out, into = AliasesOut(maximum), AliasesIn(maximum)
    shortened = 0
    for topic in topics:
        sent, alias = out.shorten(topic)
        shortened += not sent
        assert into.resolve(sent, alias) == topic
    assert shortened == sum(topics.count(topic) - 1 for topic in list(dict.fromkeys(topics))[:maximum])
