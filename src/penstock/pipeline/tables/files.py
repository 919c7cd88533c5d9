"""Files of recorded rows on this machine: which there are, and their rows as one Arrow table, without Spark.

The rules are Spark's: names that begin with a dot or an underscore are skipped, texts in JSON stay texts, and
an empty field of a CSV file is null. What only Spark can read (folders of partitions, columns of several
kinds) raises `NeedsSpark`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.errors import InputError, MissingTool
from penstock.model.recording import FINISH_REQUEST, UNFINISHED

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa

FORMATS: Final = {
    "parquet": (".parquet", ".pq"),
    "json": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz", ".jsonl.zst"),
    "csv": (".csv", ".csv.gz", ".tsv"),
}
"""File endings by format."""


class NeedsSpark(InputError):
    """Only Spark can read these rows; `penstock backtest --engine spark` does."""


def format_of(path: str) -> str:
    """Format by a path's ending; a folder without one is Parquet."""
    name = path.rstrip("/").rpartition("/")[2].lower()
    for kind, endings in FORMATS.items():
        if name.endswith(endings):
            return kind
    if "." in name and not name.endswith(tuple(f".{number}" for number in range(10))):
        known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
        raise InputError(f"unknown format: the ending should be one of {known}, or use --format", path=path)
    return "parquet"


def nothing_there(path: str, kind: str) -> InputError:
    """Error for a folder without data; names the file that a node is still writing, if there is one."""
    top = Path(path)
    written = sorted(top.glob(f".*{UNFINISHED}")) if top.is_dir() else []
    if not written:
        return InputError(f"there is no {kind} data in it", path=path)
    return InputError(
        f"no file in it is finished: a node was writing {written[-1].name}, and did not finish it within "
        f"{limits.RECORD_ASK_S:g} s of being asked. Is the node running? It deletes what it left unfinished "
        "when it starts again",
        path=path,
    )


_unanswered: set[Path] = set()
"""Folders whose node did not answer: this process does not wait for it a second time."""


def finish_running(path: str) -> bool:
    """Ask the node that records to a folder to complete its file; return whether that is done.

    The request is a file, so that any program which may write to the folder can ask. Nothing happens if no
    file is being written, or if the folder is not on this machine.
    """
    top = Path(path)
    if "://" in path or top in _unanswered or not any(top.glob(f".*{UNFINISHED}")):
        return False
    request = top / FINISH_REQUEST
    try:
        request.touch()
    except OSError:  # someone else's folder: its complete files can still be read
        return False
    last_s = time.monotonic() + limits.RECORD_ASK_S
    while time.monotonic() < last_s:
        if not request.exists():
            return True
        time.sleep(0.05)
    with suppress(OSError):
        request.unlink()
    _unanswered.add(top)
    return False


def files_at(path: str) -> list[Path]:
    """Files of rows at a path, in order of their names."""
    top = Path(path)
    if not top.exists():
        raise InputError("there is no such file or folder", path=path)
    if top.is_file():
        return [top]
    finish_running(path)
    found = sorted(one for one in top.iterdir() if not one.name.startswith((".", "_")))
    folder = next((one for one in found if one.is_dir()), None)
    if folder is not None:
        raise NeedsSpark(f"folders inside it, as '{folder.name}', are read by Spark only", path=path)
    return found


def is_small(path: str, kind: str) -> bool:
    """Whether the rows at a path are few enough for one process, as far as sizes of files tell."""
    try:
        files = files_at(path)
        if sum(one.stat().st_size for one in files) > limits.SHORT_BYTES:
            return False
        if kind == "parquet":
            parquet = _arrow().parquet
            rows: int = sum(parquet.read_metadata(one).num_rows for one in files)
            return rows <= limits.SHORT_EVENTS
    except (InputError, MissingTool, OSError, ValueError):
        return True  # whoever reads it says what is wrong, the sooner the better
    return True


def read_table(path: str, kind: str) -> pa.Table:
    """All rows at a path."""
    arrow = _arrow()
    if kind not in FORMATS:
        raise InputError(f"unknown format '{kind}'; allowed: {', '.join(FORMATS)}", path=path)
    files = files_at(path)
    parts = [_read(arrow, file, kind) for file in files if kind == "parquet" or file.stat().st_size]
    if not parts:
        raise nothing_there(path, kind)
    try:
        table = arrow.concat_tables(parts, promote_options="default") if len(parts) > 1 else parts[0]
    except arrow.ArrowException as error:
        raise NeedsSpark(f"its files differ: {str(error).splitlines()[0]}", path=path) from None
    if not table.num_columns or not table.num_rows:
        raise InputError("there is no event in it", path=path)
    if table.num_rows > limits.LOCAL_EVENTS:
        raise NeedsSpark(
            f"{table.num_rows:,} events; more than {limits.LOCAL_EVENTS:,} need Spark", path=path
        )
    return table


def _arrow() -> ModuleType:
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra; said so where it is missing
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise MissingTool("pyarrow is not installed: pip install 'penstock[spark]'") from None
    found: ModuleType = pa
    return found


def _read(arrow: ModuleType, path: Path, kind: str) -> pa.Table:
    readers = {"parquet": _parquet, "json": _json, "csv": _csv}
    try:
        return readers[kind](path)
    except (arrow.ArrowException, OSError, ValueError) as error:
        problem = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        if kind == "parquet":
            raise InputError(f"is not {kind}: {problem}", path=path) from None
        raise NeedsSpark(f"cannot be read as one table: {problem}", path=path) from None


def _parquet(path: Path) -> pa.Table:
    from pyarrow import parquet  # noqa: PLC0415

    # One file by its handle: with a path, pyarrow would look for partitions in the names of its folders.
    with path.open("rb") as file:
        return parquet.ParquetFile(file).read()


def _json(path: Path) -> pa.Table:
    from pyarrow import json  # noqa: PLC0415

    found = json.read_json(str(path))
    again = _without_times(found.schema)
    return (
        found
        if again is None
        else json.read_json(str(path), parse_options=json.ParseOptions(explicit_schema=again))
    )


def _without_times(schema: Any) -> Any:
    """The schema with texts in the place of times, which Spark does not look for in JSON; None: the same."""
    import pyarrow as pa  # noqa: PLC0415

    def plain(kind: Any) -> Any:
        if pa.types.is_timestamp(kind):
            return pa.string()
        if pa.types.is_struct(kind):
            return pa.struct([one.with_type(plain(one.type)) for one in kind])
        return pa.list_(plain(kind.value_type)) if pa.types.is_list(kind) else kind

    found = pa.schema([one.with_type(plain(one.type)) for one in schema])
    return None if found == schema else found


def _csv(path: Path) -> pa.Table:
    from pyarrow import csv  # noqa: PLC0415

    return csv.read_csv(
        str(path),
        parse_options=csv.ParseOptions(delimiter="\t" if ".tsv" in path.name else ","),
        convert_options=csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
    )
