"""The events of `bench.spark`, and its policies as pandas functions of one queue, for `applyInPandas`.

Spark itself makes the events: patients with a pulse.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.values import Scalar

QUEUE: Final = 1_000
"""Events of one patient; more events are more patients."""


def events(spark: SparkSession, number: int) -> DataFrame:
    """Readings of `number / QUEUE` patients in the order of time, all patients mixed.

    `pulse` is normal three times in four; `drift` swings slowly by 15 with some noise; `step` changes every
    seventh reading of a patient.
    """
    patients = max(1, number // QUEUE)
    return spark.range(number).selectExpr(
        f"concat('patient-', lpad(cast(id % {patients} as string), 8, '0')) as patient",
        "id * 1000 as ts",
        "id as seq",
        "round(75 + (xxhash64(id) % 1000) / 1000 * 35, 1) as pulse",
        f"75 + 15 * sin(id div {patients} / 40) + (xxhash64(id, 1) % 1000) / 1000 as drift",
        f"cast(id div {patients} div 7 as int) as step",
        "concat('ward-', cast(id % 40 as string)) as ward",
    )


def recorded(spark: SparkSession, number: int, *, keys: int | None = None) -> DataFrame:
    """Return the readings as a node records them: numbers in a JSON payload, the ward as a user property.

    `keys` is the number of queues, if not one for each thousand events.
    """
    typed = events(spark, number)
    key = "patient" if keys is None else f"concat('patient-', cast(seq % {keys} as string))"
    return typed.selectExpr(
        f"{key} as topic",
        "ts",
        "seq",
        "'monitor' as sender",
        """cast(concat('{"pulse": ', pulse, ', "drift": ', drift, ', "step": ', step, '}') as binary)
        as payload""",
        "map('ward', ward, 'unit', 'bpm') as properties",
        "'application/json' as content_type",
    )


EVENT = ("ts", "seq", "pulse", "drift", "step", "ward")
RECORDED = ("ts", "seq", "sender", "payload", "properties", "content_type")


def packing(
    fates: Callable[[pd.DataFrame], np.ndarray[Any, Any]],
    attribute: str,
    causes: tuple[tuple[int, str], ...],
    *,
    in_payload: bool = False,
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that packs one queue; `fates` gives the step that drops each event, −1 for none."""
    key, own = ("topic", RECORDED) if in_payload else ("patient", EVENT)

    def pack(queue: pd.DataFrame) -> pd.DataFrame:
        queue = queue.sort_values(["ts", "seq"], ignore_index=True)
        if in_payload:
            queue[attribute] = [json.loads(payload)[attribute] for payload in queue["payload"]]
        fate = fates(queue)
        gone = fate >= 0
        place = np.arange(1, len(queue) + 1)
        kept = queue[~gone].assign(place=place[~gone], kind="event", digest=None)
        runs = queue[gone].assign(place=place[gone], fate=fate[gone], run=np.cumsum(~gone)[gone])
        found = runs.groupby("run", sort=False).agg(
            place=("place", "min"),
            n=("ts", "size"),
            from_us=("ts", "min"),
            to_us=("ts", "max"),
            seq_first=("seq", "min"),
            seq_last=("seq", "max"),
            total=(attribute, "sum"),
            least=(attribute, "min"),
            most=(attribute, "max"),
        )
        counts = [runs[runs["fate"] == number].groupby("run").size() for number in range(len(causes))]
        made = [_digest(row, attribute, causes, counts) for row in found.itertuples()]
        dropped = pd.DataFrame(
            {key: queue[key].iloc[0], "place": found["place"], "kind": "digest", "digest": made}
        )
        # As objects, a missing whole number stays missing and does not become NaN.
        columns = [key, "place", "kind", *own, "digest"]
        both = [part.reindex(columns=columns).astype(object) for part in (kept, dropped) if len(part)]
        return pd.concat(both).where(lambda cells: cells.notna(), None)

    return pack


def _digest(
    row: Any, attribute: str, causes: tuple[tuple[int, str], ...], counts: list[Any]
) -> dict[str, Any]:
    named = [
        {"level": level, "position": 1, "filter": name, "count": int(count.get(row.Index, 0))}
        for (level, name), count in zip(causes, counts, strict=True)
    ]
    summary: dict[str, Scalar | None] = {
        "name": attribute,
        "n": row.n,
        "total": row.total,
        "squares": None,
        "least": row.least,
        "most": row.most,
        "first": None,
        "last": None,
        "distinct": None,
        "quantiles": None,
    }
    return {
        "count": row.n,
        "from_us": row.from_us,
        "to_us": row.to_us,
        "seq_first": row.seq_first,
        "seq_last": row.seq_last,
        "causes": [cause for cause in named if cause["count"]],
        "attributes": [summary],
    }


def within(queue: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Drop 50 ≤ pulse ≤ 100."""
    return np.where(queue["pulse"].between(50, 100), 0, -1)


def uniq(queue: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Drop repeated steps."""
    return np.where(queue["step"] == queue["step"].shift(), 0, -1)


def latest(queue: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Keep the last hundred."""
    return np.where(np.arange(len(queue)) >= len(queue) - 100, -1, 0)


def band(queue: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Drop what changed by less than 5 since the value kept last."""
    fates = np.full(len(queue), -1)
    held: float | None = None
    for place, value in enumerate(queue["drift"].tolist()):
        if held is not None and abs(value - held) < 5:
            fates[place] = 0
        else:
            held = value
    return fates


def chain(queue: pd.DataFrame) -> np.ndarray[Any, Any]:
    """The dead band, then drop 50 ≤ pulse ≤ 100, then keep the last ten."""
    fates = band(queue)
    fates[(fates < 0) & queue["pulse"].between(50, 100).to_numpy()] = 1
    alive = np.flatnonzero(fates < 0)
    fates[alive[:-10]] = 2
    return fates
