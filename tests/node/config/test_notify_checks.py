"""What a configuration says about telling that cannot work is said with its place."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.node.config.read import read_config
from penstock.node.config.schema import Config
from penstock.node.config.write import as_yaml

WEB = "web: {enabled: true}\n"


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("telling: {webhook: {enabled: true}}", "telling", "nothing to tell"),
        (WEB + "telling: {base_url: 'ftp://x'}", "telling.base_url", "must begin with http"),
        (WEB + "telling: {base_url: 'https://x/?a'}", "telling.base_url", "has a query"),
        (WEB + "http: {port: 0}\ntelling: {feeds: {enabled: true}}", "telling.base_url", "is needed"),
        (WEB + "http: {enabled: false}\ntelling: {hub: {enabled: true}}", "telling.hub.enabled", "over HTTP"),
        (WEB + "telling: {networks: [10.0.0.1/8]}", "telling.networks[0]", "host bits"),
        (WEB + "telling: {xmpp: {jid: bot}}", "telling.xmpp.jid", "found 'bot'"),
        (
            WEB + "telling: {xmpp: {jid: a@b, tls: 'off', host: x.org}}",
            "telling.xmpp.tls",
            "readable, to x.org",
        ),
        (WEB + "telling: {xmpp: {jid: a@b, tls: 'off'}}", "telling.xmpp.tls", "that DNS names"),
        (WEB + "telling: {xmpp: {jid: a@b, tls: direct, host: x}}", "telling.xmpp.port", "starttls"),
        (
            WEB + "telling: {apprise: {targets: [{name: a b, url: 'json://x'}]}}",
            "telling.apprise.targets[0].name",
            "found 'a b'",
        ),
        (
            WEB + "telling: {apprise: {targets: [{name: a, url: x}, {name: a, url: y}]}}",
            "telling.apprise.targets[1].name",
            "stands twice",
        ),
        (WEB + "telling: {per_minute: 0}", "telling.per_minute", "above 0"),
        (WEB + "telling: {webhok: {}}", "telling.webhok", "did you mean 'webhook'"),
    ],
)
def test_what_cannot_work(text: str, path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    assert caught.value.path == path
    assert said in str(caught.value)


def test_nothing_is_told_unless_it_is_asked_for() -> None:
    assert not Config().telling.on
    assert read_config(WEB + "telling: {xmpp: {jid: bot@example.org}}").telling.on


def test_secrets_are_not_shown() -> None:
    text = (
        WEB + "telling: {xmpp: {jid: a@b, password: hush}, apprise: {targets: [{name: a, url: 'x://hush'}]}}"
    )
    assert "hush" not in as_yaml(read_config(text))
