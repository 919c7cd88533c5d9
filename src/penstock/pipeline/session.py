"""The Spark session of a command: local by default, or a cluster; Spark's errors translated to ours.

    with open_session(master="spark://host:7077", app="backtest") as spark:
        ...

One process holds one session, classic or Connect. Spark errors that leave the block are translated: what a
user can fix (a file, a column, an address) becomes one sentence. pyspark is imported on first use.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import InputError, MissingTool, SparkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"

QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Options of a Java that compiles quickly instead of well. With the first alone Java has room for 48 MB of
compiled code, which the code that Spark generates for a pipeline fills: then it stops compiling, or ends."""

_MASTER: Final = re.compile(r"local(\[.+\]|-cluster\[.+\])?$|spark://|yarn$|k8s://")
"""The masters that Spark knows; it ends without a word for others."""

_MANY: Final = 1 << 16
"""More rows than a cluster has cores."""

_WRITTEN_PARTS: Final = 160
"""Partitions that a shuffle writes: 10 GB in parts of 64 MiB. Up to 200 Spark writes without sorting them."""
STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""State store of streaming queries: timers and the state of `pack_stream` need RocksDB."""

_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.session.timeZone": "UTC",  # a timestamp without a zone means the same on every machine
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # would take a stack trace for each column
}
_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",  # no port and no threads for an unused UI
    "spark.ui.showConsoleProgress": "false",  # the command draws its own progress
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@contextmanager
def open_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    app: str = "penstock",
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session that is stopped at the end of the block.

    `master` is a Spark master (`local[2]`, `spark://host:7077`), `remote` a Spark Connect server
    (`sc://host:15002`); default: all cores of this machine. `memory` is the driver's, as `8g`, if this
    process starts it.
    """
    if master and remote:
        raise InputError(f"give a master ({master}) or a remote server ({remote}), not both")
    if master and not _MASTER.match(master):
        raise InputError(f"'{master}' is no Spark master: write local[2], spark://host:7077, yarn or k8s://…")
    if remote and not remote.startswith("sc://"):
        raise InputError(f"'{remote}' is no Spark Connect server: write sc://host:15002")
    session = _start(master, remote, app, {**_memory(memory), **(config or {})})
    try:
        with translated():
            yield session
    finally:
        _stop(session)


def _stop(session: SparkSession) -> None:
    """End a session; one whose JVM has ended is forgotten, so that the next one starts a JVM of its own."""
    try:
        session.stop()
    except Exception as error:
        if not _is_foreign(error) and not isinstance(error, OSError):
            raise
        from pyspark import SparkContext  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415

        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        SparkSession._instantiatedSession = None  # noqa: SLF001


def is_local(master: str | None, remote: str | None) -> bool:
    """Whether a session runs in this machine's own JVM."""
    return remote is None and (master or LOCAL).startswith("local")


def few_parts(master: str | None, remote: str | None) -> dict[str, str]:
    """Settings for one machine: shuffle partitions for its cores instead of a cluster's 200.

    That is the number for state, and for queries that are not adaptive. Others write many partitions and read
    as many of them together as make 64 MiB, or a share for each core: so tasks of large recordings stay in
    memory, and those of small ones are few.
    """
    if not is_local(master, remote):
        return {}
    return {
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(_WRITTEN_PARTS),
    }


def cores(spark: SparkSession) -> int:
    """Number of cores of a session."""
    found = spark.conf.get("spark.master", "")
    local = re.fullmatch(r"local\[(\d+|\*)\]", found or "")
    if local is not None:
        return os.cpu_count() or 1 if local[1] == "*" else int(local[1])
    # Spark splits a range into as many partitions as it has cores: the only way that works on Connect too.
    parts = spark.range(_MANY).selectExpr("spark_partition_id() as part").selectExpr("max(part) + 1").first()
    assert parts is not None
    return int(parts[0])


def _memory(memory: str | None) -> dict[str, str]:
    return {} if memory is None else {"spark.driver.memory": memory}


def _start(master: str | None, remote: str | None, app: str, config: Mapping[str, str]) -> SparkSession:
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  # optional dependency
    except ImportError:
        raise MissingTool("Spark is not installed: pip install 'penstock[spark]'") from None
    if remote is None:
        _need_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers run the first python3 on PATH
    builder = SparkSession.builder.appName(app)
    settings = dict(_SETTINGS)
    if remote is not None:
        builder = builder.remote(remote)
    else:
        builder = builder.master(master or LOCAL)
        if (master or LOCAL).startswith("local"):
            settings |= _LOCAL_SETTINGS
    for name, value in {**settings, **config}.items():
        builder = builder.config(name, value)
    where = remote or master or LOCAL
    _knock(where)
    with translated(where=where), _quiet_jvm(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Connect warns about settings of an existing server
        session = builder.getOrCreate()
        session.range(1).count()  # fails here if nothing answers at the address
    return session


def _knock(where: str) -> None:
    """Fail at once if nothing answers at an address; Spark would try for more than a minute."""
    why = unreachable(where)
    if why is not None:
        raise SparkFailed(f"connection to {where} failed: {why}; is the Spark server running there?")


def unreachable(where: str) -> str | None:
    """Why nothing answers at the address of a master or server; None if something does, or none is in it."""
    for host, port in re.findall(r"([\w.-]+|\[[0-9a-f:]+\]):(\d+)", where, re.IGNORECASE):
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=limits.CONNECT_S).close()
        except (OSError, OverflowError) as error:
            return str(getattr(error, "strerror", None) or error)
    return None


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, without a java" if home else "there is no java on PATH"
        raise MissingTool(f"Spark needs Java {limits.JAVA_LEAST} or newer, and {where}: {_JAVA_ADVICE}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    version = re.search(r'version "(\d+)', done.stderr)
    if version is None or int(version[1]) < limits.JAVA_LEAST:
        found = version[1] if version else "an unknown version"
        raise MissingTool(f"Spark needs Java {limits.JAVA_LEAST} or newer, {java} is {found}: {_JAVA_ADVICE}")


_JAVA_ADVICE: Final = "install openjdk-17-jre-headless (Debian, Ubuntu), or set JAVA_HOME"


@contextmanager
def _quiet_jvm() -> Iterator[None]:
    """Silence a JVM started in this block: relevant errors come back as exceptions.

    A child process inherits the file descriptors; PENSTOCK_DEBUG=1 leaves its log on standard error.
    """
    if os.environ.get("PENSTOCK_DEBUG"):
        yield
        return
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nobody:  # noqa: PTH123
            os.dup2(nobody.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# -- errors --------------------------------------------------------------------------------------------------

_CONDITION = re.compile(r"\s*\[([A-Z_]+)[\w.]*\]")
_OWN = re.compile(r"penstock\.errors\.(\w+): (.+)")
_ENDED = re.compile(r"^\s*(\[STREAM_FAILED\] )?Query \[id = [^\]]*\] terminated with exception: ")
"""Prefix of Spark's error of a streaming query."""
_UNREAD = re.compile(r"Encountered error while reading file (.+?)(?:\. +([A-Z].*))?")


@contextmanager
def translated(*, where: str = "") -> Iterator[None]:
    """Translate Spark's errors to ours."""
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise _ours(error, where) from error
    except Exception as error:
        if _is_foreign(error):
            raise _ours(error, where) from error
        raise


def _is_foreign(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("py4j", "grpc", "pyspark")


def _ours(error: Exception, where: str) -> InputError | SparkFailed:
    java = getattr(error, "java_exception", None)
    text = _ENDED.sub("", str(error) if java is None else str(java.getMessage()))
    own = _OWN.search(text)
    if own is not None:  # our own error, raised in a Python worker
        return InputError(own[2].strip())
    raised = re.search(r"\[USER_RAISED_EXCEPTION\] (.+)", text)
    if raised is not None:
        return InputError(re.sub(r" SQLSTATE: \w+.*", "", raised[1]).strip())
    condition = _CONDITION.match(text)
    if where:
        return SparkFailed(f"no Spark session at {where}: {_sentence(text)}")
    unread = _UNREAD.fullmatch(_sentence(text))
    if unread is not None:
        return _unreadable(unread[1], unread[2] or _deepest(error))
    if condition is not None and condition[1].startswith(_INPUT):
        return InputError(_sentence(text))
    return SparkFailed(f"Spark failed: {_sentence(text)}; set PENSTOCK_DEBUG=1 to see where")


def _unreadable(file: str, reason: str) -> InputError:
    place = re.sub("^file:/+", "/", file)
    if not reason or reason.startswith("Could not read footer"):
        return InputError("cannot be read: it is damaged, or of another format", path=place)
    return InputError(f"cannot be read: {reason}", path=place)


def _deepest(error: Exception) -> str:
    """Root cause: what Spark says about a record, else the last cause of its stack trace."""
    stack = getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None) or ""
    found: list[str] = re.findall(r"Caused by: [\w.$]+: (.+)", stack)
    record = next((text for text in found if "MALFORMED_RECORD" in text), None)
    if record is not None:
        return _sentence(record).partition(". Parse Mode")[0]
    return _sentence(found[-1]) if found else ""


_INPUT: Final = (
    "PATH_NOT_FOUND",
    "UNABLE_TO_INFER_SCHEMA",
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE",
    "MALFORMED",
    "UNRESOLVED_COLUMN",
    "DATATYPE_MISMATCH",
    "CAST_INVALID_INPUT",
    "PATH_ALREADY_EXISTS",
    "DUPLICATED",
    "DATA_SOURCE_NOT_FOUND",
    "COLUMN_ALREADY_EXISTS",
    "NO_SUCH",
    "TABLE_OR_VIEW_NOT_FOUND",
)


def reason(line: str) -> str:
    """Return the error that a line of a program's output reports."""
    return _sentence(_ENDED.sub("", re.sub(r"^[\w.]+(Exception|Error): (?=\[)", "", line.strip())))


def _sentence(text: str) -> str:
    """First sentence of a message, without Spark's error class and developer details."""
    first = next((line for line in text.splitlines() if line.strip()), text or "no reason given").strip()
    first = re.sub(r"^\[[\w.]+\]\s*", "", first)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", first).rstrip(".;")
