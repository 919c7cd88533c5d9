"""One run of a pipeline: recorders complete their files, every table is brought up to date, nodes are told.

With the engine `spark` the graph of tables runs by `spark-pipelines run`, with `plain` in this process's
session, which can be that of any master. The decided tables follow in either case.
"""

from __future__ import annotations

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import InputError, SparkFailed
from penstock.pipeline.project.catalogue import RECORDED
from penstock.pipeline.project.database import catalog_of, specification_on_server, use_database
from penstock.pipeline.project.decisions import decide
from penstock.pipeline.project.declared import address_of, as_server, run_declared
from penstock.pipeline.project.plain import TOO_BUSY, run_plain
from penstock.pipeline.project.runs import Accounting, mark_taken, remember
from penstock.pipeline.project.settings import SPECIFICATION
from penstock.pipeline.project.standstill import Standstill, standing
from penstock.pipeline.session import few_parts, is_local, open_session
from penstock.pipeline.tables.files import finish_running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.pipeline.project.runs import Run
    from penstock.pipeline.project.settings import Project

ENGINES: Final = ("spark", "plain")


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
    with _alone(project) as lock:
        step(0, 1, "asking nodes to complete their files")
        _complete(project)
        mark_taken(project)
        accounting = Accounting(project)
        error, control = "", {}
        try:
            work = partial(_run, project, lock, engine, master, remote, memory)
            control = _tried(work, master, remote, step)
        except BaseException as failure:  # an interrupt, too
            error = str(failure) or type(failure).__name__
            raise
        finally:
            mark_taken(project)
            done = accounting.run(engine=engine, error=error, control=control)
            remember(project, done)
        return done


def _tried(
    work: Callable[[Callable[[int, int, str], None]], dict[str, int]],
    master: str | None,
    remote: str | None,
    step: Callable[[int, int, str], None],
) -> dict[str, int]:
    """Run, and once more if Spark came to a standstill, or had no time for a process of its own."""
    for left in reversed(range(limits.RUN_TRIES)):
        try:
            with standing(master, remote, step) as told:
                return work(told)
        except SparkFailed as error:
            if not left or not (isinstance(error, Standstill) or TOO_BUSY in str(error)):
                raise
            step(0, 1, f"trying once more: {error}")
    raise AssertionError("a try returns or raises")


def _run(
    project: Project,
    lock: int,
    engine: str,
    master: str | None,
    remote: str | None,
    memory: str | None,
    step: Callable[[int, int, str], None],
) -> dict[str, int]:
    def told(table: str, place: int, count: int) -> None:
        step(place, count, table)

    if engine == "spark" and remote is None and not is_local(master, remote):
        raise InputError(
            f"spark-pipelines takes no master ({master}): give --remote, a Connect server of that cluster, "
            "or --engine plain"
        )
    if engine == "spark" and project.settings.format == "orc":
        raise InputError("spark-pipelines cannot read the ORC tables it has written: give --engine plain")
    step(0, 1, "starting Spark")
    config = few_parts(master, remote)
    if remote is None:
        config |= catalog_of(project)
    if is_local(master, remote):
        os.environ.setdefault("SPARK_CONF_DIR", str(project.folder / "conf"))  # it is the user's to extend
        config |= as_server() if engine == "spark" else {}
    with open_session(
        master=master, remote=remote, memory=memory, app=f"penstock pipeline {project.folder}", config=config
    ) as spark:
        if engine == "plain":
            run_plain(spark, project, done=told)
        else:
            use_database(spark, project)
            if remote is None:
                run_declared(project, project.folder / SPECIFICATION, address_of(spark), None, step)
            else:
                run_declared(project, specification_on_server(project), remote, lock, step)
        return decide(spark, project, done=told)


def _complete(project: Project) -> None:
    folders = [folder for kind in RECORDED for folder in project.sources(kind) if folder.is_dir()]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda folder: finish_running(str(folder)), folders))


@contextmanager
def _alone(project: Project) -> Iterator[int]:
    """Keep a second run of the same pipeline out, by a file whose descriptor is given."""
    path = project.folder / ".lock"
    try:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError("another run of this pipeline is going on", path=project.folder) from None
            yield file.fileno()
    except PermissionError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
