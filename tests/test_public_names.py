"""The public names: which there are, that they can be imported, and that importing one loads nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock
from penstock import client, mqtt, node, pipeline, policy
from penstock.core import queues, slots
from penstock.lazy_names import lazy_names

NAMES = """
    BufferFull Client ClientError ConnectionLost Digest Event InputError PenstockError Policy PolicyError
    PublishRefused Published ReceivedDigest ReceivedEvent StreamMessage StreamReader StreamWriter
    SubscribeRefused Subscription Unreachable effect explain lint pack pack_stream parse
"""


def test_these_are_the_public_names() -> None:
    assert penstock.__all__ == NAMES.split()


@pytest.mark.parametrize(
    "package", [penstock, client, mqtt, node, pipeline, policy, queues, slots], ids=lambda one: one.__name__
)
def test_every_name_is_there(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(package, name).__name__ == name if name not in ("drop", "keep", "when") else True
    assert set(names) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = package.no_such_name  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["Client", "Event", "Digest", "PolicyError", "StreamReader", "StreamWriter"])
def test_a_name_loads_only_what_it_needs(name: str) -> None:
    heavy = ("numpy", "datasketches", "aiohttp", "pyspark", "rich")
    code = f"import sys; from penstock import {name}; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[]"


def test_a_name_whose_library_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    get, _ = lazy_names("penstock", {"pack": "pyspark"})
    with pytest.raises(ModuleNotFoundError, match=r"penstock\.pack needs pyspark.*'penstock\[spark\]'"):
        get("pack")


def test_a_module_of_ours_that_is_missing_is_not_blamed_on_a_library() -> None:
    get, _ = lazy_names("penstock", {"pack": "penstock.no_such_module"})
    with pytest.raises(ModuleNotFoundError, match=r"No module named .penstock\.no_such_module"):
        get("pack")
