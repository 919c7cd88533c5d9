"""Where sessions are: owners, records, epochs, and nodes that stand in for others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.sessions import Directory, Owners, Record

NAMES = ["n1", "n2", "n3", "n4"]
HERE = dict.fromkeys(NAMES, 1)


def record(holder: str = "n1", epoch: int = 5, incarnation: int = 1, standby: str = "") -> Record:
    return Record("phone", epoch, holder, incarnation, b"facts", standby)


@given(st.text(max_size=20), st.sets(st.sampled_from(NAMES), min_size=1))
def test_all_nodes_name_the_same_owners_and_the_next_one_takes_over(client: str, names: set[str]) -> None:
    owners = Owners(names).of(client)
    assert owners == Owners(sorted(names)).of(client)
    assert set(owners) <= names
    assert len(owners) == min(2, len(names))
    if len(names) > 1:
        assert Owners(names - {owners[0]}).of(client)[0] == owners[1]


def test_each_attachment_has_a_later_epoch() -> None:
    directory = Directory()
    first = directory.place("phone", "n1", 1, now_us=100)
    assert (first.epoch, first.before) == (100, None)
    again = directory.place("phone", "n2", 1, now_us=50)  # a clock that went back
    assert again.epoch == 101
    assert again.before is not None
    assert (again.before.holder, again.before.coming) == ("n1", True)


def test_a_holder_is_not_told_to_give_way_to_one_that_still_fetches_from_it() -> None:
    directory = Directory()
    assert directory.keep(record("n1", 5)) is None
    directory.place("phone", "n2", 1, now_us=9)
    assert directory.keep(record("n1", 5)) is None
    assert directory.get("phone").holder == "n2"  # type: ignore[union-attr]
    old = record("n1", 5)
    assert directory.keep(record("n2", 9)) == old  # it is told, in case it has the session still
    assert directory.keep(old) is old


def test_a_session_that_never_came_to_a_node_is_looked_for_where_it_was() -> None:
    directory = Directory()
    directory.keep(record("n1", 5))
    first = directory.place("phone", "n2", 1, now_us=9)
    assert (first.before, first.also) == (record("n1", 5), None)
    second = directory.place("phone", "n3", 1, now_us=10)  # n2 has given up, and says nothing
    assert second.before is not None
    assert (second.before.holder, second.also) == ("n2", record("n1", 5))
    coming = directory.get("phone")
    assert coming is not None
    directory.never_came(coming)
    assert directory.get("phone") == record("n1", 5)


def test_a_node_that_asked_long_ago_and_has_a_session_by_another_root_is_believed() -> None:
    """Its question came late, after a cut: nobody waits for the answer."""
    directory = Directory()
    directory.keep(record("n2", 5))
    directory.place("phone", "n1", 1, now_us=9)
    assert directory.keep(record("n2", 5)) is None
    lost = directory.keep(record("n1", 7))
    assert lost == record("n2", 5)
    assert directory.get("phone") == record("n1", 7)


def test_a_stand_in_gives_way_to_its_holder_though_the_client_is_said_to_come_to_another_node() -> None:
    """A question that came late, after a cut: that node never says that it has the session."""
    directory = Directory()
    directory.keep(record("n2", 5))
    directory.place("phone", "n1", 1, now_us=9)
    stands_in = record("n3", 5, standby="n2")
    assert directory.keep(record("n2", 5), HERE) is None
    assert directory.keep(stands_in, HERE) is stands_in
    assert directory.has("phone") == record("n2", 5)
    stale = record("n4", 3, standby="n1")
    assert directory.keep(stale, HERE) is stale, "it stands in for a holder of before"
    assert directory.keep(record("n4", 3), HERE) is None, "a holder may still be asked for what waits"
    assert directory.get("phone").holder == "n1"  # type: ignore[union-attr]
    assert directory.keep(stands_in, HERE | {"n2": 2}) is None, "the holder was started anew"
    assert directory.has("phone") == stands_in


def test_a_stand_in_gives_way_to_its_holder_but_not_to_one_that_was_started_anew() -> None:
    directory = Directory()
    directory.keep(record("n1", 5))
    stands_in = record("n2", 5, standby="n1")
    assert directory.keep(stands_in, HERE) is stands_in
    assert directory.keep(stands_in, HERE | {"n1": 2}) is None
    assert directory.get("phone") == stands_in
    back = record("n1", 0, incarnation=2)  # what was on its disk
    assert directory.keep(back, HERE | {"n1": 2}) == stands_in
    assert directory.get("phone").holder == "n1"  # type: ignore[union-attr]


def test_of_two_holders_the_one_with_the_later_epoch_counts_whoever_speaks_first() -> None:
    early, late = record("n1", 5), record("n2", 6)
    directory = Directory()
    assert directory.keep(early) is None
    assert directory.keep(late) is early
    directory = Directory()
    assert directory.keep(late) is None
    assert directory.keep(early) is early
    assert directory.get("phone") is late


def test_a_node_stands_in_only_for_one_that_is_away_and_gives_way_when_it_is_back() -> None:
    directory = Directory()
    directory.keep(record("n1", 5))
    standby = record("n2", 5, standby="n1")
    assert directory.keep(standby, HERE) is standby
    assert directory.keep(standby, {"n2": 1}) is None
    assert directory.keep(record("n1", 5), HERE) is standby
    directory.keep(standby, {"n2": 1})
    restarted = record("n1", 0, incarnation=2)  # from its disk, without an epoch
    assert directory.keep(restarted, HERE) is standby
    assert directory.get("phone").epoch == 5  # type: ignore[union-attr]


def test_records_end_and_are_bounded() -> None:
    directory = Directory(most=1)
    directory.keep(record("n1", 5))
    directory.keep(Record("other", 5, "n1", 1))
    assert len(directory) == 1
    directory.drop("phone", 4, "n1")
    directory.drop("phone", 5, "n2")  # it has lost the session, which goes on
    assert len(directory) == 1
    directory.drop("phone", 5, "n1")
    assert not len(directory)
    owners = Owners(NAMES)
    directory.keep(record())
    outsider = next(name for name in NAMES if name not in owners.of("phone"))
    directory.keep_only(owners, owners.of("phone")[1])
    assert [one.client for one in directory.held_by("n1")] == ["phone"]
    directory.keep_only(owners, outsider)
    assert directory.records() == []
