"""Rows on their way to a database, each of which can be changed or cancelled until it is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from penstock.node.store.database import Row


class RowTable(Protocol):
    """Takes rows: a Database."""

    def write(self, rows: Sequence[Row]) -> None:
        """Write all rows or none; StoreError if they are not on disk."""
        ...


class RowBacklog:
    """Rows in the order in which they are to be written (a `Backlog` of the group commit)."""

    def __init__(self, table: RowTable, *, key: Callable[[Row], Hashable | None]) -> None:
        """`key` tells what a row is about: a later row with the same key makes it needless. None: never."""
        self._table = table
        self._key = key
        self._rows: list[Row | None] = []
        """None in the place of a row that was cancelled."""
        self._fresh: dict[int, int] = {}
        """Index in `_rows` of the rows that have a number and no transaction holds yet."""

    def add(self, statement: str, parameters: tuple[Any, ...]) -> None:
        """Write a row with the next transaction."""
        self._rows.append((statement, parameters))

    def add_numbered(self, number: int, statement: str, parameters: tuple[Any, ...]) -> None:
        """Write a row that `fresh`, `replace` and `cancel` find by a number of its own, until it is taken."""
        self._fresh[number] = len(self._rows)
        self._rows.append((statement, parameters))

    def fresh(self, number: int) -> Row | None:
        """The row with this number; None if it was taken, or there is none."""
        at = self._fresh.get(number)
        return None if at is None else self._rows[at]

    def replace(self, number: int, row: Row) -> None:
        """Write another row in the place of one that is fresh."""
        self._rows[self._fresh[number]] = row

    def cancel(self, number: int) -> bool:
        """Do not write the row with this number; False if it was taken: it may be on disk."""
        at = self._fresh.pop(number, None)
        if at is None:
            return False
        self._rows[at] = None
        return True

    # -- what the group commit asks for ----------------------------------------------------------------------

    def pending(self) -> int:
        """Rows that wait, those that were cancelled included."""
        return len(self._rows)

    def take(self) -> list[Row] | None:
        """Give away all rows that were not cancelled; from now on none of them is fresh."""
        rows = [row for row in self._rows if row is not None]
        self._rows, self._fresh = [], {}
        return rows or None

    def write(self, work: list[Row]) -> None:
        """Write the rows in one transaction."""
        self._table.write(work)

    def written(self, work: list[Row]) -> None:
        """Nothing is left to do for rows on disk."""

    def put_back(self, work: list[Row]) -> None:
        """Keep the rows, before those that have come since; of rows with one key, only the newest.

        A disk that is full may stay full for hours, and what changes meanwhile must not fill the memory.
        """
        self._fresh = {number: at + len(work) for number, at in self._fresh.items()}
        rows: list[Row | None] = [*work, *self._rows]
        newer: set[Hashable] = set()
        for at in range(len(rows) - 1, -1, -1):
            row = rows[at]
            key = self._key(row) if row is not None else None
            if key in newer:
                rows[at] = None
            elif key is not None:
                newer.add(key)
        self._rows = rows
