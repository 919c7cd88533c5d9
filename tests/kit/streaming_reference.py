"""The expected packed stream: the queue core run over the triggers that a checkpoint records."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from penstock.core.queues import Ladder, PackingQueue, QueueOptions
from penstock.model import Event

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy


def triggers(checkpoint: Path) -> list[tuple[int, list[Path]]]:
    """The time of each trigger in microseconds, as Spark wrote it down before, and the files it read."""
    files: dict[int, dict[str, None]] = defaultdict(dict)
    for log in (checkpoint / "sources" / "0").iterdir():
        if log.name.startswith("."):
            continue
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files[entry["batchId"]][unquote(urlparse(entry["path"]).path)] = None
    found = []
    for batch in sorted(int(log.name) for log in (checkpoint / "offsets").iterdir() if log.name.isdigit()):
        said = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[1])
        found.append((said["batchTimestampMs"] * 1000, [Path(path) for path in files[batch]]))
    return found


def reference(checkpoint: Path, policy: Policy, capacity: int) -> dict[str, list[Any]]:
    """For each room its values and, in brackets, the counts of its digests, from the core alone.

    Files have the columns room, ts, seq and v; each room has one queue, emptied after each trigger.
    """
    options = QueueOptions(capacity_events=capacity, capacity_bytes=1 << 40, digests_at_once=True)
    queues: dict[str, PackingQueue] = defaultdict(lambda: PackingQueue(policy, options, Ladder()))
    found: dict[str, list[Any]] = defaultdict(list)
    for now_us, files in triggers(checkpoint):
        arrived: dict[str, list[Event]] = defaultdict(list)
        for row in sorted(
            (row for file in files for row in pq.read_table(file).to_pylist()), key=lambda row: row["ts"]
        ):
            payload = json.dumps({"v": row["v"]}).encode()
            arrived[row["room"]].append(Event("", payload, row["ts"], seq=row["seq"]))
        for room, events in arrived.items():
            queues[room].absorb(events, now_us=now_us)
            for item in queues[room].take():
                if isinstance(item, Event):
                    found[room].append(json.loads(item.payload)["v"])
                else:
                    found[room].append([item.count])  # type: ignore[union-attr]
    return dict(found)
