"""Settings of notifications that cannot work are reported with their place."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.node.config.schema import Config
from penstock.node.config.write import as_yaml
from tests.kit.configuration import read_config

ON = "channels: {enabled: true}\n"


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("notify: {webhook: {enabled: true}}", "notify", "channels are off"),
        ("http: {base_url: 'ftp://x'}", "http.base_url", "must begin with http"),
        ("http: {base_url: 'https://x/?a'}", "http.base_url", "has a query"),
        (ON + "http: {port: 0}\nnotify: {feeds: {enabled: true}}", "http.base_url", "is required"),
        (ON + "http: {enabled: false}\nnotify: {hub: {enabled: true}}", "notify.hub.enabled", "need HTTP"),
        (ON + "notify: {networks: [10.0.0.1/8]}", "notify.networks[0]", "host bits"),
        (ON + "notify: {xmpp: {jid: bot}}", "notify.xmpp.jid", "found 'bot'"),
        (
            ON + "notify: {xmpp: {jid: a@b, tls: 'off', host: x.org}}",
            "notify.xmpp.tls",
            "unencrypted to x.org",
        ),
        (ON + "notify: {xmpp: {jid: a@b, tls: 'off'}}", "notify.xmpp.tls", "found by DNS"),
        (ON + "notify: {xmpp: {jid: a@b, tls: direct, host: x}}", "notify.xmpp.port", "starttls"),
        (
            ON + "notify: {apprise: {targets: [{name: a b, url: 'json://x'}]}}",
            "notify.apprise.targets[0].name",
            "found 'a b'",
        ),
        (
            ON + "notify: {apprise: {targets: [{name: a, url: x}, {name: a, url: y}]}}",
            "notify.apprise.targets[1].name",
            "duplicate name 'a'",
        ),
        (ON + "notify: {per_minute: 0}", "notify.per_minute", "above 0"),
        (ON + "notify: {webhok: {}}", "notify.webhok", "did you mean 'webhook'"),
    ],
)
def test_what_cannot_work(text: str, path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    assert caught.value.path == path
    assert said in str(caught.value)


def test_nothing_is_told_unless_it_is_asked_for() -> None:
    assert not Config().notify.on
    assert read_config(ON + "notify: {xmpp: {jid: bot@example.org}}").notify.on


def test_secrets_are_not_shown() -> None:
    text = ON + "notify: {xmpp: {jid: a@b, password: hush}, apprise: {targets: [{name: a, url: 'x://hush'}]}}"
    assert "hush" not in as_yaml(read_config(text))
