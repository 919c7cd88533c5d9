"""Who wrote a retained message last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.cluster.stamps import Stamp, Stamps


def test_a_publisher_replaces_what_its_node_has_even_if_another_clock_is_ahead() -> None:
    stamps = Stamps("n1")
    assert _later(stamps, "a", Stamp(1_000, "n2", 5))
    mine = stamps.write("a", at_us=10, number=1, deleted=False)
    assert mine > Stamp(1_000, "n2", 5)
    assert not _later(stamps, "a", Stamp(1_000, "n2", 5))


def test_a_deleted_message_stays_deleted() -> None:
    stamps = Stamps("n1")
    stamps.write("a", at_us=10, number=1, deleted=False)
    gone = stamps.write("a", at_us=20, number=2, deleted=True)
    assert list(stamps.deleted()) == [("a", gone)]
    assert not _later(stamps, "a", Stamp(10, "n1", 1))
    assert _later(stamps, "a", Stamp(30, "n2", 1))
    assert list(stamps.deleted()) == []


def test_deletions_are_bounded_and_expired_messages_forgotten() -> None:
    stamps = Stamps("n1")
    for number in range(limits.CLUSTER_TOMBSTONES + 3):
        stamps.write(f"t{number}", at_us=number, number=number, deleted=True)
    assert len(stamps) == limits.CLUSTER_TOMBSTONES
    stamps = Stamps("n1")
    for topic in "abc":
        stamps.write(topic, at_us=1, number=1, deleted=topic == "c")
    stamps.keep_only(["a"])
    assert len(stamps) == 2


def test_the_next_node_answers_for_what_a_node_that_is_gone_has_brought() -> None:
    stamps = Stamps("n1")
    stamps.write("a", at_us=1, number=1, deleted=False)
    _later(stamps, "b", Stamp(1, "n2", 1), through="n3")
    _later(stamps, "c", Stamp(1, "n2", 2), through="n3", deleted=True)
    _later(stamps, "d", Stamp(1, "n2", 3), through="n2")
    _later(stamps, "b", Stamp(1, "n2", 1), through="n2")  # known: n3 was first
    assert stamps.left_by("n2") == ["d"]
    assert stamps.left_by("n3") == ["b", "c"]
    assert stamps.left_by("n3") == []


def test_nobody_answers_for_what_was_written_here_later_or_long_ago() -> None:
    stamps = Stamps("n1")
    _later(stamps, "a", Stamp(1, "n2", 1))
    stamps.write("a", at_us=2, number=1, deleted=False)
    _later(stamps, "b", Stamp(1, "n2", 2), now_us=limits.CLUSTER_SPREAD_US + 1)
    _later(stamps, "c", Stamp(1, "n2", 3))
    stamps.keep_only(["a", "b"])
    assert stamps.left_by("n2") == []


def test_a_message_from_before_the_start_has_its_own_time() -> None:
    assert Stamps("n1").of("a", at_us=7) == Stamp(7, "", 0)


def _later(  # the arguments of the method
    stamps: Stamps, topic: str, stamp: Stamp, *, deleted: bool = False, through: str = "n2", now_us: int = 0
) -> bool:
    return stamps.later(topic, stamp, deleted=deleted, through=through, now_us=now_us)


WRITES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.booleans()), min_size=1, max_size=20)


@given(WRITES, st.randoms(use_true_random=False))
def test_all_nodes_end_with_the_same_writer_in_whatever_order_they_learn_of_it(
    writes: list[tuple[int, int, bool]], dice: object
) -> None:
    names = ["n1", "n2", "n3"]
    nodes = [Stamps(name) for name in names]
    made = []
    for number, (at, at_us, deleted) in enumerate(writes):
        made.append((nodes[at].write("a", at_us=at_us, number=number, deleted=deleted), deleted))
    for node in nodes:
        dice.shuffle(made)  # type: ignore[attr-defined]
        for stamp, deleted in made:
            _later(node, "a", stamp, deleted=deleted)
    assert {node.of("a", at_us=0) for node in nodes} == {max(stamp for stamp, _ in made)}
    assert len({tuple(node.deleted()) for node in nodes}) == 1
