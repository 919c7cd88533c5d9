"""Shared groups as nodes tell them to each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.cluster.frames import Carried, Groups, Shared, Told, decode_items, encode_item
from penstock.core.cluster.sharing import GroupQueue, OwnGroups, PeerGroups, SharedEvent
from penstock.errors import ClusterError
from penstock.model.digest_wire import from_bytes
from penstock.model.event import Event

names = st.sampled_from([f"$share/g/{letter}" for letter in "abcd"])
counts = st.integers(0, 5).flatmap(lambda members: st.tuples(st.integers(0, members), st.just(members)))


@given(st.lists(st.tuples(names, counts, st.booleans())))
def test_the_other_node_knows_the_last_numbers(changes: list[tuple[str, tuple[int, int], bool]]) -> None:
    own, theirs = OwnGroups(), PeerGroups()
    expected: dict[str, tuple[int, int]] = {}
    for name, (attached, members), tell in (*changes, ("$share/g/e", (1, 1), True)):
        own.change(name, attached, members)
        expected[name] = (attached, members)
        if tell:
            assert own.pending
            (item,) = decode_items(encode_item(own.told()))
            assert isinstance(item, Groups)
            theirs.apply(item)
            assert not own.pending
    assert theirs.counts == {name: found for name, found in expected.items() if found[1]}


def test_what_cannot_be_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = PeerGroups()
    theirs.apply(Groups([("$share/g/a", 1, 2)]))
    with pytest.raises(ClusterError, match="3 of 2 members"):
        theirs.apply(Groups([("$share/g/b", 1, 1), ("$share/g/a", 3, 2)]))
    monkeypatch.setattr(limits, "CLUSTER_FILTERS", 2)
    with pytest.raises(ClusterError, match="more than 2 shared groups"):
        theirs.apply(Groups([("$share/g/b", 1, 1), ("$share/g/c", 1, 1)]))
    assert theirs.counts == {"$share/g/a": (1, 2)}


def shared(number: int) -> SharedEvent:
    event = Event("job", b"x", ts_us=number, seq=number)
    carried = Carried(number, "job", b"x", number, "", number)
    return SharedEvent(event, ("$share/g/job",), encode_item(Shared(("$share/g/job",), (), carried)))


@given(st.lists(st.sampled_from(["offer", "take", "land", "reclaim", "give away"]), max_size=80))
def test_every_event_for_a_group_is_handed_over_given_away_or_told(steps: list[str]) -> None:
    queue = GroupQueue(capacity_events=5, capacity_bytes=1 << 20)
    offered = frames = 0
    on_its_way: dict[int, list[bytes]] = {}
    taken: list[int] = []
    told = 0
    moved: list[int] = []

    def land() -> None:
        nonlocal told
        queue.landed(frames)
        for item in (item for items in on_its_way.values() for one in items for item in decode_items(one)):
            if isinstance(item, Shared):
                taken.append(item.carried.number)
            else:
                assert isinstance(item, Told)
                told += from_bytes(item.digest).count
        on_its_way.clear()

    def give_away(out: SharedEvent) -> SharedEvent | None:
        if out.event.seq % 2:
            return out
        moved.append(out.event.seq)
        return None

    for step in (*steps, "reclaim", "take", "land"):
        match step:
            case "offer":
                offered += 1
                queue.offer(shared(offered))
            case "take":
                while not queue.empty:
                    frames += 1
                    on_its_way[frames] = queue.take(100, frames)
            case "land":
                land()
            case "reclaim":
                on_its_way.clear()
                queue.reclaim()
            case _:
                queue.revise(give_away)
        account = queue.account()
        assert account.balanced
        assert account.accepted == offered - len(moved)
        assert queue.settled <= queue.serial
    assert queue.settled == queue.serial
    assert taken == sorted(set(taken)), "in order, each once"
    assert len(taken) + told + len(moved) == offered
    assert queue.account().handed == len(taken)
