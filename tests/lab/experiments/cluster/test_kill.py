"""`penstock reproduce cluster-kill` with few faults; and what its subscribers note."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock_lab.experiments.cluster import kill
from penstock_lab.experiments.cluster.clients import (
    Again,
    Late,
    Notes,
    Publisher,
    Subscriber,
    Traveller,
    topic_of,
)
from penstock_lab.experiments.cluster.moving import Storm

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("cluster")]


def test_every_promise_holds_after_a_fault_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill, "LASTS_S", dict.fromkeys(kill.FAULTS, (0.5, 1.0)))
    found = kill.reproduce(seed=3, quick=True, out=None, progress=lambda *_: None, rounds="4")
    # Digests on their way to a node that is killed are lost with it, and no account tells of them: on a busy
    # machine that row may not hold, and the experiment says so.
    broken = [row for row in found.rows if row.ok is False and not row.what.startswith("node killed")]
    assert broken == []
    assert len(found.rows) == 11
    assert [row[1] for row in found.tables[0].rows] == ["1"] * 4


def test_rounds_are_a_number() -> None:
    with pytest.raises(InputError, match="--rounds is 'x': a number from 1 on"):
        kill.reproduce(seed=1, quick=True, out=None, progress=lambda *_: None, rounds="x")


def a_run() -> kill.Run:
    """A run as if played: ten messages with each QoS came to all; n3 was killed, n2 cut off."""
    run = kill.Run(Path(), 3, Random(1), rounds=2, progress=lambda *_: None)
    publishers = [Publisher("mqtt://127.0.0.1", qos, per_s=1) for qos in (0, 1, 2)]
    for publisher in publishers:
        publisher.times = [float(second) for second in range(1, 11)]
    run._publishers = publishers
    for name in ("n2", "n3"):
        run.subscribers += [Subscriber(f"{name}-qos-{qos}", "", qos=qos, kept=qos > 0) for qos in (0, 1)]
    run.travellers = [
        Traveller("moving", {"n1": "", "n2": ""}, qos=1),
        Traveller("roaming", {"n1": "", "n2": "", "n3": ""}, qos=2),
    ]
    run.travellers[0].visits = 7
    run.storms = [Storm(frozenset({"n3"}), False, 5.0, 8.0)]
    for one in [*run.subscribers, *run.travellers]:
        for number in range(1, 11):
            for qos in (1, 2) if one.kept else (0, 1, 2):
                one.notes.take(event(number, qos))
    run.killed = {"n3"}
    run.faults |= {"kill": 1, "cut off": 1}
    run.noticed |= {"cut off": 1}
    events = {"accepted": 60, "handed": 55, "digested": 5, "queued": 0, "in_flight": 0, "abandoned": 0}
    run.status = {name: {"balanced": True, "events": dict(events)} for name in ("n1", "n2", "n3")}
    return run


def verdicts(run: kill.Run) -> list[bool | None]:
    return [row.ok for row in run.rows("again")]


LOST, KILLED, TWICE, ORDER, ACCOUNTS, BACK, MOVES, MOVED_TWICE, MOVED_ORDER, STORMS, CUTS = range(11)


def broken(change: Callable[[kill.Run], object]) -> list[int]:
    """The numbers of the rows that fail after a change."""
    run = a_run()
    change(run)
    return [number for number, ok in enumerate(verdicts(run)) if ok is False]


def test_rows_hold_for_a_run_in_which_all_is_well() -> None:
    assert verdicts(a_run()) == [*[True] * STORMS, None, True]


def test_each_row_fails_where_its_promise_is_broken() -> None:
    assert broken(lambda run: run.subscribers[0].notes.got[0].pop()) == [LOST]
    assert broken(lambda run: setattr(run.subscribers[1].notes, "digested", 1)) == [LOST]
    assert LOST in broken(lambda run: run._publishers.clear())
    assert broken(lambda run: run.subscribers[3].notes.got[1].pop()) == [KILLED]
    assert broken(lambda run: run.subscribers[0].notes.take(event(4, 1))) == [TWICE]
    assert broken(lambda run: run.subscribers[3].notes.take(event(4, 1))) == [], "its node was killed"
    assert broken(lambda run: run.subscribers[2].notes.order.append(Late(1, 3, 4))) == [ORDER]
    assert broken(lambda run: run.status["n1"]["events"].update(handed=54)) == [ACCOUNTS]
    assert broken(lambda run: run.status["n2"]["events"].update(handed=54, queued=1)) == [ACCOUNTS]
    assert broken(lambda run: run.status.clear()) == [ACCOUNTS]
    assert broken(lambda run: setattr(run, "problem", "n3 did not come back")) == [LOST, BACK]
    assert broken(lambda run: run.noticed.update({"cut off": 0})) == [CUTS]


def moving(run: kill.Run) -> Notes:
    """A client between nodes that were well all the time."""
    return run.travellers[0].notes


def roaming(run: kill.Run) -> Notes:
    """A client that goes to the node which was killed, too: messages 1 to 3 are from before."""
    return run.travellers[1].notes


def test_clients_that_move_are_judged_each_by_itself() -> None:
    assert broken(lambda run: moving(run).got[1].discard(6)) == [MOVES]
    assert broken(lambda run: moving(run).take(event(6, 2))) == [MOVED_TWICE]
    assert broken(lambda run: moving(run).again.append(Again(2, 6, dup=True))) == [], "QoS 1 may repeat"
    assert broken(lambda run: moving(run).order.append(Late(1, 6, 7))) == [MOVED_ORDER]
    assert broken(lambda run: roaming(run).again.append(Again(2, 3, dup=True))) == [MOVED_TWICE]
    assert broken(lambda run: roaming(run).again.append(Again(1, 3, dup=True))) == []
    assert broken(lambda run: roaming(run).order.append(Late(2, 3, 4))) == [MOVED_ORDER]

    def digest_tells(run: kill.Run) -> None:
        moving(run).got[1].discard(6)
        moving(run).digested = 1

    assert broken(digest_tells) == []


def test_in_a_storm_clients_may_miss_what_is_told_as_abandoned() -> None:
    def abandoned(run: kill.Run, told: int) -> None:
        roaming(run).got[1] -= {6, 7}
        run.abandoned = told

    assert broken(lambda run: abandoned(run, 2)) == []
    assert broken(lambda run: abandoned(run, 1)) == [MOVES]
    assert broken(lambda run: roaming(run).take(event(6, 2))) == []
    assert broken(lambda run: roaming(run).order.append(Late(1, 6, 7))) == []


def test_a_storm_concerns_those_who_go_to_its_node_or_over_its_link() -> None:
    node = Storm(frozenset({"n1"}), False, 10.0, 20.0)
    link = Storm(frozenset({"n1", "n2"}), True, 10.0, 20.0)
    near, far = frozenset({"n1", "n2"}), frozenset({"n2", "n3"})
    assert [each.concerns(where, 15) for each in (node, link) for where in (near, far)] == [True, False] * 2
    assert not link.concerns(frozenset({"n1", "n3"}), 15)
    assert [node.concerns(near, at) for at in (8.9, 9.1, 25.9, 26.1)] == [False, True, True, False]


def test_what_was_not_tried_is_not_judged() -> None:
    run = a_run()
    run.killed = set()
    run.faults["cut off"] = run.noticed["cut off"] = 0
    assert [number for number, ok in enumerate(verdicts(run)) if ok is None] == [KILLED, STORMS, CUTS]
    run.travellers[0].visits = 0
    judged = [number for number, ok in enumerate(verdicts(run)) if ok is not None]
    assert judged == [LOST, TWICE, ORDER, ACCOUNTS, BACK]


def event(number: int, qos: int = 1) -> Event:
    return Event(topic_of(qos), str(number).encode(), 0)


def test_a_subscriber_notes_what_is_wrong() -> None:
    notes = Notes()
    for number in (1, 2, 4, 3, 4):
        notes.take(event(number))
    notes.take(event(1, qos=2))
    assert list(map(str, notes.order)) == ["3 after 4 of QoS 1"]
    assert notes.again == [Again(1, 4, dup=False)]
    assert notes.count == 5
    notes.take(Digest(count=7, from_us=1, to_us=2, seq_first=1, seq_last=7, causes=()))
    assert notes.count == 12
    one = Subscriber("one", "", qos=2, kept=True)
    one.notes = notes
    assert one.again(killed=False) == ["4 of QoS 1"]
    assert one.again(killed=True) == []
    assert one.missing({0: 100, 1: 12, 2: 3}) == 3
