"""Gold tables that are decided on the driver: which policies are advised, and which are installed.

A policy is learned and replayed, which takes many queries. Then the control tables get new versions, which
nodes follow. Advice goes through a gate: it is learned in one run (`shadow`), and a later run replays it on
events that it has not seen, beside the baselines; only if it `held` it becomes a policy of its receivers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as sf

from penstock import limits
from penstock.core.backtest.settings import BASELINES, Candidate, Settings
from penstock.core.queues import drain
from penstock.errors import GoalMissed, InputError
from penstock.pipeline.connector.control_sink import FORMAT, register_control
from penstock.pipeline.jobs.advise.advice import advise
from penstock.pipeline.jobs.advise.profile import AdviceRequest
from penstock.pipeline.jobs.advise.verdict import verdict
from penstock.pipeline.jobs.backtest.replay import backtested
from penstock.pipeline.project.catalogue import CONTROL, TABLES
from penstock.pipeline.project.database import replace_rows
from penstock.pipeline.project.silver import once, recent
from penstock.pipeline.tables.control_tables import newest_version
from penstock.policy.text import forms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.project.settings import AdviceSettings, Project

ADVICE: Final = "advice.json"
LEAST_EVENTS: Final = 200
"""Events that advice is learned from, and that a shadow backtest needs: fewer decide nothing."""


class AdviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `policy_advice`."""

    name: str
    learned_us: int
    state: str
    policy: str
    kept: float = 1.0
    items: float = 1.0
    shadow_us: int = 0
    shadow_events: int = 0
    reason: str = ""


def decide(
    spark: SparkSession, project: Project, *, done: Callable[[str, int, int], None] = lambda *_: None
) -> dict[str, int]:
    """Bring the decided tables up to date; return the control tables with a new version, and its number."""
    register_control(spark)
    before = {name: _number(project, name) for name in CONTROL}
    advice = _advise(spark, project)
    _remember(project, advice)
    _save(spark, advice, "policy_advice")
    done("policy_advice", 1, 3)
    _save(spark, _installed(project, advice), "policies")
    done("policies", 2, 3)
    for name in CONTROL:
        _publish(spark.read.table(name), project, name)
    done("control tables", 3, 3)
    after = {name: _number(project, name) for name in CONTROL}
    return {name: number for name, number in after.items() if number != before[name]}


def _number(project: Project, name: str) -> int:
    found = newest_version(project.control / name)
    return 0 if found is None else found.version


def _publish(frame: DataFrame, project: Project, name: str) -> None:
    """Write a control table; no first version without rows, which would say nothing."""
    if not _number(project, name) and frame.isEmpty():
        return
    writer = frame.write.format(FORMAT).mode("append")
    writer.options(path=str(project.control / name), table=name, note=f"pipeline {project.folder}").save()


def _save(spark: SparkSession, rows: Sequence[Any], name: str) -> None:
    """Write a small table whose rows are on the driver."""
    schema = TABLES[name].schema
    made = [tuple(getattr(row, field) for field in schema.names) for row in rows]
    replace_rows(spark.createDataFrame(made, schema), name)


# -- policies ------------------------------------------------------------------------------------------------


def _advise(spark: SparkSession, project: Project) -> list[AdviceRow]:
    """Earlier advice, tried on newer events where it is in shadow, and new advice."""
    rows: list[AdviceRow] = []
    known = _known(project)
    for own in project.settings.advise:
        earlier = [row for row in known if row.name == own.name]
        events = _events_of(spark, project, own)
        newest_us = _newest(events)
        if newest_us is None:
            rows += earlier
            continue
        last = earlier[-1] if earlier else None
        if last is not None and last.state == "shadow" and newest_us > last.learned_us:
            last = _tried(last, events, project)
            earlier[-1] = last
        # While one is in shadow no other is learned: it would never be tried.
        if last is None or (last.state != "shadow" and newest_us > max(last.learned_us, last.shadow_us)):
            earlier.append(_learned(own, events, newest_us, project))
        rows += _remembered(earlier)
    return rows


def _remembered(rows: Sequence[AdviceRow]) -> list[AdviceRow]:
    """The newest advice of a class, and the newest that held: it is installed until another one holds."""
    newest = rows[-limits.ADVICE_KEPT :]
    held = [row for row in rows if row.state == "held"][-1:]
    return [*(row for row in held if row not in newest), *newest]


def _known(project: Project) -> list[AdviceRow]:
    """Advice of earlier runs, from a file that is whole after any kill; the table is a copy for readers."""
    path = project.folder / ADVICE
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[AdviceRow])
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as error:
        raise InputError(f"is damaged ({error}); without it advice is learned anew", path=path) from None


def _remember(project: Project, rows: Sequence[AdviceRow]) -> None:
    path = project.folder / ADVICE
    made = path.with_suffix(".new")
    made.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))
    made.replace(path)


def _events_of(spark: SparkSession, project: Project, own: AdviceSettings) -> DataFrame:
    """The last days' events that a class of receivers gets."""
    events = spark.read.table("events").where(_matches(own.filter))
    return events.transform(recent(project.settings.days, "events")).transform(once)


def _matches(filter_: str) -> Column:
    """Whether the topic of an event matches an MQTT filter."""
    parts = []
    for part in filter_.split("/"):
        if part == "#":
            break
        parts.append("[^/]*" if part == "+" else rf"\Q{part}\E")
    pattern = "/".join(parts)
    if filter_ == "#":
        pattern = ".*"
    elif filter_.endswith("/#"):
        pattern += "(/.*)?"
    return sf.col("topic").rlike(f"^{pattern}$")


def _newest(events: DataFrame) -> int | None:
    found = events.agg(sf.max("ts")).head()
    return None if found is None else found[0]


def _request(own: AdviceSettings, project: Project) -> AdviceRequest:
    return AdviceRequest(
        attributes=own.attributes,
        budget=own.budget,
        capacity=project.settings.capacity,
        columns={},
        matters=own.predicates(),
    )


def _learned(own: AdviceSettings, events: DataFrame, newest_us: int, project: Project) -> AdviceRow:
    """New advice, or the reason why there is none."""

    def refused(reason: str, policy: str = "") -> AdviceRow:
        return AdviceRow(name=own.name, learned_us=newest_us, state="refused", policy=policy, reason=reason)

    if events.limit(LEAST_EVENTS).count() < LEAST_EVENTS:
        return refused(f"fewer than {LEAST_EVENTS} events")
    try:
        found = advise(events, _request(own, project), lambda *_: None)
    except (GoalMissed, InputError) as error:
        return refused(str(error))
    text = forms.to_yaml(found.policy)
    if found.needed is None:
        return refused(f"no level keeps {own.budget:g} or less of held-out events", text)
    if not found.verdict.good:
        # With few events the queue is a shorter one, in which levels made for `capacity` may drop nothing.
        return refused(f"replayed with {found.setting}, the policy {found.verdict.sentence}", text)
    level = found.measured[found.needed - 1]
    return AdviceRow(
        name=own.name,
        learned_us=newest_us,
        state="shadow",
        policy=text,
        kept=level.kept,
        items=level.items,
        reason=f"the policy {found.verdict.sentence}",
    )


def _tried(row: AdviceRow, events: DataFrame, project: Project) -> AdviceRow:
    """Advice in shadow, replayed on the events that came after it was learned, beside the baselines."""
    newer = events.where(sf.col("ts") > row.learned_us)
    span = newer.agg(sf.count(sf.lit(1)), sf.min("ts"), sf.max("ts")).head()
    assert span is not None
    count, begin_us, end_us = span
    if count < LEAST_EVENTS:
        return row
    policy = forms.parse(row.policy, source=row.name)
    items = min(row.items, 0.9)  # as `advise`: a queue that lets more through overflows too seldom
    per_s = max(limits.DRAIN_LEAST, items * count / max(1e-6, (end_us - begin_us) / 1e6))
    capacity = max(limits.QUEUE_EVENTS_LEAST, min(project.settings.capacity, int(count * (1 - items) / 4)))
    settings = Settings(
        candidates=(Candidate(policy.name, policy), *BASELINES),
        capacity=capacity,
        drain=drain(f"{per_s:.4f}/s"),
    )
    accounts = backtested(newer, settings).accounts
    ours = accounts.pop(policy.name)
    judged = verdict(ours, accounts)
    return msgspec.structs.replace(
        row,
        state="held" if judged.good else "failed",
        shadow_us=end_us,
        shadow_events=count,
        reason=f"on newer events the policy {judged.sentence}",
    )


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `policies`."""

    name: str
    client: str
    filter: str
    policy: str


def _installed(project: Project, advice: Sequence[AdviceRow]) -> list[PolicyRow]:
    """Of each class the newest policy that held."""
    found = []
    for own in project.settings.advise:
        held = [row for row in advice if row.name == own.name and row.state == "held"]
        if held:
            found.append(
                PolicyRow(name=own.name, client=own.client, filter=own.filter, policy=held[-1].policy)
            )
    return found
