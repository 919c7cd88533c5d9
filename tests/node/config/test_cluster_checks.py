"""Settings of the cluster that cannot work are reported with their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock.errors import ConfigError
from penstock.node.config.cluster import Address, address_of
from penstock.node.config.read import load
from penstock.node.config.reload import applicable
from penstock.node.config.schema import Config
from penstock.node.config.write import as_yaml
from tests.kit.certificates import make
from tests.kit.configuration import read_config

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("cluster", "path", "said"),
    [
        ("{node: n1}", "cluster.name", "is required"),
        ("{name: a/b}", "cluster.name", "found 'a/b'"),
        ("{name: a, node: 'n 1'}", "cluster.node", "letters, digits"),
        (f"{{name: a, zone: {'z' * 65}}}", "cluster.zone", "at most 64"),
        ("{name: a, listen: 127.0.0.1}", "cluster.listen", "as tcp/10.0.0.1:7447"),
        ("{name: a, listen: 'udp/127.0.0.1:1'}", "cluster.listen", "found 'udp/127.0.0.1:1'"),
        ("{name: a, listen: 'tcp/127.0.0.1:70000'}", "cluster.listen", "found"),
        ("{name: a, join: ['127.0.0.1:0']}", "cluster.join[0]", "port 0"),
        ("{name: a, join: ['x y:1']}", "cluster.join[0]", "found 'x y:1'"),
        ("{name: a, listen: 'tcp/0.0.0.0:7447'}", "cluster.listen", "could join"),
        ("{name: a, advertise: ['mqtt://a:1', '10.0.0.1:1883']}", "cluster.advertise[1]", "and the port"),
        ("{name: a, advertise: ['mqtt://0.0.0.0:1883']}", "cluster.advertise[0]", "found 'mqtt://0.0.0.0"),
        ("{name: a, advertise: ['mqtt://a']}", "cluster.advertise[0]", "and the port"),
        ("{name: a, listen: 'tls/10.0.0.1:7447'}", "cluster.listen", "could join"),
        ("{name: a, listen: 'tls/127.0.0.1:7447'}", "cluster.certificate", "is required"),
        ("{name: a, certificate: x.pem}", "cluster.certificate", "no address begins with tls/"),
        (
            "{name: a, listen: 'tls/127.0.0.1:7447', certificate: no.pem, key: no.key, ca: no.pem}",
            "cluster.certificate",
            "No such file",
        ),
        (
            "{name: a, direct: 127.0.0.1}",
            "cluster.direct",
            "as tcp/10.0.0.1:7448 or tls/10.0.0.1:7448, or off",
        ),
        ("{name: a, direct: on}", "cluster.direct", "found 'on'"),
        ("{name: a, direct: 'tcp/10.0.0.1:7448'}", "cluster.direct", "could join"),
        (
            "{name: a, listen: 'tls/127.0.0.1:7447', direct: 'tcp/127.0.0.1:0'}",
            "cluster.direct",
            "is not encrypted, and cluster.listen tls/127.0.0.1:7447 is",
        ),
        (
            "{name: a, direct_advertise: 10.0.0.1}",
            "cluster.direct_advertise",
            "host and port, as 10.0.0.1:7448",
        ),
        ("{name: a, direct_advertise: '10.0.0.1:0'}", "cluster.direct_advertise", "found '10.0.0.1:0'"),
        ("{name: a, direct_advertise: '0.0.0.0:7448'}", "cluster.direct_advertise", "found"),
        ("{name: a, direct: off, direct_advertise: '10.0.0.1:1'}", "cluster.direct_advertise", "is off"),
        ("{name: a, password: 'a:b'}", "cluster.password", "colon"),
        ("{name: a, password: x, password_file: y}", "cluster.password_file", "one of them"),
        ("{name: a, password_file: nowhere}", "cluster.password_file", "cannot be read"),
        ("{name: a, wait_s: 61}", "cluster.wait_s", "60"),
        ("{name: a, joins: []}", "cluster.joins", "did you mean 'join'"),
    ],
)
def test_what_cannot_work(cluster: str, path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(f"cluster: {cluster}")
    found = [str(caught.value), *(str(one) for one in caught.value.also)]
    assert any(path in one and said in one for one in found), found


def test_a_password_or_certificates_open_other_addresses(tmp_path: Path) -> None:
    read_config("cluster: {name: a, listen: 'tcp/10.0.0.1:7447', password: secret}")
    made = make(tmp_path)
    files = f"certificate: {made.server}, key: {made.server_key}, ca: {made.ca}"
    read_config(f"cluster: {{name: a, listen: 'tls/10.0.0.1:7447', {files}}}")


def test_a_password_is_read_from_its_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\nmore\n")
    path = tmp_path / "penstock.yaml"
    path.write_text("cluster: {name: a, password_file: secret}")
    loaded = load(path)
    assert loaded.config.cluster.password == "hush"  # noqa: S105
    assert tmp_path / "secret" in loaded.files


def test_unencrypted_addresses_are_warned_about() -> None:
    loaded = load("cluster: {name: a, listen: 'tcp/10.0.0.1:7447', password: secret}")
    assert any("unencrypted at tcp/10.0.0.1:7447" in one for one in loaded.warnings)


def test_unencrypted_direct_connections_are_warned_about() -> None:
    loaded = load("cluster: {name: a, direct: 'tcp/10.0.0.1:7448', password: secret}")
    assert any("cluster.direct: messages cross the network unencrypted" in one for one in loaded.warnings)
    assert load("cluster: {name: a, direct: off}").config.cluster.direct == "off"


def test_a_cluster_is_joined_and_left_at_the_next_start() -> None:
    alone, clustered = Config(), read_config("cluster: {name: a}")
    for running, wanted in ((alone, clustered), (clustered, alone)):
        config, waiting = applicable(running, wanted)
        assert (config.cluster, waiting) == (running.cluster, ["cluster"])


def test_a_member_applies_what_it_can_and_names_what_waits_for_the_next_start() -> None:
    running = read_config("cluster: {name: a, node: n1, wait_s: 1}")
    wanted = read_config(
        "cluster: {name: b, node: n1, gossip: false, listen: 'tcp/127.0.0.1:7448', join: ['tcp/127.0.0.1:1'],"
        " zone: east, fan_out: 2, advertise: ['mqtt://127.0.0.1:1'], wait_s: 5, move_s: 4, queue_events: 7,"
        " queue_bytes: 1000}"
    )
    config, waiting = applicable(running, wanted)
    assert waiting == ["cluster.name", "cluster.listen", "cluster.gossip"]
    back = {"name": "a", "listen": "", "gossip": True}
    assert config.cluster == msgspec.structs.replace(wanted.cluster, **back)
    assert applicable(config, config) == (config, [])


def test_a_configuration_is_written_as_it_was_read() -> None:
    config = read_config("cluster: {name: a, node: n1, join: ['tcp/127.0.0.1:7447'], zone: east}")
    assert read_config(as_yaml(config)) == config


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1:7447", Address("tcp", "10.0.0.1", 7447)),
        ("tls/[::1]:1", Address("tls", "::1", 1)),
        ("node.example.org:65535", Address("tcp", "node.example.org", 65_535)),
        ("tcp/:1", None),
        ("1.2.3.4", None),
        ("", None),
    ],
)
def test_addresses(text: str, found: Address | None) -> None:
    assert address_of(text) == found
    if found is not None:
        assert address_of(str(found)) == found
