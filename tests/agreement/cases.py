"""Generated (policy, queue) cases by seed: small pools of values, so that filters meet what they look for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, cast

import cbor2
import msgspec

from penstock.model import Cause, Control, Digest, Event, Item
from penstock.policy import digesters, evaluate, filters
from penstock.policy.filters import Verb
from penstock.policy.nodes import Level, Missing, PayloadFormat, Policy, Step

SECOND = 1_000_000
NAN = float("nan")
NUMBERS: list[Any] = [0, 1, -1, 5, 5.0, 49.5, 50, 72, 100, 100.5, -0.0, 2**53, 2**53 + 1, 10**30, 1e308]
TEXTS: list[Any] = ["", "a", "b", "zu", "Zürich", "日本", "😀", "5", "true", "null", "Info", "a\nb"]
ODD: list[Any] = [None, NAN, True, False, float("inf"), float("-inf"), {"x": 1}]
LISTS: list[Any] = [[], ["a"], ["a", "b"], [1, "a", None], [5.0, True], [["a"]]]
WALK: list[Any] = [70, 70, 70.25, 71, 72, 72, 50, 100, 120]
LARGE: list[Any] = [2**53, 2**53 + 1, 2**53 + 2, 7]
PATHS = ["v", "w.x", "tags", "w.y.0", "$topic", "$ts", "$size", "$sender", "$prop.unit", "$value", '"a.b"']
PATTERNS = ["a", "^a$", "ü|日", "[0-9]+", "(?i)ZU", "^$", "."]


@dataclass(frozen=True)
class Case:
    """One question to every engine."""

    policy: Policy
    items: list[Item]
    level: int
    now_us: int


def case(seed: int, *, most: int = 40) -> Case:
    """The case of a seed."""
    dice = Random(seed)
    policy = a_policy(dice)
    size = dice.choice([0, 1, 2, dice.randrange(most), most])
    now_us = 10 * SECOND + dice.randrange(5 * SECOND)
    return Case(policy, a_queue(dice, size), dice.randint(0, policy.highest), now_us)


def a_policy(dice: Random) -> Policy:
    levels = tuple(a_level(dice) for _ in range(dice.randint(1, 4)))
    names = dice.sample(list(digesters.CATALOGUE), dice.randint(0, 4))
    return Policy(
        levels=levels,
        attribute=dice.choice(["v", "v", "v", *PATHS]),
        digest=tuple((dice.choice(["v", "v", *PATHS]), name) for name in names),
        missing=dice.choice([Missing.KEEP, Missing.KEEP, Missing.DROP]),
        payload=dice.choice([PayloadFormat.AUTO, PayloadFormat.AUTO, *PayloadFormat]),
    )


def a_level(dice: Random) -> Level:
    return tuple(a_step(dice) for _ in range(dice.choice([1, 1, 1, 2, 3])))


def a_step(dice: Random) -> Step:
    kind = dice.choice(list(filters.CATALOGUE.values()))
    attribute = dice.choice(PATHS) if kind.reads and dice.random() < 0.3 else None
    missing = dice.choice([None, None, None, *Missing])
    verb = kind.verb if dice.random() < 0.7 else dice.choice(list(Verb))
    return Step(verb, a_filter(dice, kind), attribute, missing)


def a_filter(dice: Random, kind: Any) -> filters.Filter:
    scalar = dice.choice([*NUMBERS[:-2], *TEXTS, True, False])
    members = tuple(dice.sample([*NUMBERS[:-2], *TEXTS, True, False], dice.randint(1, 12)))
    number = dice.choice([0, 5, 49.5, 72, 100])
    text = dice.choice(TEXTS)
    maker: dict[type[filters.Filter], Any] = {
        filters.Within: lambda: (
            {"low": number, "high": number + dice.choice([0, 1, 50])}
            if dice.random() < 0.8
            else {"low": "", "high": text}
        ),
        filters.Match: lambda: {"pattern": dice.choice(PATTERNS)},
        filters.Delta: lambda: {
            "change": dice.choice([0.5, 1, 5, 60]),
            "since": dice.choice(["kept", "event"]),
            "max_silence": dice.choice([None, None, 0.5, 2]),
        },
        filters.Swing: lambda: {"deviation": dice.choice([0.1, 1, 5, 50])},
        filters.Latest: lambda: {"n": dice.choice([1, 2, 10, 100])},
        filters.LatestBy: lambda: {"by": dice.choice(PATHS), "n": dice.choice([1, 1, 2, 5])},
        filters.Every: lambda: {"n": dice.choice([1, 2, 3, 50])},
        filters.Random: lambda: {
            "fraction": dice.choice([0, 0.1, 0.5, 1]),
            "seed": dice.choice([None, 0, 7]),
        },
        filters.Older: lambda: {"seconds": dice.choice([0.5, 3, 20])},
        filters.Throttle: lambda: {
            "seconds": dice.choice([0.25, 1, 3.3]),
            "by": dice.choice([None, None, *PATHS]),
        },
        filters.Top: lambda: {
            "n": dice.choice([1, 3, 50]),
            "by": dice.choice([None, None, *PATHS]),
            "order": dice.choice(["largest", "smallest"]),
        },
        filters.Uniq: dict,
        filters.Guniq: dict,
        filters.First: lambda: {"values": dice.choice([None, members])},
        filters.Last: lambda: {"values": dice.choice([None, members])},
    }
    if kind in maker:
        return cast("filters.Filter", kind(**maker[kind]()))
    if kind in (filters.Gt, filters.Ge, filters.Lt, filters.Le):
        return cast("filters.Filter", kind(value=number if dice.random() < 0.8 else text))
    if kind in (filters.Eq, filters.Ne, filters.Contain):
        return cast("filters.Filter", kind(value=scalar))
    return cast("filters.Filter", kind(values=members))


def a_queue(dice: Random, size: int) -> list[Item]:
    """Events in mostly rising time, with digests and control items among them in some queues."""
    mixed = dice.random() < 0.5
    plain = dice.choice([None, None, None, WALK, WALK, LARGE])
    ts_us = 0
    items: list[Item] = []
    for seq in range(size):
        ts_us += dice.choice([0, 1, 1000, SECOND // 4, SECOND])
        item: Item = an_event(dice, seq, ts_us - dice.choice([0, 0, 0, 0, SECOND]), plain=plain)
        if mixed and dice.random() < 0.25:
            digest, control = a_digest(dice, seq, ts_us), Control(kind="mark", body=b"%d" % seq)
            item = digest if dice.random() < 0.5 else control
        items.append(item)
    return items


def an_event(dice: Random, seq: int, ts_us: int, *, plain: list[Any] | None) -> Event:
    payload, content_type = a_payload(dice, plain=plain)
    return Event(
        topic=dice.choice(["a", "a/b", "ü"]),
        payload=payload,
        ts_us=ts_us,
        sender=dice.choice(["s1", "s2", "日"]),
        seq=seq,
        properties=dice.choice([(), (("unit", "bpm"),), (("unit", "a"), ("unit", "b")), (("x", "y"),)]),
        content_type=content_type,
    )


def a_payload(dice: Random, *, plain: list[Any] | None) -> tuple[bytes, str]:
    if plain is not None:
        return msgspec.json.encode({"v": dice.choice(plain)}), ""
    value = dice.choice([*NUMBERS, *NUMBERS, *TEXTS, *ODD])
    root: dict[str, Any] = {
        "v": value,
        "w": {"x": dice.choice(NUMBERS), "y": [dice.choice(TEXTS)]},
        "tags": dice.choice([*LISTS, *LISTS, 3]),
        "a.b": dice.choice(TEXTS),
    }
    for key in list(root):
        if dice.random() < 0.15:
            del root[key]
    kind = dice.randrange(10)
    if kind < 5:
        return _json(root), dice.choice(["", "", "application/json; charset=utf-8", "image/png"])
    if kind == 5 and not _too_long(root):
        return msgspec.msgpack.encode(root), dice.choice(["", "application/msgpack"])
    if kind == 6:
        return cbor2.dumps(root), dice.choice(["", "application/cbor"])
    return dice.choice([b"72.5", b" +5 ", b"hello", b"\xff\xfe", b"", b"null", b"[1, 2]", b'"x"', b"{"]), ""


def _json(root: dict[str, Any]) -> bytes:
    return msgspec.json.encode(root)  # NaN and infinities become null: JSON has none


def _too_long(root: dict[str, Any]) -> bool:
    """MessagePack carries whole numbers of 64 bits only."""
    return 10**30 in (root.get("v"), root.get("w", {}).get("x"))


def a_digest(dice: Random, seq: int, ts_us: int) -> Digest:
    """A digest as an upstream node with another policy would have made it."""
    policy = a_policy(dice)
    events = [an_event(dice, seq, ts_us, plain=dice.choice([None, WALK])) for _ in range(dice.randint(1, 3))]
    (digest,) = evaluate.collapse(
        policy, events, cause=Cause(level=dice.randrange(3), position=1, filter="up")
    )
    assert isinstance(digest, Digest)
    return digest
