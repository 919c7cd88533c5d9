"""Where a pipeline's tables are for Spark: a catalog of the project's own, or a database on a server.

On this machine, and on the master of a cluster, tables are in Hive's catalog, in a Derby database of the
project. A Spark Connect server has one catalog for all: the project has a database of its own in it. The
files and the checkpoints are the project's in either case, so that a run goes on wherever the last one ended.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import InputError
from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.project.settings import PLAIN_FILES, SPECIFICATION, told
from penstock.pipeline.session import STATE_STORE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipeline.project.settings import Project

SINK_LOG: Final = "_spark_metadata"
"""Folder inside that of a streaming table, in which Spark notes the files that belong to the table."""

_DEFAULT: Final = "default"
_WAREHOUSE: Final = "spark.sql.warehouse.dir"
_ON_SERVER: Final = ".server.yml"


def _needed(project: Project) -> dict[str, str]:
    """Settings of Spark that the tables need, whoever runs them."""
    return {
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.session.timeZone": "UTC",  # days are days in UTC
        "spark.sql.sources.default": project.settings.format,
    }


def catalog_of(project: Project) -> dict[str, str]:
    """Settings of Spark for a catalog that survives: Hive's, in a Derby database of the project."""
    derby = f"jdbc:derby:;databaseName={project.folder / 'catalog'};create=true"
    return {
        "spark.sql.catalogImplementation": "hive",
        _WAREHOUSE: str(project.folder / "tables"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        # Hive makes this folder and leaves it; by default a new one in /tmp for each run.
        "spark.hadoop.hive.downloaded.resources.dir": str(project.folder / ".hive"),
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={project.folder / 'derby.log'}",
        **_needed(project),
    }


def use_database(spark: SparkSession, project: Project) -> None:
    """Make the project's database the current one; tables that its catalog has lost are in it again."""
    place = project.folder / "tables"
    if os.path.normpath(str(spark.conf.get(_WAREHOUSE)).removeprefix("file:")) == str(place):
        spark.catalog.setCurrentDatabase(_DEFAULT)
    else:
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {project.database} LOCATION '{place.as_uri()}'")
        spark.catalog.setCurrentDatabase(project.database)
    for name, value in _needed(project).items():
        spark.conf.set(name, value)
    if project.settings.format in PLAIN_FILES:
        _adopt(spark, place)


def _adopt(spark: SparkSession, place: Path) -> None:
    """Tell the catalog of tables it does not know: a server keeps its catalog in memory until it ends.

    Streaming tables have what checkpoints count as read. The others are made anew by each run, and Spark
    makes no table of its own where files are. Formats with a log of their own, as Delta's, have catalogs that
    last.
    """
    place.mkdir(parents=True, exist_ok=True)
    known = {row["tableName"] for row in spark.sql("SHOW TABLES").collect()}
    for folder in sorted(one for one in place.iterdir() if one.is_dir() and one.name not in known):
        if not (folder / SINK_LOG).is_dir():
            shutil.rmtree(folder)
            continue
        own = TABLES.get(folder.name)
        schema = None if own is None else own.schema  # of a table that a user has added, Spark finds it out
        spark.catalog.createTable(folder.name, path=folder.as_uri(), schema=schema)


def replace_rows(frame: DataFrame, table: str) -> None:
    """Make a frame's rows those of a table.

    The table stays in the catalog while it is written. Dropped and made again, as Spark does on its own, a
    kill in between would leave files without a table, where Spark refuses to make one.
    """
    catalog = frame.sparkSession.catalog
    if catalog.tableExists(table):
        there = frame.sparkSession.read.table(table).schema
        if there.simpleString() != frame.schema.simpleString():
            frame.sparkSession.sql(f"DROP TABLE {table}")
    if not catalog.tableExists(table):
        catalog.createTable(table, schema=frame.schema)
    frame.write.insertInto(table, overwrite=True)


def checkpoint_of(project: Project, table: str) -> Path:
    """Folder in which Spark keeps what a streaming table has read, as `spark-pipelines` names it."""
    return _checkpoints(project) / _DEFAULT / table / table / "0"


def _checkpoints(project: Project) -> Path:
    return project.folder / "storage" / "_checkpoints" / "spark_catalog"


def specification_on_server(project: Project) -> Path:
    """Specification for `spark-pipelines` on a server: the project's own, with the database there.

    Spark names checkpoints by the database; a link makes them those of a run on this machine.
    """
    path = project.folder / SPECIFICATION
    try:
        found: dict[str, Any] = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any])
        found["database"] = project.database
        found["configuration"] = {**_needed(project), **(found.get("configuration") or {})}
        made = project.folder / _ON_SERVER
        made.write_bytes(msgspec.yaml.encode(found))
        (_checkpoints(project) / _DEFAULT).mkdir(parents=True, exist_ok=True)
        link = _checkpoints(project) / project.database
        if not link.is_symlink():
            link.symlink_to(_DEFAULT, target_is_directory=True)
    except msgspec.DecodeError as error:
        raise InputError(told(error), path=path) from None
    except OSError as error:
        raise InputError(f"cannot be prepared: {error.strerror or error}", path=project.folder) from None
    return made
