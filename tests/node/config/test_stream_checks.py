"""Checks of the settings of streams."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.mqtt.topics import matches, overlap
from penstock.node.config.read import load
from penstock.node.config.reload import applicable
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from penstock.node.config.schema import Config

EXAMPLE = ROOT / "examples" / "streams.yaml"
HASH = "$argon2id$v=19$m=65536,t=3,p=4$c+cZ9mU+Hk01hj8cdVVADQ$jyYqGHDEmSN/rJg7sBtstTogATQdAddIoGvnIj7LEXI"
"""Of «a long secret»; the same in every process, as it stands in names of tests."""
LEVELS = ("a", "b", "")
TOPICS = ["/".join(levels) for count in range(1, 5) for levels in product(LEVELS, repeat=count)]
"""Every topic of up to four levels, with enough levels to tell filters of up to three apart."""


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.sampled_from((*LEVELS, "+")), min_size=1, max_size=3))
    if draw(st.booleans()):
        levels[-1] = "#"
    return "/".join(levels) or "+"


@given(filters(), filters())
def test_two_filters_overlap_exactly_if_a_topic_matches_both(one: str, other: str) -> None:
    assert overlap(one, other) == any(
        matches(one, topic) and matches(other, topic) for topic in TOPICS if topic
    )


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return [message for message, _ in caught.value.each()]


BAD = [
    ("host: [{name: '', topics: [a]}]", "streams.host[0].name: found ''"),
    ("host: [{name: 'a\\nb', topics: [a]}]".replace("'", '"'), "streams.host[0].name: found 'a\\nb'"),
    ("host: [{name: a, topics: []}]", "streams.host[0].topics: a stream needs at least one"),
    ("host: [{name: a, topics: [a/#/b]}]", "streams.host[0].topics[0]: 'a/#/b': + and # must be whole"),
    ("host: [{name: a, topics: ['$SYS/#']}]", "streams.host[0].topics[0]: topics that begin with $"),
    (
        "host: [{name: a, topics: [$share/g/a]}]",
        "streams.host[0].topics[0]: shared subscriptions are",
    ),
    ("host: [{name: a, topics: [a]}, {name: a, topics: [b]}]", "streams.host[1].name: duplicate name 'a'"),
    (
        "host: [{name: one, topics: [x, a/+/c]}, {name: two, topics: [b, a/b/#]}]",
        "streams.host[1].topics[1]: 'a/b/#' and 'a/+/c' of stream 'one' have topics in common",
    ),
    (f"host: [{{name: {'Ä' * 100}, topics: [a]}}]", "streams.host[0].name: stream "),
    ("neighbours: [{name: b, host: h, port: 1}]", "streams.node: is required"),
    ("node: a\n  neighbours: [{name: a, host: h, port: 1}]", "streams.neighbours[0].name: 'a' is this node"),
    (
        "node: a\n  neighbours: [{name: b, host: h, port: 1}, {name: b, host: i, port: 1}]",
        "streams.neighbours[1].name: duplicate name 'b'",
    ),
    (
        "node: a\n  neighbours: [{name: b, host: h}]",
        "streams.neighbours[0].port: is required to connect",
    ),
    (
        "node: a\n  neighbours: [{name: b}]",
        "streams.neighbours[0].host: is empty, so the neighbour",
    ),
    (
        "node: a\n  listen: {enabled: true}\n  neighbours: [{name: b, port: 7}]",
        "streams.neighbours[0].port: is only used with host",
    ),
    (
        "node: a\n  listen: {enabled: true}\n  neighbours: [{name: b, user: u, password: x}]",
        "streams.neighbours[0].password: is only used with host",
    ),
    (
        "node: a\n  neighbours: [{name: b, host: h, port: 1, password: x}]",
        "streams.neighbours[0].user: is required, because there is a password",
    ),
    (
        "node: a\n  neighbours: [{name: b, host: h, port: 1, where: 'keep: {gt: }'}]",
        "streams.neighbours[0].where: ",
    ),
    (
        "node: a\n  neighbours: [{name: b, host: h, port: 1, only: [a/+b]}]",
        "streams.neighbours[0].only[0]: ",
    ),
    (
        "node: a\n  neighbours: [{name: b, host: h, port: 1, ca: nowhere.pem}]",
        "streams.neighbours[0].ca: ",
    ),
    ("listen: {enabled: true, host: ''}", "streams.listen.host: is empty"),
    ("listen: {enabled: true, key: k.pem}", "streams.listen.key: is only used with a certificate"),
    ("listen: {enabled: true, certificate: c.pem}", "streams.listen.certificate: certificate "),
    (
        "listen: {enabled: true, host: 127.0.0.1, port: 1883}",
        "streams.listen.port: 127.0.0.1:1883 is already",
    ),
    ("nats: {servers: []}", "streams.nats.servers: is empty"),
    ("nats: {password: p}", "streams.nats.user: is required, because there is a password"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_what_cannot_work_is_refused(text: str, said: str) -> None:
    found = refused(f"streams:\n  {text}\n")
    assert any(said in one for one in found), found


HOSTS = "host: [{name: orders, topics: [orders/#]}]"
FAR = "{enabled: true, host: 0.0.0.0}"
WARNED = [
    (f"data: ''\nstreams: {{{HOSTS}}}", "there is no data folder, so messages are kept in memory"),
    (f"data: ''\nstreams: {{log: nats, {HOSTS}}}", "there is no data folder, so positions of readers"),
    ("streams: {listen: {enabled: true}}", "no stream is hosted and no neighbour is configured"),
    (f"streams: {{{HOSTS}, listen: {{enabled: true, host: 0.0.0.0}}}}", "nobody can connect"),
    (
        f"anonymous: always\nstreams: {{{HOSTS}, listen: {{enabled: true, host: 0.0.0.0}}}}",
        "can read and write streams without a password",
    ),
    (
        f"users: [{{name: u, password: '{HASH}'}}]\nstreams: {{{HOSTS}, listen: {FAR}}}",
        "passwords are sent unencrypted at streams.listen 0.0.0.0:1884",
    ),
    (
        "streams: {node: a, neighbours: [{name: b, host: far.example, port: 1, user: u, password: p}]}",
        "the password is sent unencrypted; configure ca",
    ),
]


@pytest.mark.parametrize(("text", "said"), WARNED)
def test_what_is_surely_not_meant_is_told(text: str, said: str) -> None:
    found = load(text).warnings
    assert any(said in one for one in found), found


def test_streams_that_have_nothing_in_common_are_fine() -> None:
    loaded = load(f"streams: {{{HOSTS[:-1]}, {{name: bids, topics: [bids/+, asks]}}]}}")
    assert [one.name for one in loaded.config.streams.host] == ["orders", "bids"]
    assert loaded.warnings == ()


def test_where_there_are_users_a_neighbour_that_calls_must_be_one() -> None:
    text = f"users: [{{name: ann, password: '{HASH}'}}]\nstreams: {{node: a, listen: {{enabled: true}}, "
    (found,) = refused(text + "neighbours: [{name: b}]}")
    assert "streams.neighbours[0].user: is required: there are users" in found
    assert load(text + "neighbours: [{name: b, user: ann}]}").warnings == ()
    assert load(text + "neighbours: [{name: b, host: 127.0.0.1, port: 1}]}").warnings == ()


def test_a_neighbour_that_calls_can_be_bound_to_a_user() -> None:
    text = "streams: {node: a, listen: {enabled: true}, neighbours: [{name: b, user: ann}]}"
    assert load(text).config.streams.neighbours[0].user == "ann"


def test_the_example_can_be_used_and_gives_no_warning() -> None:
    loaded = load(EXAMPLE)
    assert loaded.warnings == ()
    assert loaded.config.streams.host[0].retain_s == 604_800


def test_what_a_running_node_takes_of_changed_settings() -> None:
    def settings(more: str, streams: str = HOSTS) -> Config:
        link = f"{{name: b, host: h, port: 1{more}}}"
        return load(f"streams: {{node: a, {streams}, neighbours: [{link}]}}").config

    running = settings("")
    config, waiting = applicable(running, settings(", bytes_per_s: 1000, enabled: false"))
    assert waiting == []
    assert config.streams.neighbours[0].bytes_per_s == 1_000
    assert not config.streams.neighbours[0].enabled
    for wanted in (settings(", queue_bytes: 1MiB"), settings("", "host: []")):
        config, waiting = applicable(running, wanted)
        assert waiting == ["streams"]
        assert config.streams == running.streams
