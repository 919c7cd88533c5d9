"""From flows to positions: the numbers other programs get too, and no two functions alike."""

from __future__ import annotations

import numpy as np

from penstock.core.slots.slot_sets import M64, flow_key, mix_words, place_words, positions


def test_flows_are_known_by_the_xxhash64_of_spark() -> None:
    assert flow_key("ABC") == 4105715581806190027  # the example of pyspark.sql.functions.xxhash64


def test_mixes_are_those_of_splitmix64() -> None:
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    keys = np.array([1_234_567], dtype=np.uint64)
    out, spare = np.empty_like(keys), np.empty_like(keys)
    for turn, wanted in enumerate(published, start=1):
        mix_words(keys, turn, out, spare)
        assert int(out[0]) == wanted
    halves = [half for mix in published[:2] for half in (mix >> 32, mix & 0xFFFFFFFF)]
    assert positions(1_234_567, 0, hashes=4, size=1_000_003) == [half * 1_000_003 >> 32 for half in halves]


def test_groups_go_on_where_the_one_before_ended() -> None:
    key = flow_key("a")
    four = positions(key, 0, hashes=4, size=1 << 20)
    eight = positions(key, 0, hashes=8, size=1 << 20)
    assert four + positions(key, 1, hashes=4, size=1 << 20) == eight
    assert positions(key, 0, hashes=3, size=1 << 20) == four[:3]
    assert positions(key & M64, 0, hashes=4, size=1 << 20) == four


def test_positions_are_even_and_functions_independent() -> None:
    keys = np.arange(200_000, dtype=np.uint64)  # the worst keys there are
    size = 64
    found = []
    for turn in (1, 2):
        mixes, spare = np.empty_like(keys), np.empty_like(keys)
        mix_words(keys, turn, mixes, spare)
        for high in (True, False):
            where = np.empty_like(keys)
            place_words(mixes, size, where, high=high)
            found.append(where)
    for one in range(4):
        for other in range(one):
            together = np.bincount((found[one] * size + found[other]).astype(np.int64), minlength=size * size)
            chi2 = float(((together - keys.size / size**2) ** 2 / (keys.size / size**2)).sum())
            degrees = size * size - 1
            assert abs(chi2 - degrees) < 5 * (2 * degrees) ** 0.5
