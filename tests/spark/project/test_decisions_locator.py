"""The policy that the pipeline of examples/locator advises, as `pipeline run` in its README does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.node.store.parquet import EVENTS
from penstock.pipeline.project.decisions import decide
from penstock.pipeline.project.plain import run_plain
from penstock.pipeline.project.runs import Accounting
from penstock.policy.filters import Inset
from penstock.policy.text.forms import parse
from tests.kit.locator import ADVISED, pipeline, syslog_events
from tests.spark.project.recordings import record

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_a_pipeline_advises_a_policy_that_spares_associations(spark: SparkSession, tmp_path: Path) -> None:
    project = pipeline(tmp_path)
    record(project.sources("events")[0], EVENTS, syslog_events(3_000))
    accounting = Accounting(project)
    run_plain(spark, project, done=lambda *_: None)
    decide(spark, project)
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE {project.database} CASCADE")
    assert accounting.run(engine="plain").tables["events"].rows_read == 3_000
    (advice,) = json.loads((project.folder / "advice.json").read_text())
    assert (advice["name"], advice["state"]) == (ADVISED, "shadow"), advice["reason"]
    policy = parse(advice["policy"])
    associations = ("Associated", "Reassociated")
    (step,) = policy.matters
    assert step.filter == Inset(values=associations)
    dropped = [one.filter for level in policy.levels for one in level if isinstance(one.filter, Inset)]
    assert dropped
    assert not {value for one in dropped for value in one.values} & set(associations)
