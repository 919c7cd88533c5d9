"""Reading a file of channels, as `penstock allocate` takes it: Parquet, CSV or JSON lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.core.channels.allocation import Factors
from penstock.errors import InputError, MissingTool

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS: Final = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}

NUMBERS: Final = {"subscribers": 0.0, "cost": None, "update_interval_us": None}
"""Columns of numbers: the least one that is allowed; None: above 0."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a file, row by row."""

    urls: pa.Array
    hosts: list[str]
    """Empty: neither given nor asked for."""
    columns: dict[str, np.ndarray[Any, np.dtype[np.float64]]]

    def factors(self, *, by_cost: bool) -> Factors:
        """What the solver takes."""
        return Factors(
            self.columns["subscribers"],
            self.columns["cost"] if by_cost else None,
            self.columns.get("update_interval_us"),
            np.array(self.hosts, object) if self.hosts else None,
        )


def read_channels(path: Path, *, needed: list[str], hosts: bool) -> Channels:
    """The channels of a file; `needed` are columns it must have, `hosts` says that hosts are needed, too."""
    table = _table(path)
    for name in ("url", *needed):
        if name not in table.column_names:
            there = ", ".join(table.column_names) or "none"
            raise InputError(f"there is no column '{name}'; there are: {there}", path=path)
    if len(table) == 0:
        raise InputError("there is no channel in it", path=path)
    urls = _urls(table, path)
    columns = {
        name: _numbers(table, urls, name, least, path)
        for name, least in NUMBERS.items()
        if name in table.column_names
    }
    return Channels(urls, _hosts(table, urls, path) if hosts else [], columns)


def _table(path: Path) -> pa.Table:
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(ENDINGS)
        raise InputError(f"what is in it? Its ending should be one of {known}", path=path)
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra; said so where it is missing
        from pyarrow import csv, json, parquet  # noqa: PLC0415
    except ImportError:
        raise MissingTool("pyarrow is not installed: pip install 'penstock[spark]'") from None
    if not path.is_file():
        raise InputError("there is no such file; a folder of files goes with --engine spark", path=path)
    if path.stat().st_size == 0:
        raise InputError("there is no channel in it", path=path)
    readers = {"parquet": parquet.read_table, "csv": csv.read_csv, "json": json.read_json}
    try:
        return readers[kind](str(path))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"is not {kind}: {str(error).splitlines()[0]}", path=path) from None


def _urls(table: pa.Table, path: Path) -> pa.Array:
    from pyarrow import compute, types  # noqa: PLC0415

    urls = table["url"].combine_chunks()
    if not (types.is_string(urls.type) or types.is_large_string(urls.type)):
        raise InputError(f"the column 'url' holds {urls.type}, not texts", path=path)
    if urls.null_count:
        row = urls.is_null().index(True).as_py()
        raise InputError(f"channel {row + 1} has no url", path=path)
    if compute.count_distinct(urls).as_py() < len(urls):
        counts = compute.value_counts(urls)
        twice = counts.field("values").filter(compute.greater(counts.field("counts"), 1))[0]
        raise InputError(f"the channel {twice} stands there twice", path=path)
    return urls


def _numbers(
    table: pa.Table, urls: pa.Array, name: str, least: float | None, path: Path
) -> np.ndarray[Any, np.dtype[np.float64]]:
    from pyarrow import types  # noqa: PLC0415

    column = table[name].combine_chunks()
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)):
        raise InputError(f"the column '{name}' holds {column.type}, not numbers", path=path)
    numbers: np.ndarray[Any, np.dtype[np.float64]] = column.cast("float64").to_numpy(zero_copy_only=False)
    bad = ~np.isfinite(numbers) | (numbers <= 0 if least is None else numbers < least)
    if bad.any():
        row = int(bad.argmax())
        found = column[row].as_py()
        wanted = "above 0" if least is None else f"at least {least:g}"
        said = "missing" if found is None else found
        raise InputError(f"{name} of {urls[row]} is {said}; it should be {wanted}", path=path)
    return numbers


def _hosts(table: pa.Table, urls: pa.Array, path: Path) -> list[str]:
    """The column `host`, or the registrable domains of the URLs."""
    if "host" in table.column_names:
        given = table["host"].combine_chunks()
        if given.null_count:
            row = given.is_null().index(True).as_py()
            raise InputError(f"the host of {urls[row]} is missing", path=path)
        return [str(host) for host in given.to_pylist()]
    domains: dict[str, str] = {}
    found: list[str] = []
    for url in urls.to_pylist():
        place = "/".join(url.split("/", 3)[:3])  # scheme and host: what the channels of a host share
        if place not in domains:
            domains[place] = _domain(place)
            if not domains[place]:
                raise InputError(f"there is no host in {url}; give a column 'host'", path=path)
        found.append(domains[place])
    return found


def _domain(place: str) -> str:
    from penstock.core.channels.polling.domain import registrable  # noqa: PLC0415  # an extra

    try:
        return registrable(place)
    except ValueError:
        return ""
