"""Reading a configuration: what may be written, and what is said about what may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import ConfigError
from penstock.node.config import decode
from penstock.node.config.read import load
from penstock.node.config.schema import Config, Listener
from penstock.node.config.write import HIDDEN, as_yaml
from penstock.policy.text.forms import parse
from tests.kit import certificates
from tests.kit.configuration import read_config
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = ROOT / "examples" / "penstock.yaml"
HASH = "$argon2id$v=19$m=65536,t=3,p=4$c+cZ9mU+Hk01hj8cdVVADQ$jyYqGHDEmSN/rJg7sBtstTogATQdAddIoGvnIj7LEXI"
"""Of «a long secret»; the same in every process, as it stands in names of tests."""


def refused(source: str | Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(source)
    return [message for message, _ in caught.value.each()]


@pytest.mark.parametrize("text", ["", "# nothing said\n", "{}", "users:\nacl:\nbounds:\npolicies:\n"])
def test_what_is_not_said_has_its_default(text: str) -> None:
    assert read_config(text) == Config()


def test_the_example_can_be_used_and_gives_no_warning() -> None:
    loaded = load(EXAMPLE)
    assert loaded.warnings == ()
    assert loaded.config.users
    assert loaded.config.install


def test_units_stand_behind_numbers() -> None:
    config = read_config(
        "bounds: {packet_bytes: 2MiB, session_expiry_s: 7d, connect_s: 500ms}\nwatch_s: 1 min"
    )
    assert config.bounds.packet_bytes == 2 << 20
    assert config.bounds.session_expiry_s == 604_800
    assert config.bounds.connect_s == 0.5
    assert config.watch_s == 60


def test_words_mean_what_yaml_1_2_says() -> None:
    config = read_config(f"users: [{{name: no, password: '{HASH}'}}]\nacl: [{{user: no, topic: on/12:30}}]")
    assert config.users[0].name == "no"
    assert config.acl[0].topic == "on/12:30"


BAD = [
    ("listners: []", "1:1 listners: unknown setting (did you mean 'listeners'?); allowed: listeners, http"),
    ("http: {port: 1, port: 2}", "1:17 http.port: duplicate key, first at line 1, column 8"),
    ("a\n---\nb", "2:1: a second document begins"),
    ("http: &x {}", "1:7: the anchor 'x' is not supported"),
    ("http: [}", "1:8: not YAML"),
    ("- 1", "1:1: expected a mapping, found a list; allowed: listeners, http"),
    ("listeners: 3", "1:12 listeners: expected a list, found 3"),
    ("listeners: []", "1:12 listeners: a node needs at least one"),
    (
        "listeners: [{kind: tpc}]",
        "1:20 listeners[0].kind: found 'tpc' (did you mean 'tcp'?); allowed: tcp, tls",
    ),
    ("listeners: [{port: 65536}]", "1:20 listeners[0].port: found 65536; allowed: 0 to 65,535"),
    ("listeners: [{port: -1}]", "1:20 listeners[0].port: found -1; allowed: 0 to 65,535"),
    ("listeners: [{port: true}]", "1:20 listeners[0].port: expected a whole number, found true"),
    ("listeners: [{port: 1.5}]", "1:20 listeners[0].port: expected a whole number, found 1.5"),
    ("listeners: [{port: }]", "1:20 listeners[0].port: expected a whole number, found nothing"),
    ("listeners: [{}, {}]", "listeners[1].port: 127.0.0.1:1883 is already used by listeners[0].port"),
    ("http: {port: 1883}", "1:14 http.port: 127.0.0.1:1883 is already used by listeners[0].port"),
    ("listeners: [{host: ''}]", "1:20 listeners[0].host: is empty"),
    ("listeners: [{host: 127}]", "1:20 listeners[0].host: expected a text, found 127: put it into quotes"),
    ("listeners: [{kind: tls}]", "listeners[0].certificate: is required for a listener of kind tls"),
    (
        "listeners: [{certificate: a.pem}]",
        "1:27 listeners[0].certificate: is not used by a listener of",
    ),
    (
        "listeners: [{kind: tls, certificate: /nowhere/a.pem}]",
        "1:38 listeners[0].certificate: certificate /nowhere/a.pem: No such file or directory",
    ),
    ("listeners: [{kind: websocket, path: mqtt}]", "1:37 listeners[0].path: found 'mqtt'; allowed: /"),
    (
        "listeners: [{origins: [example.org]}]",
        "1:24 listeners[0].origins[0]: found 'example.org'; allowed: https",
    ),
    ("http: {host: 0.0.0.0}", "1:7 http.token: is required, because 0.0.0.0 is not a loopback address"),
    ("http: {token: ä}", "1:15 http.token: has characters that an HTTP header cannot carry"),
    ("http: {enabled: yes}", "1:17 http.enabled: expected true or false, found 'yes'"),
    ("data: /dev/null", "1:7 data: /dev/null is not a folder"),
    ("anonymous: loopbak", "1:12 anonymous: found 'loopbak' (did you mean 'loopback'?)"),
    ("users: [{name: ann}]", "1:9 users[0].password: is missing"),
    (
        "users: [{name: ann, password: secret}]",
        "1:31 users[0].password: is not an argon2 hash; allowed: the output of `penstock",
    ),
    (f"users: [{{name: a/b, password: '{HASH}'}}]", "1:16 users[0].name: 'a/b' is not a valid user name"),
    (
        f"users: [{{name: anonymous, password: '{HASH}'}}]",
        "1:16 users[0].name: 'anonymous' is not a valid user name",
    ),
    (
        f"users: [{{name: a, password: '{HASH}'}}, {{name: a, password: '{HASH}'}}]",
        "users[1].name: duplicate user 'a'",
    ),
    (
        "users: [{name: a, password: '" + HASH.replace("m=65536", "m=99999999") + "'}]",
        "users[0].password: costs 99999999 KiB and 3 rounds a check; at most",
    ),
    ("acl: [{topic: a/#/b}]", "1:15 acl[0].topic: 'a/#/b': + and # must be whole levels"),
    ("acl: [{topic: ''}]", "1:15 acl[0].topic: empty"),
    ("acl: [{topic: $share/g/a}]", "1:15 acl[0].topic: shared subscriptions are not allowed here"),
    ("acl: [{action: read}]", "1:16 acl[0].action: found 'read'; allowed: both, publish, subscribe"),
    (
        "policies: {a: {levels: [drop: {detla: 1}]}}",
        "1:32 policies.a.levels[0].drop: unknown filter 'detla' (did",
    ),
    (
        "policies: {a: 'levels: [drop: {within: 3}]'}",
        "1:15 policies.a: the policy cannot be used: text:1:25 levels",
    ),
    ("policies: {a: no.yaml}", "1:15 policies.a: no.yaml: cannot be read: No such file"),
    ("policies: {a: 3}", "1:15 policies.a: expected a policy, found 3"),
    (
        "policies: {vitals: {levels: [drop: uniq]}}\ninstall: [{policy: vital}]",
        "2:20 install[0].policy: there is no policy 'vital' (did you mean 'vitals'?); allowed: vitals",
    ),
    ("install: [{}]", "1:11 install[0].policy: is missing"),
    ("recorder: {topics: [a+]}", "1:21 recorder.topics[0]: 'a+': + and # must be whole levels"),
    ("queues: {events: 2}", "1:18 queues.events: found 2; allowed: 3 or more"),
    (
        "bounds: {packet_bytes: 1XB}",
        "1:24 bounds.packet_bytes: expected a whole number (bytes), found '1XB'; allowed",
    ),
    (
        "bounds: {packet_bytes: 0.5B}",
        "1:24 bounds.packet_bytes: expected a whole number (bytes), found '0.5B'",
    ),
    ("bounds: {connect_s: .inf}", "1:21 bounds.connect_s: found inf; allowed: above 0 to 3,600"),
    ("bounds: {connect_s: .nan}", "1:21 bounds.connect_s: found nan"),
    (f"bounds: {{connect_s: {10**350}}}", "1:21 bounds.connect_s: found 1000"),
    (f"bounds: {{sessions: {10**350}}}", "1:20 bounds.sessions: found 1000"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[said for _, said in BAD])
def test_a_problem_is_told_with_its_place(text: str, said: str) -> None:
    (problem,) = refused(text)
    assert said in problem


def test_the_old_name_of_a_setting_is_told_with_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        decode, "RENAMED_KEYS", {"limits": "bounds", "store": "data", "acl[].pattern": "acl[].topic"}
    )
    assert refused(
        "limits: {sessions: x}\nacl: [{user: a}, {pattern: b}]\nstore: a\nchannels: {log: true}\n"
    ) == [
        "1:1 limits: 'limits' is now 'bounds'",
        "2:19 acl[1].pattern: 'acl[].pattern' is now 'acl[].topic'",
        "3:1 store: 'store' is now 'data'",
    ]


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text("http: {port: x}\nusers:\n  - name: ann\nbounds:\n  sesions: 1\n")
    problems = refused(path)
    assert [problem.split()[0].removeprefix(f"{path}:") for problem in problems] == ["1:14", "3:5", "5:3"]


def test_a_problem_in_one_part_hides_none_in_another(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(
        "policies:\n  good: {levels: [{keep: {latest: 3}}]}\n  bad: {levels: [{drop: {detla: 5}}]}\n"
        "  gone: gone.yaml\n"
        "log: 3\n"
        "install:\n  - {client: '*', filter: a/#/b, policy: bad}\n  - {client: x, filter: a, policy: gone}\n"
        "  - {client: x, filter: a, policy: goood}\n"
        "http: {host: 0.0.0.0}\n"
    )
    found = [message.removeprefix(f"{path}:") for message in refused(path)]
    assert [message.split(":")[0] for message in found] == ["3", "4", "5", "7", "9", "10"]
    assert "unknown filter 'detla'" in found[0]
    assert "gone.yaml: cannot be read" in found[1]
    assert "log:" in found[2]
    assert "install[0].filter" in found[3]
    assert "there is no policy 'goood' (did you mean 'good'?)" in found[4]
    assert "http.token: is required" in found[5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: 3\nchannels: {enabled: true, log: true}", "data"),
        ("dta: here\nchannels: {enabled: true, log: true}", "dta"),
        ("policies: 3\ninstall: [{client: x, filter: a, policy: some}]", "policies"),
        ("listeners: [{kind: tls, certifcate: x}]", "listeners[0].certifcate"),
        ("http: [}\ninstall: [{client: x, filter: a, policy: some}]", "not YAML"),
    ],
)
def test_what_follows_from_a_problem_is_not_told_as_another(text: str, said: str) -> None:
    (found,) = refused(text)
    assert said in found


def test_an_error_says_how_many_more_there_are() -> None:
    with pytest.raises(ConfigError, match="and 1 more: see `penstock config check`"):
        load("a: 1\nb: 2")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff", "is not UTF-8 at offset 0"),
        (b"#" * (4 << 20) + b"##", "is larger than"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "penstock.yaml"
    if content is not None:
        path.write_bytes(content)
    assert refused(path) == [f"{path}: {refused(path)[0].partition(': ')[2]}"]
    assert said in refused(path)[0]


def test_policies_are_written_out_in_texts_or_in_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "c.yaml").write_text("levels: [drop: {delta: 3}]")
    path = tmp_path / "penstock.yaml"
    path.write_text(
        "policies:\n  a: {levels: [drop: {delta: 1}]}\n  b: |\n    levels:\n      - drop: {delta: 2}\n"
        "  c: folder/c.yaml\n"
    )
    loaded = load(path)
    assert loaded.config.policies.keys() == {"a", "b", "c"}
    for name, change in (("a", 1), ("b", 2), ("c", 3)):
        assert parse(loaded.config.policies[name]) == parse(f"levels: [drop: {{delta: {change}}}]")
    assert loaded.files == (path, tmp_path / "folder" / "c.yaml")


def test_a_bad_policy_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("levels:\n  - drop: {detla: 3}\n")
    path = tmp_path / "penstock.yaml"
    path.write_text("policies:\n  a: p.yaml\n")
    (problem,) = refused(path)
    assert problem.startswith(
        f"{path}:2:6 policies.a: the policy cannot be used: {tmp_path}/p.yaml:2:12 levels"
    )


def test_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text("data: here\n")
    assert read_config(path).data == str(tmp_path / "here")
    path.write_text("data: /there\n")
    assert read_config(path).data == "/there"
    path.write_text("data: ''\n")
    assert read_config(path).data == ""


def test_the_token_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    path, secret = tmp_path / "penstock.yaml", tmp_path / "token"
    path.write_text("http: {host: 0.0.0.0, token_file: token}\n")
    assert refused(path) == [
        f"{path}:1:35 http.token_file: {secret} cannot be read: No such file or directory"
    ]
    secret.write_text("\n")
    assert "the first line" in refused(path)[0]
    secret.write_text("a-long-random-text-of-40-characters-0000\nsecond line\n")
    loaded = load(path)
    assert loaded.config.http.token == "a-long-random-text-of-40-characters-0000"  # noqa: S105
    assert secret in loaded.files
    assert load(_written(tmp_path / "again.yaml", as_yaml(loaded.config))).config == loaded.config
    path.write_text("http: {token: abc, token_file: token}\n")
    assert refused(path) == [f"{path}:1:32 http.token_file: is given beside http.token; allowed: one of them"]


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_tls_files_are_tried(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    path = tmp_path / "penstock.yaml"
    path.write_text("listeners: [{kind: tls, certificate: server.pem, key: server.key, client_ca: ca.pem}]")
    loaded = load(path)
    assert set(loaded.files) == {path, made.server, made.server_key, made.ca}
    path.write_text("listeners: [{kind: tls, certificate: server.pem, key: client.key}]")
    assert "the key does not belong to the certificate" in refused(path)[0]
    path.write_text("listeners: [{kind: tls, certificate: server.pem}]")
    assert "listeners[0].certificate: certificate" in refused(path)[0]
    path.write_text("listeners: [{kind: tls, certificate: server.pem, key: server.key, client_ca: ca.key}]")
    assert "client_ca" in refused(path)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listeners: [{host: 0.0.0.0}]\nanonymous: always", "whoever reaches tcp 0.0.0.0:1883 can connect"),
        ("listeners: [{host: 0.0.0.0}]", "nobody can connect to tcp 0.0.0.0:1883 from another machine"),
        (
            f"listeners: [{{host: 0.0.0.0}}]\nusers: [{{name: a, password: '{HASH}'}}]",
            "passwords are sent unencrypted at tcp 0.0.0.0:1883",
        ),
        ("http: {token: short}", "http.token: fewer than 16 characters"),
        ("http: {host: '::', token: 0123456789abcdef}", "http: the token is sent unencrypted"),
        (
            f"users: [{{name: ann, password: '{HASH}'}}]\nacl: [{{user: anna}}]",
            "acl[0].user: there is no user 'anna' (did you mean 'ann'?)",
        ),
        ("policies: {a: {levels: [keep: {delta: 3}]}}", "policy a: "),
    ],
)
def test_what_is_surely_not_meant_is_warned_of(text: str, said: str) -> None:
    (warning,) = load(text).warnings
    assert said in warning


def test_the_command_line_counts_more_and_is_checked() -> None:
    def elsewhere(config: Config) -> Config:
        return Config(listeners=(Listener(port=config.http.port),), http=config.http)

    with pytest.raises(ConfigError, match=r"http\.port: 127\.0\.0\.1:9000 is already used by listeners"):
        load("http: {port: 9000}", change=elsewhere)


def test_what_is_shown_can_be_read_again_and_holds_no_secret() -> None:
    config = read_config(
        f"users: [{{name: ann, password: '{HASH}'}}]\n"
        "http: {token: 0123456789abcdef}\n"
        "policies: {a: {levels: [drop: {delta: 1}], description: 'a: b'}}\n"
        "acl: [{user: 'no', topic: 12:30/#}]\n"
    )
    text = as_yaml(config)
    assert HASH not in text
    assert "0123456789abcdef" not in text
    shown = read_config(
        text.replace(f"password: {HIDDEN}", f"password: {HASH}").replace(HIDDEN, "0123456789abcdef")
    )
    assert shown == config


@pytest.mark.parametrize(("old", "new"), decode.RENAMED_KEYS.items())
def test_renamed_settings_exist_under_their_new_name_only(old: str, new: str) -> None:
    *above, name = old.split(".")
    start = "".join(f"{part}: {{" for part in above)
    said = refused(f"{start}{name}: 1{'}' * len(above)}")
    assert said == [f"1:{len(start) + 1} {old}: '{old}' is now '{new}'"]
    found: object = Config()
    for part in new.split("."):
        found = getattr(found, part)
