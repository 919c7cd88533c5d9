"""Policies in every form, damaged as texts: sent by SUBSCRIBE, by HTTP, or read in this process.

What carries a policy is valid, so that every text reaches the parsers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from penstock.mqtt.codes import V5
from penstock.mqtt.fields import encode_varint
from penstock.mqtt.packets.connect import Connect, Disconnect
from penstock.mqtt.packets.packet import encode
from penstock.node.http.routes import API
from penstock.policy.text.forms import parse, to_json, to_xml, to_yaml
from penstock_lab.experiments.fuzz.exchange import damaged, spliced

if TYPE_CHECKING:
    from random import Random

    from penstock_lab.experiments.fuzz.exchange import Door

MOST_BYTES: Final = 60_000
"""Longest policy sent: an MQTT user property holds 65,535 bytes."""

_WRITTEN: Final = (
    "levels: [{keep: {latest: 10}}]",
    "{attribute: pulse, digest: [mean, max], levels: [{drop: {within: [50, 100]}}, {keep: {latest: 10}}]}",
    """
name: ward
attribute: vitals.pulse
missing: drop
payload: json
digest: {vitals.pulse: [count, distinct], $topic: [quantiles, last]}
levels:
  - [{drop: {delta: 5}}, {drop: {inset: [1, 2, 'x', true]}}]
  - keep: {random: 0.5}
  - drop: uniq
""",
    "levels: [{drop: {match: '^AP-[0-9]{2}$', attribute: $topic}}, {keep: {gt: 100, attribute: a.b.0}}]",
    "levels: [{keep: {every: 10}}, {keep: {latest: 2, missing: drop}}, {drop: {older: 60}}]",
)


def _in_every_form(text: str) -> list[bytes]:
    policy = parse(text)
    written = (text, to_yaml(policy), to_json(policy), to_json(policy, compact=True), to_xml(policy))
    return [each.encode() for each in written]


TEXTS: Final = tuple(form for text in _WRITTEN for form in _in_every_form(text))

TOKENS: Final = (
    b"&a ",
    b"*a",
    b"<<: *a\n",
    b"&a [*a, *a]",
    b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n",
    b"!!python/object/apply:os.system [x]",
    b"!!binary x",
    b"!!timestamp 2024-99-99",
    b"? ",
    b"---\n",
    b"...\n",
    b"%YAML 9.9\n",
    b"\t",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"[" * 500,
    b"{" * 500,
    b"- " * 300,
    b"<a>" * 300,
    b'<!DOCTYPE a [<!ENTITY b "cccccccc"><!ENTITY d "&b;&b;&b;&b;">]>',
    b'<!DOCTYPE a SYSTEM "file:///etc/passwd">',
    b"<![CDATA[",
    b"<?xml version='1.0' encoding='utf-16'?>",
    b"&#0;",
    b"&#xD800;",
    b"1e999",
    b"-.inf",
    b".nan",
    b"0x" + b"f" * 400,
    b"9" * 5_000,
    b"1:" * 200 + b"1",
    b"'",
    b'"\\uD800"',
    b"(" * 200,
    b"(a*)*" * 40,
    b"a{1000}{1000}",
    b"levels: ",
    b"drop: ",
    b"\n  ",
    b": ",
    b"#",
)


def valid(dice: Random) -> list[bytes]:
    """Return one policy, damaged or not."""
    text = dice.choice(TEXTS)
    for _ in range(dice.choice((0, 1, 1, 2, 3, 8))):
        if not text:
            break
        match dice.randrange(5):
            case 0:
                text = spliced(text, dice.choice(TEXTS), dice)
            case 1:
                at = dice.randrange(len(text))
                end = at + dice.randint(1, 40)
                text = text[:end] + text[at:end] * dice.choice((1, 5, 100, 1000)) + text[end:]
            case _:
                text = damaged(text, dice, TOKENS)
        text = text[:MOST_BYTES]
    return [text]


def carried(text: bytes, dice: Random) -> tuple[Door, list[bytes]]:
    """Decide how a policy travels; returns the door and the pieces."""
    way = dice.randrange(4)
    if way == 0:
        return "mqtt", [*_subscribe(text), encode(Disconnect(), V5)]
    if way == 1:
        where = dice.choice(("check", "check", "try"))
        asked = {"policy": text.decode("utf-8", "surrogateescape")}
        if where == "try":
            asked |= {"filter": "none/of/these", "seconds": 0.01, "events": 1}  # type: ignore[dict-item]
        body = json.dumps(asked).encode()
        head = f"POST {API}/policy/{where} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return "http", [head.encode(), body]
    return "process", [text]


def _subscribe(text: bytes) -> list[bytes]:
    """A CONNECT and a SUBSCRIBE with the policy, byte by byte: the text need not be UTF-8."""
    name = b"\x26\x00\x06policy" + len(text).to_bytes(2) + text
    body = b"\0\1" + encode_varint(len(name)) + name + b"\0\6fuzz/p\0"
    return [encode(Connect(), V5), b"\x82" + encode_varint(len(body)) + body]
