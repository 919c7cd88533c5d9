"""Reading byte-level cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock_lab.experiments.conformance.vectors import (
    Case,
    ConnectionCheck,
    ExternalPublish,
    Receive,
    Request,
    Send,
    read_vectors,
    token_bytes,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("", b""),
        ("10 0FfF", b"\x10\x0f\xff"),
        ("i7 H258 k10 m1234 s4 L65537", b"\x07\x01\x02\x00\x0a\x04\xd2\x00\x04\x00\x01\x00\x01"),
        ("r0 r127 v128 r16384", b"\x00\x7f\x80\x01\x80\x80\x01"),
        ("r268435456", b"\x80\x80\x80\x80\x01"),
        ("s4 'MQTT' 's p' 'é'", b"\x00\x04MQTTs p\xc3\xa9"),
    ],
)
def test_tokens_are_bytes(tokens: str, expected: bytes) -> None:
    assert token_bytes(tokens) == expected


@pytest.mark.parametrize("tokens", ["1", "x1", "'open", "i256", "H65536", "10 zz", "r"])
def test_other_tokens_are_refused(tokens: str) -> None:
    with pytest.raises(ValueError, match="token"):
        token_bytes(tokens)


GROUP = """
[{"group": "v5.0   THINGS", "ver": 5, "connect": false, "tests": [
  {"name": "one ", "msgs": [
    {"type": "send", "payload": "C0 r0"}, {"type": "recv", "payload": "D0 00"},
    {"type": "external_publish", "topic": "p", "qos": 1, "payload": "message"},
    {"type": "subscribe", "topic": "a", "qos": 2}, {"type": "unsubscribe", "topic": "a"},
    {"type": "connected_check"}, {"type": "disconnected_check"}]},
  {"name": "two", "ver": 4, "connect": true, "expect_disconnect": false, "msgs": []}]}]
"""


def test_a_file_is_groups_of_cases(tmp_path: Path) -> None:
    (tmp_path / "THINGS.json").write_text(GROUP)
    assert read_vectors(tmp_path) == [
        Case(
            file="THINGS",
            group="v5.0 THINGS",
            name="one ",
            version=5,
            connect=False,
            expect_disconnect=True,
            messages=(
                Send(data=b"\xc0\x00"),
                Receive(data=b"\xd0\x00"),
                ExternalPublish(topic="p", payload=b"message", qos=1, retain=False),
                Request(what="subscribe", topic="a", qos=2),
                Request(what="unsubscribe", topic="a", qos=0),
                ConnectionCheck(connected=True),
                ConnectionCheck(connected=False),
            ),
        ),
        Case(
            file="THINGS",
            group="v5.0 THINGS",
            name="two",
            version=4,
            connect=True,
            expect_disconnect=False,
            messages=(),
        ),
    ]
    assert read_vectors(tmp_path)[0].title == "THINGS: v5.0 THINGS: one"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"group": 1}',
        '[{"group": "g", "ver": 5, "tests": [{"name": "n"}]}]',
        '[{"group": "g", "ver": 5, "tests": [{"name": "n", "msgs": [{"type": "shout"}]}]}]',
        '[{"group": "g", "ver": 5, "tests": [{"name": "n", "msgs": [{"type": "send", "payload": "x"}]}]}]',
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(InputError, match=r"odd\.json"):
        read_vectors(tmp_path)


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \*\.json files"):
        read_vectors(tmp_path)
    with pytest.raises(InputError):
        read_vectors(tmp_path / "nowhere")
