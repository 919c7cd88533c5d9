"""Files of channels: what is read, and what is said of what cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.cli.allocate.engines import read_channels
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {
    "a.csv": "url,subscribers,cost\nhttps://a.example.org/x,3,20.5\nhttps://b.example.org/,0,7\n",
    "b.jsonl": '{"url": "https://a.example.org/x", "subscribers": 3, "cost": 20.5}\n'
    '{"url": "https://b.example.org/", "subscribers": 0, "cost": 7}\n',
}


def write(folder: Path, name: str, content: str | dict[str, Any]) -> Path:
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    else:
        parquet.write_table(pa.table(content), path)
    return path


@pytest.mark.parametrize("name", GOOD)
def test_every_format_gives_the_same_channels(tmp_path: Path, name: str) -> None:
    found = read_channels(write(tmp_path, name, GOOD[name]), needed=["subscribers", "cost"], hosts=True)
    assert found.urls.to_pylist() == ["https://a.example.org/x", "https://b.example.org/"]
    assert found.hosts == ["example.org", "example.org"], "one service"
    factors = found.factors(by_cost=True)
    assert factors.subscribers.tolist() == [3, 0]
    assert factors.cost.tolist() == [20.5, 7]
    assert found.factors(by_cost=False).cost.tolist() == [1, 1]


def test_hosts_may_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, "c.parquet", {"url": ["a", "b"], "subscribers": [1, 2], "host": ["x", "y"]})
    assert read_channels(path, needed=["subscribers"], hosts=True).hosts == ["x", "y"]
    assert read_channels(path, needed=["subscribers"], hosts=False).hosts == []


URLS = ["https://a.org/", "https://b.org/"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "", r"a\.csv: the file has no channels"),
        ("a.csv", "url,subscribers\n", r"a\.csv: the file has no channels"),
        ("a.csv", "url,readers\nx,1\n", r"there is no column 'subscribers'; there are: url, readers"),
        ("a.csv", "subscribers\n1\n", r"there is no column 'url'"),
        ("a.csv", "url,subscribers\nx,1,2,3\n", r"is not csv"),
        ("a.csv", "url,subscribers\nx,many\n", r"the column 'subscribers' holds string, not numbers"),
        ("a.csv", "url,subscribers\n1,1\n", r"the column 'url' holds int64, not texts"),
        ("a.jsonl", "what\n", r"a\.jsonl: is not json"),
        ("a.parquet", "what\n", r"a\.parquet: is not parquet"),
        ("a.xls", "what\n", r"one of \.parquet, .*\.csv"),
        (
            "a.parquet",
            {"url": URLS, "subscribers": [1, -4]},
            r"subscribers of https://b\.org/ is -4; .* at least 0",
        ),
        ("a.parquet", {"url": URLS, "subscribers": [1.0, float("nan")]}, r"subscribers of .* is nan"),
        ("a.parquet", {"url": URLS, "subscribers": [1, None]}, r"subscribers of https://b\.org/ is missing"),
        (
            "a.parquet",
            {"url": URLS, "subscribers": [1, 1], "update_interval_us": [0, 5]},
            r"update_interval_us of https://a\.org/ is 0; it should be above 0",
        ),
        (
            "a.parquet",
            {"url": URLS, "subscribers": [1, 1], "cost": [1.0, float("inf")]},
            r"cost of .* is inf",
        ),
        (
            "a.parquet",
            {"url": ["http://[x/", "b"], "subscribers": [1, 1]},
            r"there is no host in http://\[x/",
        ),
        ("a.parquet", {"url": [None, "x"], "subscribers": [1, 1]}, r"channel 1 has no url"),
        ("a.parquet", {"url": ["x", "x"], "subscribers": [1, 1]}, r"duplicate channel x"),
        (
            "a.parquet",
            {"url": URLS, "subscribers": [1, 1], "host": ["h", None]},
            r"the host of https://b\.org/ is missing",
        ),
    ],
)
def test_what_cannot_be_is_said_with_its_place(
    tmp_path: Path, name: str, content: str | dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read_channels(write(tmp_path, name, content), needed=["subscribers"], hosts=True)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.parquet: there is no such file"):
        read_channels(tmp_path / "none.parquet", needed=[], hosts=False)
