"""Digests from two places, sent as bytes and merged: equal to one digest of all events."""

import json
from functools import reduce

from penstock import Digest, Event
from penstock.model import digest_wire
from penstock.policy import evaluate, keep, policy

POLICY = policy(
    keep.latest(1),
    attribute="temperature",
    digest={"temperature": ["mean", "stddev", "min", "max", "quantiles"], "device": ["distinct"]},
)


def events(first: int, count: int) -> list[Event]:
    """Return readings of 40 devices, one a second."""
    return [
        Event(
            topic="plant/temperature",
            payload=json.dumps({"device": f"d{n * 7 % 40}", "temperature": 20 + n % 50 / 10}).encode(),
            ts_us=n * 1_000_000,
            seq=n,
        )
        for n in range(first, first + count)
    ]


def digest_of(queue: list[Event]) -> Digest:
    """Return one digest of a whole queue."""
    (digest,) = evaluate.collapse(POLICY, queue)
    return digest


wire = [digest_wire.to_bytes(digest_of(events(0, 600))), digest_wire.to_bytes(digest_of(events(600, 400)))]
print(f"two digests of {len(wire[0])} and {len(wire[1])} bytes")

merged = reduce(Digest.merge, map(digest_wire.from_bytes, wire))
whole = digest_of(events(0, 1000))
print(f"as many as in one digest of everything: {merged.count == whole.count}")

found = digest_wire.to_json(merged)
temperature = found["attributes"]["temperature"]
print(f"{found['count']} events, numbers {found['seq'][0]} to {found['seq'][1]}")
print(f"mean {temperature['mean']:.3f}, standard deviation {temperature['stddev']:.3f}")
print(f"from {temperature['min']} to {temperature['max']}, median about {temperature['quantiles']['0.5']}")
print(f"about {found['attributes']['device']['distinct']} devices")
