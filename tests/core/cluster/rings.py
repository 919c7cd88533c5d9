"""Rings and ids for property tests: mostly scattered, often crowded into a few cells."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.core.cluster.ring import RING, Ring

scattered = st.integers(0, RING - 1)
crowded = st.builds(
    lambda prefix, rest: (prefix << 144 | rest) % RING, st.integers(0, 40), st.integers(0, 3)
) | st.builds(lambda cell, rest: cell << 156 | rest << 148, st.integers(0, 15), st.integers(0, 255))
ids = scattered | crowded
rings = st.sets(ids, min_size=1, max_size=40).map(Ring)
