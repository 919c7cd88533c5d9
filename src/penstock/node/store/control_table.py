"""Loads control tables: the newest complete version, checked.

A broken version is refused, and the previous one stays in use.

    found = load(Path("reservations"), "reservations", {"client": "string", "period_us": "int64"})
    found.table            # a pyarrow.Table with those columns
    found.rows(Reserved)   # or values of a msgspec Struct, each checked

A `TableFollower` looks for newer versions while the node runs.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from penstock import limits
from penstock.errors import InputError, MissingTool, printable
from penstock.model.control_table import DONE_FILE, VERSION_FILE, Version, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType

log = logging.getLogger(__name__)

_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,200}\.parquet", re.ASCII)

_Row = TypeVar("_Row", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a control table."""

    version: Version
    folder: Path
    table: Any
    """The requested columns, as a pyarrow.Table."""

    def rows(self, kind: type[_Row]) -> list[_Row]:
        """Convert each row to a Struct; InputError names the first row that does not convert."""
        found = []
        for number, row in enumerate(self.table.to_pylist()):
            try:
                found.append(msgspec.convert(row, kind))
            except msgspec.ValidationError as error:
                raise InputError(f"row {number}: {error}", path=str(self.folder)) from None
        return found


def newest(folder: Path) -> int | None:
    """Return the number of the newest complete version in a folder; None if there is none."""
    found = _newest(folder)
    return None if found is None else found[0]


def _newest(folder: Path) -> tuple[int, Path] | None:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(folder)) from None
    versions = sorted((number, name) for name in names if (number := version_of(name)) is not None)
    for number, name in reversed(versions):
        if (folder / name / DONE_FILE).is_file():
            return number, folder / name
    return None


def load(folder: Path, name: str, columns: Mapping[str, str]) -> TableVersion | None:
    """Load the newest complete version; None if there is none, InputError if it is broken.

    `columns` are the required columns with their Arrow types; a table may have others.
    """
    found = _newest(folder)
    if found is None:
        return None
    number, place = found
    version = _version(place, name, number)
    arrow = _arrow(name)
    parts = [_part(arrow, place / file, size, columns) for file, size in sorted(version.files.items())]
    empty = arrow.schema(list(columns.items())).empty_table()
    table = arrow.concat_tables([empty, *parts])
    if len(table) != version.rows:
        raise InputError(f"has {len(table):,} rows, expected {version.rows:,}", path=str(place))
    return TableVersion(version, place, table)


def _version(place: Path, name: str, number: int) -> Version:
    path = place / VERSION_FILE
    try:
        with path.open("rb") as file:
            text = file.read(limits.CONTROL_VERSION_BYTES)
        found = msgspec.json.decode(text, type=Version)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(path)) from None
    except msgspec.DecodeError as error:
        raise InputError(f"is not the description of a control table: {error}", path=str(path)) from None
    if found.table != name or found.version != number:
        raise InputError(
            f"is version {found.version} of '{found.table}', expected version {number} of '{name}'",
            path=str(path),
        )
    if not 0 <= found.rows <= limits.CONTROL_ROWS:
        raise InputError(f"has {found.rows} rows; allowed: at most {limits.CONTROL_ROWS:,}", path=str(path))
    for part in found.files:
        if _FILE.fullmatch(part) is None:
            raise InputError(
                f"bad file name '{printable(part)}'; allowed: names of .parquet files in the same folder",
                path=str(path),
            )
    return found


def _part(arrow: ModuleType, path: Path, size: int, columns: Mapping[str, str]) -> Any:
    try:
        if (there := path.stat().st_size) != size:
            raise InputError(f"has {there} bytes, expected {size}", path=str(path))
        # One file, not a dataset: its folder's name would become a column.
        with arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            names = set(file.schema_arrow.names)
            missing = [name for name in columns if name not in names]
            if missing:
                raise InputError(f"has no column {', '.join(missing)}", path=str(path))
            if file.metadata.num_rows > limits.CONTROL_ROWS:
                raise InputError(f"has more than {limits.CONTROL_ROWS:,} rows", path=str(path))
            table = file.read(columns=list(columns))
        table = table.select(list(columns)).cast(arrow.schema(list(columns.items())))
        table.validate(full=True)  # finds text that is not UTF-8, among others
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=str(path)) from None
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"is not a table with these columns: {error}", path=str(path)) from None
    return table


def _arrow(name: str) -> ModuleType:
    try:
        import pyarrow.parquet  # noqa: PLC0415  # only a node that loads tables needs it
    except ImportError:
        raise MissingTool(
            f"loading the control table '{name}' needs pyarrow: pip install 'penstock[spark]'"
        ) from None
    found: ModuleType = pyarrow
    return found


class TableStatus(msgspec.Struct, frozen=True):
    """A control table that the node follows: the version in use, and how it differs from the one before."""

    table: str
    folder: str
    version: int = 0
    """0: none is in use."""
    rows: int = 0
    made_us: int = 0
    """When the version was written, in microseconds since 1970."""
    taken_us: int = 0
    """When this node took it, in microseconds since 1970."""
    note: str = ""
    """How the version was made."""
    fault: str = ""
    """Why the newest version is not in use; empty if it is."""
    added: int | None = None
    """Rows that the version before did not have; None: not compared, because the tables are too large."""
    removed: int | None = None
    changed: int | None = None
    examples: tuple[str, ...] = ()
    """Some of the rows that were added (+), removed (-) or changed (~), as text."""


class TableChange(msgspec.Struct, frozen=True):
    """Differences of a version from the one before."""

    added: int | None = None
    removed: int | None = None
    changed: int | None = None
    examples: tuple[str, ...] = ()


def change_of(before: Any, after: Any, keys: int) -> TableChange:
    """Compare two pyarrow tables of the same columns, of which the first `keys` identify a row."""
    if max(len(before), len(after)) > limits.CONTROL_COMPARED:
        return TableChange()
    old, new = _by_key(before, keys), _by_key(after, keys)
    added = [key for key in new if key not in old]
    removed = [key for key in old if key not in new]
    changed = [key for key, row in new.items() if key in old and old[key] != row]
    examples = [
        *(f"+ {_shown(key, new[key])}" for key in added[: limits.CONTROL_EXAMPLES]),
        *(f"- {_shown(key, old[key])}" for key in removed[: limits.CONTROL_EXAMPLES]),
        *(
            f"~ {_shown(key, old[key])} → {_shown((), new[key])}"
            for key in changed[: limits.CONTROL_EXAMPLES]
        ),
    ]
    return TableChange(len(added), len(removed), len(changed), tuple(examples))


def _by_key(table: Any, keys: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {row[:keys]: row[keys:] for row in rows}


def _shown(key: tuple[Any, ...], row: tuple[Any, ...]) -> str:
    return printable(" ".join(str(part)[:80] for part in (*key, *row)))


class TableFollower:
    """Loads newer versions as they appear; the last good one stays in use."""

    def __init__(
        self,
        folder: Path,
        name: str,
        columns: Mapping[str, str],
        *,
        keys: int,
        taken: Callable[[TableVersion], None],
    ) -> None:
        self._folder = folder
        self._name = name
        self._columns = columns
        self._keys = keys
        """How many of the columns, the first ones, identify a row."""
        self._taken = taken
        """Called in the event loop with each new version; InputError refuses the version."""
        self._seen: int | None = None
        """The last version read, whether or not it is in use."""
        self.version: Version | None = None
        """The version in use."""
        self.fault = ""
        """Why the newest version is not in use; empty if it is."""
        self._table: Any = None
        """Rows of the version in use, to compare the next one with."""
        self._change = TableChange()
        self._taken_us = 0

    def status(self) -> TableStatus:
        """The version in use, and how it differs from the one before."""
        version, change = self.version, self._change
        return TableStatus(
            table=self._name,
            folder=str(self._folder),
            version=0 if version is None else version.version,
            rows=0 if version is None else version.rows,
            made_us=0 if version is None else version.made_us,
            taken_us=self._taken_us,
            note="" if version is None else version.note,
            fault=self.fault,
            added=change.added,
            removed=change.removed,
            changed=change.changed,
            examples=change.examples,
        )

    async def run(self, every_s: float) -> None:
        """Look for newer versions until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(every_s)

    async def look(self) -> bool:
        """Load a newer version if there is one; return whether it is in use now."""
        try:
            number = await asyncio.to_thread(newest, self._folder)
            if number is None or number == self._seen:
                return False
            loaded = await asyncio.to_thread(load, self._folder, self._name, self._columns)
            if loaded is None:
                return False
            self._seen = loaded.version.version  # not set on a read error: the files may still be arriving
            before = loaded.table.slice(0, 0) if self._table is None else self._table
            change = await asyncio.to_thread(change_of, before, loaded.table, self._keys)
            self._taken(loaded)
        except (InputError, MissingTool) as error:
            if self.fault != str(error):
                log.error("control table '%s' not loaded: %s", self._name, error)  # noqa: TRY400
            self.fault = str(error)
            return False
        # No pause between these and the version's taking effect: whoever looks sees both, or neither.
        self.version, self.fault, self._change = loaded.version, "", change
        self._taken_us = time.time_ns() // 1_000
        small = len(loaded.table) <= limits.CONTROL_COMPARED
        self._table = loaded.table if small else loaded.table.slice(0, 0)
        log.info("control table '%s': version %d, %d rows", self._name, self._seen, loaded.version.rows)
        return True
