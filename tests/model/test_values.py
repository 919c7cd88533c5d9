"""When two values are the same, and in which order they stand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.instant import LONGEST_US, SECOND_US, to_us
from penstock.model.values import identities, identity, number, order, scalar, text, value

scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from([0, 1, 1.0, -0.0, "true", "1", 2**53, 2**53 + 1, float(2**53)]),
)


@given(scalars, scalars)
def test_identity_is_equality_with_truth_values_apart(a: Any, b: Any) -> None:
    same = a == b and isinstance(a, bool) == isinstance(b, bool)
    assert (identity(a) == identity(b)) is same
    if same:
        assert hash(identity(a)) == hash(identity(b))


@given(scalars)
def test_what_is_a_scalar_stays_what_it_is(a: Any) -> None:
    assert scalar(a) is a
    assert value(a) is a


def test_identity_is_exact_where_order_is_not() -> None:
    assert identity(2**53) != identity(2**53 + 1)
    assert order(2**53) == order(2**53 + 1)
    assert identity(True) != identity("true")
    assert identity(True) != identity(1)
    assert identity(False) != identity(0)
    assert identity(1) == identity(1.0)
    assert identities((1, 1.0, True, None, "a")) == {1, identity(True), "a"}


@given(scalars)
def test_numbers_and_texts(a: Any) -> None:
    is_number = isinstance(a, int | float) and not isinstance(a, bool)
    assert number(a) == (float(a) if is_number else None)
    assert text(a) == (a if isinstance(a, str) else None)


@pytest.mark.parametrize(
    "raw", [None, float("nan"), b"", {}, object(), 1j, 10**400, Decimal("NaN"), Decimal("sNaN"), range(3)]
)
def test_what_is_no_value(raw: object) -> None:
    assert scalar(raw) is None
    assert value(raw) is None


def test_a_list_keeps_its_places() -> None:
    assert value([1, [2], None, "a", float("nan")]) == (1, None, None, "a", None)
    assert number((1.0,)) is None
    assert text(("a",)) is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1, SECOND_US), (0.5, 500_000), (1e-9, 0), (1e12, 10**18), (1e20, LONGEST_US), (1e305, LONGEST_US)],
)
def test_durations_have_an_end(seconds: float, expected: int) -> None:
    assert to_us(seconds) == expected
