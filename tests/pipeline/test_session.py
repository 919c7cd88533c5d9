"""A session that cannot be had says why at once; none of this starts a JVM."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PythonException

from penstock.errors import InputError, MissingTool, SparkFailed
from penstock.pipeline.session import open_session, translated

if TYPE_CHECKING:
    from pathlib import Path


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_an_address_where_nobody_answers_is_named() -> None:
    where = f"127.0.0.1:{closed_port()}"
    with (
        pytest.raises(SparkFailed, match=f"connection to spark://{where} failed"),
        open_session(master=f"spark://{where}"),
    ):
        pass
    with (
        pytest.raises(SparkFailed, match=f"connection to sc://{where} failed"),
        open_session(remote=f"sc://{where}"),
    ):
        pass


def test_a_session_has_one_place() -> None:
    with (
        pytest.raises(InputError, match="not both"),
        open_session(master="local[1]", remote="sc://127.0.0.1:1"),
    ):
        pass


@pytest.mark.parametrize("master", ["lokal", "local[", "127.0.0.1:7077", "sc://127.0.0.1:15002", "http://a"])
def test_what_is_no_master_is_told_before_java_starts(master: str) -> None:
    with (
        pytest.raises(InputError, match=r"is no Spark master: write local\[2\]"),
        open_session(master=master),
    ):
        pass


def test_what_is_no_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with (
        pytest.raises(InputError, match="is no Spark Connect server: write sc://host"),
        open_session(remote="spark://127.0.0.1:7077"),
    ):
        pass


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingTool, match=f"JAVA_HOME is {tmp_path}.*openjdk-17"), open_session():
        pass


def test_a_java_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingTool, match=r"Java 17 or newer, .* is 11"), open_session():
        pass


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (
            AnalysisException("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03"),
            InputError,
            "Path does not exist: file:/x",
        ),
        (
            PythonException("…\npenstock.errors.DigestError: column 'digest': version 7 is unknown\n"),
            InputError,
            "column 'digest': version 7 is unknown",
        ),
        (
            PythonException("[USER_RAISED_EXCEPTION] column 'v' is what it is SQLSTATE: P0001\nat org…"),
            InputError,
            "column 'v' is what it is",
        ),
        (
            PythonException(
                "[STREAM_FAILED] Query [id = 1-2, runId = 3] terminated with exception: "
                "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.parquet.  "
                "SQLSTATE: KD001"
            ),
            InputError,
            "/in/a.parquet: cannot be read: it is damaged, or of another format",
        ),
        (
            AnalysisException(
                "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file "
                "s3a://b/a.parquet. Data type mismatches when reading Parquet column [v]. SQLSTATE: KD001"
            ),
            InputError,
            "s3a://b/a.parquet: cannot be read: Data type mismatches when reading Parquet column [v]",
        ),
        (
            PythonException("[INTERNAL_ERROR] out of luck. SQLSTATE: XX000\n\tat org…"),
            SparkFailed,
            "Spark failed: out of luck; set PENSTOCK_DEBUG=1 to see where",
        ),
    ],
)
def test_what_spark_says_becomes_a_sentence(error: Exception, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind) as found, translated():
        raise error
    assert str(found.value) == sentence


def test_errors_that_are_not_sparks_pass() -> None:
    with pytest.raises(ZeroDivisionError), translated():
        raise ZeroDivisionError
