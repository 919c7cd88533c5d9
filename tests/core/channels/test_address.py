"""One spelling per page, and topics that bring it back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.address import canonical, channel_id, topic_of, url_of
from penstock.errors import BadAddress
from penstock.mqtt.topics import check_topic


@pytest.mark.parametrize(
    ("given_", "same"),
    [
        ("HTTP://Example.ORG:80", "http://example.org/"),
        ("https://x.org/a/../b?q=a+b&c=%7e#top", "https://x.org/b?q=a+b&c=~"),
        (" https://x.org/feed ", "https://x.org/feed"),
        ("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4"),
        ("http://[::1]:8080/x?a=1;b", "http://[::1]:8080/x?a=1;b"),
    ],
)
def test_spellings_of_one_page_are_one_channel(given_: str, same: str) -> None:
    assert canonical(given_) == same
    assert canonical(same) == same


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("javascript:alert(1)", "http:// or https://"),
        ("example.org", "http:// or https://"),
        ("http:///x", "no host"),
        ("http://1.2.3.4:99999/", "[Pp]ort"),
        ("http://exa mple/", "space"),
        ("http://x/\x1b[31m", "control character"),
        ("https://me:secret@x.org/", "password"),
        ("http://x.org/" + "a" * 3_000, "2048"),
    ],
)
def test_what_cannot_be_a_channel_is_said(bad: str, why: str) -> None:
    with pytest.raises(BadAddress, match=why):
        canonical(bad)


@given(st.text(st.sampled_from("abc/+#%?&=25B3.ä"), max_size=30))
def test_a_topic_brings_the_address_back(path: str) -> None:
    url = canonical("https://x.org/" + path)
    topic = topic_of(url)
    check_topic(topic)
    assert url_of(topic) == url
    assert 0 <= channel_id(url) < 1 << 160
