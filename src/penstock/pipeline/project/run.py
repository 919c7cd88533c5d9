"""One run of a pipeline: recorders complete their files, every table is brought up to date, nodes are told.

The graph of tables runs in an ordinary session (the engine `plain`); the decided tables follow.
"""

from __future__ import annotations

import fcntl
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.errors import InputError, PenstockError
from penstock.pipeline.project.catalogue import RECORDED
from penstock.pipeline.project.decisions import decide
from penstock.pipeline.project.plain import run_plain
from penstock.pipeline.project.runs import Accounting, mark_taken, remember
from penstock.pipeline.session import few_parts, open_session
from penstock.pipeline.tables.files import finish_running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.pipeline.project.runs import Run
    from penstock.pipeline.project.settings import Project

ENGINES: Final = ("plain",)


def run_once(
    project: Project,
    *,
    engine: str = "plain",
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
            control = _run(project, master, remote, memory, step)
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
    master: str | None,
    remote: str | None,
    memory: str | None,
    step: Callable[[int, int, str], None],
) -> dict[str, int]:
    def told(table: str, place: int, count: int) -> None:
        step(place, count, table)

    step(0, 1, "starting Spark")
    config = few_parts(master, remote) | (catalog_of(project) if remote is None else {})
    with open_session(
        master=master, remote=remote, memory=memory, app=f"penstock pipeline {project.folder}", config=config
    ) as spark:
        run_plain(spark, project, done=told)
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
