"""Dropped events of a link are counted by class of receivers and filter until a digest tells them."""

from __future__ import annotations

from penstock.core.cluster.copies import Outgoing
from penstock.core.cluster.frames import Told, decode_items
from penstock.core.cluster.losses import LINK_FULL, Losses
from penstock.model.digest import OLDEST, Digest
from penstock.model.digest_wire import JSON_MARK, from_bytes, to_message
from penstock.model.event import Event


def dropped(seq: int) -> Outgoing:
    return Outgoing(Event("a", b"", seq, seq=seq), b"", number=seq)


def test_an_event_counts_once_for_each_filter_and_the_digest_names_the_newest() -> None:
    losses = Losses()
    losses.count(dropped(1), [(0, "a"), (0, "#")])
    losses.count(dropped(2), [(0, "#")])
    assert dict(losses.counts()) == {(0, "a"): 1, (0, "#"): 2}
    key, digest, item = losses.take()
    assert (key, digest.count, digest.causes) == ((0, "a"), 1, ((LINK_FULL, 1),))
    (told,) = decode_items(item)
    assert isinstance(told, Told)
    assert (told.filter, from_bytes(told.digest), told.to, told.upto) == ("a", digest, 0, 2)
    assert losses.take()[1].count == 2
    assert not losses


def test_a_digest_that_is_dropped_or_comes_back_counts_for_its_events() -> None:
    losses = Losses()
    digest = Digest(40, 0, 9, 1, 40, ((OLDEST, 40),))
    payload = to_message(digest, filter_="a", compact=False).payload
    losses.count(Outgoing(Event("a", payload, ts_us=1, properties=(JSON_MARK,)), b""), [(3, "a")])
    losses.count(dropped(41), [(3, "a")])
    assert dict(losses.counts()) == {(3, "a"): 41}
    key, taken, _ = losses.take()
    losses.merge(key, taken)
    assert dict(losses.counts()) == {(3, "a"): 41}
    assert losses.take()[1] == taken


def test_nobody_is_told_of_a_filter_that_was_removed() -> None:
    losses = Losses()
    losses.count(dropped(1), [(0, "a"), (4, "a"), (0, "#")])
    losses.forget(["a"])
    assert dict(losses.counts()) == {(0, "#"): 1}


def test_the_link_to_a_restarted_node_takes_over_counts_without_the_old_classes() -> None:
    before, after = Losses(), Losses()
    before.count(dropped(7), [(3, "a"), (4, "a")])
    after.count(dropped(2), [(0, "a")])
    after.inherit(before)
    assert (bool(before), dict(after.counts())) == (False, {(0, "a"): 3})
    (told,) = decode_items(after.take()[2])
    assert isinstance(told, Told)
    assert told.upto == 7
