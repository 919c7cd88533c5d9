"""One key of a packed stream from trigger to trigger: rows in, rows out, rows held. Knows Arrow, not Spark.

A trigger's rows of a key, behind what was held of the triggers before, are a queue. The queue core packs it
if it does not fit. What ends in a digest is held back, since the next trigger may begin with one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from penstock.core.queues import Ladder, LadderState, PackingQueue, QueueOptions
from penstock.errors import DigestError, InputError
from penstock.model import digest_wire
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.pipeline.events import EVENT, events_of
from penstock.pipeline.schemas import DIGEST as DIGEST_KIND
from penstock.pipeline.schemas import SOUND
from penstock.pipeline.streaming_bundles import DIGEST
from penstock.pipeline.unpacking import digest_of_row, row_of_digest
from penstock.policy.fast import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.model.instant import Instant
    from penstock.policy.nodes import Policy

_DIGESTS: Final = to_arrow_type(DIGEST_KIND)
_ABSENT: Final = {
    "ts_us": pa.scalar(None, pa.int64()),
    "seq": pa.scalar(0, pa.int64()),
    "sender": pa.scalar(""),
    "topic": pa.scalar(""),
    "payload": pa.scalar(b""),
    "properties": pa.scalar(None, pa.list_(pa.null())),
    "content_type": pa.scalar(""),
    "root": pa.scalar(None, pa.string()),
}
"""The parts of an event as `as_events` names them, and what they are where the policy does not look at them.
Each is a column of its own: Spark weighs a struct anew for each row of it."""
_ANY_BYTES: Final = 1 << 62
"""Rows are counted, not weighed: Spark bounds the bytes of a trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is the same for all keys of a stream; travels to the workers."""

    policy: Policy
    capacity: int
    key: tuple[str, ...]
    order: tuple[str, ...]
    events: tuple[str, ...]
    """Columns of an event that are not of the key."""
    hold_us: int
    """How long something may be held back; 0: nothing is."""
    fresh_us: int | None
    """The age from which events are backlog; None: no event is."""


@dataclass(frozen=True, slots=True)
class Held:
    """What has come in and not gone out."""

    until_us: Instant
    """When it goes out, whatever comes."""
    rows: pa.Table
    count: int
    """Events it stands for."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one trigger made of one key."""

    out: pa.Table | None
    held: Held | None
    ladder: LadderState | None
    """None: as it was."""


class KeyQueue:
    """The rules, compiled once per worker."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._plan = Plan(rules.policy)
        self._options = QueueOptions(capacity_events=rules.capacity, capacity_bytes=_ANY_BYTES)

    def turn(
        self,
        rows: pa.Table,
        *,
        now_us: Instant,
        held: Held | None,
        ladder: Callable[[], LadderState | None],
    ) -> Turn:
        """Take a trigger's rows, in order; `ladder` is asked only if a level must be chosen."""
        behind = self._behind(rows, now_us)
        fits = rows.num_rows <= self._rules.capacity
        if fits and held is None and not behind and not _digests_in(rows):
            return Turn(rows, None, None)  # by far the most turns: no row is looked at
        whole = rows if held is None else _behind_held(held.rows, rows)
        items, found = self._items(whole)
        ladder_now = Ladder()
        known = ladder()
        if known is not None:
            ladder_now.restore(known)
            now_us = max(now_us, known.last_us or now_us)  # the machine's clock may have been set back
        queue = PackingQueue(self._plan, self._options, ladder_now)
        queue.absorb(items, now_us=now_us)
        left = queue.items()
        cut = 0 if behind else _behind_last_event(left)
        until_us = held.until_us if held is not None and cut == 0 else now_us + self._rules.hold_us
        if until_us <= now_us:
            cut = len(left)
        assembled = _Assembly(whole, found, self._rules.key)
        return Turn(
            out=assembled.rows(left[:cut]) if cut else None,
            held=self._held(assembled, left[cut:], until_us),
            ladder=ladder_now.state() if queue.packs else None,
        )

    def _held(self, assembled: _Assembly, items: Sequence[Any], until_us: Instant) -> Held | None:
        if not items:
            return None
        count = sum(item.count if isinstance(item, Digest) else 1 for item in items)
        return Held(until_us, assembled.rows(items), count)

    def _behind(self, rows: pa.Table, now_us: Instant) -> bool:
        """Whether all events are old: the key has yet to catch up."""
        if self._rules.fresh_us is None:
            return False
        newest_us = pc.max(rows[f"{EVENT}_ts_us"]).as_py()
        return newest_us is not None and newest_us < now_us - self._rules.fresh_us

    def _items(self, rows: pa.Table) -> tuple[list[Event | Digest], dict[int, int]]:
        """The rows as a queue's items, and the row of each by its identity."""
        items = [
            self._digest(rows[DIGEST][place].as_py(), rows) if event is None else event
            for place, event in enumerate(_events(rows))
        ]
        return items, {id(item): place for place, item in enumerate(items)}

    def _digest(self, row: Any, rows: pa.Table) -> Digest:
        try:
            return digest_wire.from_bytes(digest_wire.to_bytes(digest_of_row(row)))
        except (DigestError, TypeError, KeyError, ValueError) as error:
            where = ", ".join(f"{name} = {rows[name][0].as_py()!r}" for name in self._rules.key)
            reason = error if isinstance(error, DigestError) else f"a damaged digest: {SOUND}"
            raise InputError(f"column 'digest' where {where}: {reason}") from None


def of_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Rows that were held, the columns of their key first; Spark compares no more than the types of a key."""
    if tuple(rows.column_names[: len(key)]) != key:
        raise InputError(
            f"the checkpoint is of queues by other columns than {', '.join(key)}; use a new checkpoint"
        )
    return rows


def _events(rows: pa.Table) -> list[Event | None]:
    """The events of the rows; None where a row is a digest."""
    count = rows.num_rows
    parts = {
        name: rows[f"{EVENT}_{name}"].combine_chunks()
        if f"{EVENT}_{name}" in rows.column_names
        else pa.repeat(absent, count)
        for name, absent in _ABSENT.items()
    }
    return events_of(pa.StructArray.from_arrays(list(parts.values()), names=list(parts)))


def _digests_in(rows: pa.Table) -> bool:
    """Whether some row is a digest."""
    return DIGEST in rows.column_names and rows[DIGEST].null_count < rows.num_rows


def _behind_held(held: pa.Table, rows: pa.Table) -> pa.Table:
    """What was held, then what came."""
    try:
        both = pa.concat_tables([held, rows], promote_options="default")
    except pa.ArrowException as error:
        raise InputError(
            f"the columns of the stream are not those of the checkpoint ({error}); use a new checkpoint"
        ) from None
    known = [*rows.column_names, *({DIGEST} & {*held.column_names} - {*rows.column_names})]
    return both.select(known)


def _behind_last_event(items: Sequence[Any]) -> int:
    """How many items there are up to the last event."""
    return next((n for n in range(len(items), 0, -1) if isinstance(items[n - 1], Event)), 0)


@dataclass(frozen=True, slots=True)
class _Assembly:
    """Items as rows again: events take the rows they came in, digests get new ones."""

    whole: pa.Table
    found: dict[int, int]
    key: tuple[str, ...]

    def rows(self, items: Sequence[Any]) -> pa.Table:
        indices = [self.found.get(id(item)) for item in items]
        bare = self.whole.drop_columns([DIGEST]) if DIGEST in self.whole.column_names else self.whole
        taken = bare.take(pa.array(indices, pa.int64()))
        if not any(isinstance(item, Digest) for item in items):
            return taken
        first = pa.array([0] * len(items), pa.int64())
        for name in self.key:  # the same in all rows, those of new digests too
            place = taken.schema.get_field_index(name)
            taken = taken.set_column(place, taken.schema.field(place), self.whole[name].take(first))
        made = (row_of_digest(item) if isinstance(item, Digest) else None for item in items)
        return taken.append_column(DIGEST, pa.array(made, _DIGESTS))
