"""Recordings of a node for tests: events, polls and subscriptions, written by the node's own writer."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

from penstock.model.event import Event
from penstock.node.channels.poll_log import POLLS, SUBSCRIPTIONS, PollRecord, SubscriptionRecord
from penstock.node.observe.recorder import TRACES, TraceRecord
from penstock.node.store.parquet import EVENTS, Kind, RecordFiles

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_US = 1_700_000_000_000_000


def record(folder: Path, kind: Kind, rows: list[object]) -> Path:
    """One complete file of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    files = RecordFiles(folder, kind, rotate_events=10**6, keep_bytes=1 << 30)
    ((path, _),) = files.record(rows, finish=True).finished
    return path


def events(count: int, *, start: int = 0, seed: int = 1) -> list[object]:
    """Pulses of four beds, a message each second from each, now and then one that matters."""
    random = Random(seed)
    pulses = [70.0] * 4
    found: list[object] = []
    for number in range(start, start + count):
        bed = number % 4
        pulses[bed] += random.gauss(0, 0.5)
        pulse = 150.0 if random.random() < 0.01 else pulses[bed]
        found.append(
            Event(
                f"ward/{bed}",
                json.dumps({"pulse": round(pulse, 1)}).encode(),
                ts_us=BEGIN_US + number * 250_000 + random.randrange(2_000),
                seq=number,
                sender=f"bed-{bed}",
            )
        )
    return found


def node(data: Path, count: int, *, start: int = 0, seed: int = 1) -> None:
    """Everything that a node records, one file of each kind."""
    random = Random(seed)
    begin_us = BEGIN_US + start * 250_000
    record(data / "recorded", EVENTS, events(count, start=start, seed=seed))
    urls = [f"http://site{number}.example/feed" for number in range(3)]
    record(
        data / "polls",
        POLLS,
        [
            PollRecord(
                url, begin_us + poll * 60_000_000, 200, random.random() < 0.2 * place + 0.1, 1_000, 5_000, ""
            )
            for poll in range(20)
            for place, url in enumerate(urls)
        ],
    )
    record(
        data / "subscriptions",
        SUBSCRIPTIONS,
        [SubscriptionRecord(url, "mqtt", begin_us, 1, place + 1) for place, url in enumerate(urls)],
    )
    record(
        data / "traces",
        TRACES,
        [
            TraceRecord(
                ts=begin_us + sample * 10_000_000,
                client="dash-1",
                filter="ward/#",
                policy="",
                level=sample % 3,
                items=sample,
                bytes=100 * sample,
                accepted=start + 40 * sample,
                delivered=start + 30 * sample,
                digested=10 * sample,
                counted=0,
                packs=sample,
                oldest_us=0,
                latency_p50_us=1_000,
                latency_p99_us=5_000,
            )
            for sample in range(1, 11)
        ],
    )
