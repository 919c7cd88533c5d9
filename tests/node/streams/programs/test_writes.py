"""Commits of staged rows by one writer, one after the other."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.streams.requests import Commit, Row, Staged
from penstock.node.streams.programs.staging import StagedBatch, Staging
from penstock.node.streams.programs.writes import StagedCommits, WriterLines


@pytest.mark.timeout(30)  # the fault was a loop that never let the node do anything else
async def test_a_commit_that_follows_in_the_same_turn_of_the_loop_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    staging = Staging(None)
    await staging.stage("s", "x", 0, (Row("a/b", b"1"),))
    batch = StagedBatch("s", "w", 5, (Staged("x", 1),), "w", done=False)
    await staging.decide(batch)
    await staging.finish(batch)
    reached, gate = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def drop(*_: object) -> None:
        reached.set()
        await gate

    monkeypatch.setattr(staging, "drop", drop)
    commits = StagedCommits({}, WriterLines(lambda: 0), staging)
    repeated = Commit(0, "s", "w", 5, (Staged("x", 1),))
    first = asyncio.create_task(commits.commit(repeated))
    await reached.wait()
    gate.set_result(None)  # the first commit ends in this turn, and whoever comes next finds it done
    second = asyncio.create_task(commits.commit(repeated))
    await asyncio.gather(first, second)
    await commits.close()
    await staging.close()
