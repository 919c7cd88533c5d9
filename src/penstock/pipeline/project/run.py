"""One run of a pipeline: recorders complete their files, every table is brought up to date, nodes are told.

With the engine `spark` the graph of tables runs by `spark-pipelines run`, in a process of its own; with
`plain`, or on a given master, in this process's session. The decided tables follow in either case.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from penstock.errors import InputError, PenstockError, SparkFailed
from penstock.pipeline.project.catalogue import RECORDED
from penstock.pipeline.project.decisions import decide
from penstock.pipeline.project.plain import database_of, run_plain
from penstock.pipeline.project.runs import Accounting, mark_taken, remember
from penstock.pipeline.project.settings import SPECIFICATION
from penstock.pipeline.session import few_parts, is_local, open_session
from penstock.pipeline.tables.files import finish_running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.pipeline.project.runs import Run
    from penstock.pipeline.project.settings import Project

ENGINES: Final = ("spark", "plain")
LOG: Final = "spark-pipelines.log"


def run_once(
    project: Project,
    *,
    engine: str = "spark",
    master: str | None = None,
    remote: str | None = None,
    memory: str | None = None,
    step: Callable[[int, int, str], None] = lambda *_: None,
) -> Run:
    """Run a pipeline once; the run is remembered even if it fails."""
    with _alone(project):
        step(0, 1, "asking nodes to complete their files")
        _complete(project)
        mark_taken(project)
        accounting = Accounting(project)
        error, control = "", {}
        try:
            control = _run(project, engine, master, remote, memory, step)
        except (PenstockError, KeyboardInterrupt) as failure:
            error = str(failure) or type(failure).__name__
            raise
        finally:
            mark_taken(project)
            done = accounting.run(engine=engine, error=error, control=control)
            remember(project, done)
        return done


def _run(
    project: Project,
    engine: str,
    master: str | None,
    remote: str | None,
    memory: str | None,
    step: Callable[[int, int, str], None],
) -> dict[str, int]:
    def told(table: str, place: int, count: int) -> None:
        step(place, count, table)

    if engine == "spark":
        _run_declared(project, master, remote, step)
    step(0, 1, "starting Spark")
    config = few_parts(master, remote) | (catalog_of(project) if remote is None else {})
    with open_session(
        master=master, remote=remote, memory=memory, app=f"penstock pipeline {project.folder}", config=config
    ) as spark:
        if engine == "plain":
            run_plain(spark, project, done=told)
        else:
            spark.catalog.setCurrentDatabase(database_of(spark, project))
        return decide(spark, project, done=told)


def catalog_of(project: Project) -> dict[str, str]:
    """Settings of Spark for a catalog that survives: Hive's, in a Derby database of the project."""
    derby = f"jdbc:derby:;databaseName={project.folder / 'catalog'};create=true"
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(project.folder / "tables"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={project.folder / 'derby.log'}",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }


def _run_declared(
    project: Project, master: str | None, remote: str | None, step: Callable[[int, int, str], None]
) -> None:
    """Run the graph of tables by `spark-pipelines run`; its output goes to a file of the project."""
    if master is not None and not is_local(master, remote):
        raise InputError(
            f"spark-pipelines takes no master ({master}): give --remote, a Connect server of that cluster, "
            "or --engine plain"
        )
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-pipelines"), "run", "--spec", str(project.folder / SPECIFICATION)]
    command += ["--remote", remote or master or "local[*]"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(project.folder / "conf"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    path = project.folder / LOG
    step(0, 1, "starting spark-pipelines")
    with (
        path.open("w", encoding="utf-8", buffering=1) as log,  # line by line, for whoever watches
        subprocess.Popen(  # noqa: S603  # our own program with our own arguments
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
        ) as process,
    ):
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            log.write(line)
            if "Flow" in line and line.rstrip().endswith(("RUNNING.", "COMPLETED.")):
                step(0, 1, line.partition("Flow ")[2].strip().rstrip("."))
            if "SQLSTATE" in line or "Error" in line.partition(":")[0]:
                last = line.strip()
        code = process.wait()
    if code:
        raise SparkFailed(f"spark-pipelines failed with code {code}: {last[:300]}; see {path}")


def _complete(project: Project) -> None:
    folders = [folder for kind in RECORDED for folder in project.sources(kind) if folder.is_dir()]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda folder: finish_running(str(folder)), folders))


@contextmanager
def _alone(project: Project) -> Iterator[None]:
    """Keep a second run of the same pipeline out."""
    path = project.folder / ".lock"
    try:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError("another run of this pipeline is going on", path=project.folder) from None
            yield
    except PermissionError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
