"""Runs a project's definitions in an ordinary Spark session, without Spark's pipelines runner.

The functions run in the order in which they are defined. A streaming table reads what is new and ends; a
materialized view is computed again. Checkpoints are where the pipelines runner has them, so that either
engine goes on where the other stopped.
"""

from __future__ import annotations

import importlib.util
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, StreamingTable, TemporaryView

from penstock import limits
from penstock.errors import InputError, PenstockError
from penstock.pipeline.project.database import checkpoint_of, replace_rows, use_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.pipelines.output import Output
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipeline.project.settings import Project

DEFINITIONS: Final = "transformations"
TOO_BUSY: Final = "Python worker failed to connect back"
"""Part of what Spark says if a Python process of its own has not come up in ten seconds."""


class Definitions(GraphElementRegistry):
    """Outputs and flows of a project, in the order in which they were defined."""

    def __init__(self) -> None:
        self.outputs: dict[str, Output] = {}
        self.flows: dict[str, Flow] = {}

    def register_output(self, output: Output) -> None:
        """Note a table or view."""
        if not isinstance(output, StreamingTable | MaterializedView | TemporaryView):
            raise InputError(f"'{output.name}': only tables and views run with --engine plain")
        if output.name in self.outputs:
            raise InputError(f"'{output.name}' is defined twice")
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        """Note the function that makes an output."""
        if flow.target in self.flows:
            raise InputError(
                f"'{flow.target}' has two flows; Parquet tables can have one: use unionByName in it"
            )
        self.flows[flow.target] = flow

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Refuse a flow of changes."""
        raise InputError(f"'{flow.target}' is made of changes (auto CDC), which --engine plain cannot do")

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Refuse definitions in SQL."""
        raise InputError(
            f"{len(sql_text)} characters of SQL; --engine plain runs Python only", path=file_path
        )


def definitions(project: Project) -> Definitions:
    """The definitions in the project's files, which need an active session."""
    found = Definitions()
    files = sorted((project.folder / DEFINITIONS).rglob("*.py"))
    if not files:
        raise InputError(f"there are no definitions in {DEFINITIONS}", path=project.folder)
    with graph_element_registration_context(found):
        for path in files:
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            with _mistakes(path):
                spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return found


@contextmanager
def _mistakes(path: Path) -> Iterator[None]:
    """Tell mistakes in a user's definitions as such; errors of Spark and of ours pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PenstockError | PySparkException):
            raise
        steps = traceback.extract_tb(error.__traceback__)
        line = error.lineno if isinstance(error, SyntaxError) else None
        line = next((step.lineno for step in reversed(steps) if step.filename == str(path)), line)
        raise InputError(f"line {line}: {type(error).__name__}: {error}", path=path) from error


def run_plain(spark: SparkSession, project: Project, *, done: Callable[[str, int, int], None]) -> None:
    """Bring every table of a project up to date; `done` is told each table when it is, and how many."""
    use_database(spark, project)
    found = definitions(project)
    for place, (name, output) in enumerate(found.outputs.items()):
        with _mistakes(Path(found.flows[name].source_code_location.filename)):
            frame = found.flows[name].func()
        if isinstance(output, TemporaryView):
            frame.createOrReplaceTempView(name)
        elif isinstance(output, StreamingTable):
            _append(frame, name, checkpoint_of(project, name))
        elif frame.isStreaming:
            raise InputError(f"the materialized view '{name}' is a stream; use @dp.table for it")
        else:
            replace_rows(frame, name)
        done(name, place + 1, len(found.outputs))


def _append(frame: DataFrame, name: str, checkpoint: Path) -> None:
    if not frame.isStreaming:
        raise InputError(f"the table '{name}' is not a stream; use @dp.materialized_view for it")
    _grow(frame, name)
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    for left in reversed(range(limits.STREAM_TRIES)):
        try:
            writer.trigger(availableNow=True).toTable(name).awaitTermination()
        except StreamingQueryException as error:
            if not left or TOO_BUSY not in str(error):
                raise
        else:
            return


def _grow(frame: DataFrame, name: str) -> None:
    """Add columns that the definition has and the table does not have yet."""
    spark = frame.sparkSession
    if not spark.catalog.tableExists(name):
        return
    there = {field.name: field.dataType for field in spark.read.table(name).schema}
    for field in frame.schema:
        known = there.get(field.name)
        if known is not None and known.simpleString() != field.dataType.simpleString():
            raise InputError(
                f"column '{field.name}' of the table '{name}' is {known.simpleString()}, its definition says "
                f"{field.dataType.simpleString()}; give the column another name"
            )
    more = [field for field in frame.schema if field.name not in there]
    if more:
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in more)
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({columns})")
