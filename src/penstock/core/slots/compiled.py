"""Many keys at once as machine code, which numba compiles on first use in a process.

The answers equal those of `batch`, word for word. Needs the extra `fast`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.slots.batch import spreads
from penstock.core.slots.slot_sets import MIX_1, MIX_2, STEP, as_words
from penstock.errors import MissingTool

try:
    from numba import njit
except ImportError:
    raise MissingTool("compiled filters need numba: pip install 'penstock[fast]'") from None

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.slots.batch import FilterBits
    from penstock.core.slots.slot_sets import Words

_U = np.uint64
_ONE, _BYTE, _M32 = _U(1), _U(255), _U(0xFFFFFFFF)
_STEP, _MIX_1, _MIX_2 = _U(STEP), _U(MIX_1), _U(MIX_2)
_S8, _S27, _S30, _S31, _S32 = _U(8), _U(27), _U(30), _U(31), _U(32)


def query(filtered: FilterBits, keys: NDArray[np.int64] | Words) -> Words:
    """`batch.query`, compiled."""
    shape = filtered.shape
    keys = as_words(keys)
    answers = np.empty(len(keys), dtype=np.uint64)
    first, passed = divmod(filtered.oldest, shape.groups)
    within = (1 << filtered.newest - filtered.oldest + 1) - 1
    geometry = (shape.arrays, shape.groups, shape.hashes, shape.positions, shape.held, shape.lanes)
    numbers = (_U(number) for number in (*geometry, first % shape.held, passed, within))
    _query(filtered.words, keys, answers, spreads(shape.groups), *numbers)
    return answers


def insert(filtered: FilterBits, keys: Words, slots: NDArray[np.int64]) -> None:
    """`batch.insert`, compiled."""
    shape = filtered.shape
    blocks, groups = np.divmod(slots, shape.groups)
    geometry = (shape.hashes, shape.positions, shape.held, shape.lanes)
    couples = (blocks % shape.held).astype(np.uint64), groups.astype(np.uint64)
    _insert(filtered.words, keys, *couples, *(_U(number) for number in geometry))


@njit(nogil=True)  # type: ignore[misc, unused-ignore]
def _insert(
    words: Words,
    keys: Words,
    arrays: Words,
    groups: Words,
    hashes: np.uint64,
    size: np.uint64,
    held: np.uint64,
    lanes: np.uint64,
) -> None:
    pairs = hashes + _ONE >> _ONE
    for index in range(len(keys)):
        state = keys[index] + groups[index] * pairs * _STEP
        bit = _ONE << arrays[index]
        for function in range(hashes):
            if function % 2 == 0:
                state += _STEP
                mix = (state ^ state >> _S30) * _MIX_1
                mix = (mix ^ mix >> _S27) * _MIX_2
                mix ^= mix >> _S31
                position = (mix >> _S32) * size >> _S32
            else:
                position = (mix & _M32) * size >> _S32
            word = position // lanes
            words[word] |= bit << (position - word * lanes) * held


@njit(nogil=True)  # type: ignore[misc, unused-ignore]
def _query(  # noqa: PLR0913, PLR0917
    words: Words,
    keys: Words,
    answers: Words,
    table: Words,
    arrays: np.uint64,
    groups: np.uint64,
    hashes: np.uint64,
    size: np.uint64,
    held: np.uint64,
    lanes: np.uint64,
    first: np.uint64,
    passed: np.uint64,
    within: np.uint64,
) -> None:
    zero = _U(0)
    pairs = hashes + _ONE >> _ONE
    all_held = ~zero >> _U(64) - held
    all_arrays = ~zero >> _U(64) - arrays
    for index in range(len(keys)):
        answer = zero
        for group in range(groups):
            found = all_held
            state = keys[index] + group * pairs * _STEP
            for function in range(hashes):
                if function % 2 == 0:
                    state += _STEP
                    mix = (state ^ state >> _S30) * _MIX_1
                    mix = (mix ^ mix >> _S27) * _MIX_2
                    mix ^= mix >> _S31
                    position = (mix >> _S32) * size >> _S32
                else:
                    position = (mix & _M32) * size >> _S32
                if lanes == _ONE:
                    found &= words[position]
                else:
                    word = position // lanes
                    found &= words[word] >> (position - word * lanes) * held
                if found == zero:
                    break
            if found == zero:
                continue
            skipped = _ONE if group < passed else zero
            turn = (first + skipped) % held
            if turn != zero:
                found = (found >> turn | found << held - turn) & all_held
            found &= all_arrays
            if groups == _ONE:
                answer = found
                continue
            shift = _U(group) + skipped * groups - passed
            while found != zero:
                answer |= table[found & _BYTE] << shift
                found >>= _S8
                shift += _S8 * groups
        answers[index] = answer & within
