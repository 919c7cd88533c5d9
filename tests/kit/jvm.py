"""How the JVMs of tests start: most live for seconds, and half of that is spent on loading Spark's classes.

An archive of these classes, read and verified once, is kept beside the environment that has Spark's jars.
With it a session, and its first job, take half the CPU. Java checks that an archive fits its own version
and the jars; one that does not fit, or is not there yet, is passed over.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.pipeline.session import QUICK_JAVA
from tests.kit.effort import LONG

SILENT = "-Xlog:cds*=off"
"""Otherwise Java's lines about archives mix with the output of commands."""


def _archive() -> Path:
    """The archive of this Java and this Spark."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java") or "none"
    which = f"{Path(java).resolve()} {version('pyspark')} {QUICK_JAVA}"
    return Path(sys.prefix) / f"spark-classes-{hashlib.sha256(which.encode()).hexdigest()[:12]}.jsa"


ARCHIVE = _archive()
LAUNCH = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop starts a chmod for each file and folder that it makes, some hundred in a run of a pipeline: this way
of starting a process takes two thirds of the CPU of the usual one."""
OPTIONS = f"{QUICK_JAVA} {LAUNCH}"
if " " not in str(ARCHIVE):
    OPTIONS += f" -XX:SharedArchiveFile={ARCHIVE} {SILENT}"
"""Of every JVM that a test starts. Spark splits them at blanks, whatever is quoted."""


CODEGEN = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""What Spark does unless told otherwise: it writes Java for each query, and compiles it."""

INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
"""Half the CPU of a query over some rows compiles its Java: most tests let Spark evaluate plans as such."""

SPARK_OPTIONS = OPTIONS if LONG else f"{OPTIONS} {INTERPRETED}"
"""Of every JVM that runs Spark for a test; `make test-long` runs it as users do."""


def archive_classes() -> None:
    """Write the archive if there is none, by a program that does what the tests do with Spark.

    One process of a test run does it, the others go on without.
    """
    if str(ARCHIVE) not in OPTIONS or ARCHIVE.exists() or not os.access(sys.prefix, os.W_OK):
        return
    with ARCHIVE.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        with TemporaryDirectory(dir=sys.prefix) as folder:
            written = Path(folder) / "classes.jsa"
            command = [sys.executable, "-m", "tests.spark.class_archive", folder]
            options = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={written} {SILENT}"
            try:
                done = subprocess.run(
                    command,
                    env={**os.environ, "SPARK_SUBMIT_OPTS": options},
                    capture_output=True,
                    timeout=600,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return  # tests say what is wrong with Spark; an archive only saves time
            if done.returncode == 0 and written.exists():
                written.replace(ARCHIVE)
