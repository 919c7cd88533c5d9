"""Files of exchanges are read as they were written, or refused with a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock_lab.experiments.fuzz.exchange import read_exchanges, write_exchanges
from penstock_lab.experiments.fuzz.targets.catalogue import NAMES, exchange_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("target", NAMES)
def test_a_file_is_read_as_it_was_written(target: str, tmp_path: Path) -> None:
    found = [exchange_of(target, 1, number) for number in range(40)]
    path = tmp_path / "x.json"
    write_exchanges(path, found, target=target, seed=1, problem="p")
    assert read_exchanges(path) == (target, 1, found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"fuzz": "mqtt", "seed": "x", "exchanges": []}',
        '{"fuzz": "mqtt", "seed": 1, "exchanges": [{"number": 1, "door": "roof", "ending": "close"}]}',
    ],
)
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match="not a file of `penstock sim fuzz`"):
        read_exchanges(path)


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_exchanges(tmp_path / "none")
