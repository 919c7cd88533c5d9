"""Compares accounts of backtests: everything exactly, errors to rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.backtest.account import Account

if TYPE_CHECKING:
    from penstock.core.backtest.settings import Backtest


def same(ours: Account, expected: Account) -> None:
    """Both accounts say the same; sums of squares may be added up in another order."""
    for name in Account.__struct_fields__:
        if name != "errors":
            assert getattr(ours, name) == getattr(expected, name), name
    assert _flat(ours.as_json()["errors"]) == pytest.approx(_flat(expected.as_json()["errors"]))


def same_backtest(ours: Backtest, expected: Backtest) -> None:
    """Both engines say the same about the stream and every candidate."""
    assert ours.stream == expected.stream
    assert ours.silent == expected.silent
    assert list(ours.accounts) == list(expected.accounts)
    for name, account in ours.accounts.items():
        same(account, expected.accounts[name])


def _flat(found: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(found, dict):
        return {path: found}
    return {key: one for name, part in found.items() for key, one in _flat(part, f"{path}.{name}").items()}
