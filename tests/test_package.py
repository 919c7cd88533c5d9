"""The package as a user gets it: built, installed into an empty environment, the quick start run with it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def uv(*arguments: str) -> str:
    """Run uv: without the network if its cache has everything, as after `make setup`."""
    places = [shutil.which("uv"), ROOT / ".uv/bin/uv", Path(sys.prefix).parent / ".uv/bin/uv"]
    found = next((str(place) for place in places if place and Path(place).exists()), None)
    if found is None:
        pytest.skip("uv is not installed; `make setup` does it")
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = None
    for offline in (["--offline"], []):
        done = subprocess.run(
            [found, *arguments, *offline],
            cwd=ROOT,
            env=known,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
    assert done is not None
    pytest.fail(f"uv {' '.join(arguments)}: {done.stderr}")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the sdist, and with the wheel that was built of it."""
    folder = tmp_path_factory.mktemp("dist")
    # Other workers, and other runs of the tests on this machine, wait for their turn.
    with (folder.parent.parent / "penstock-package.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        uv("build", "-q", "--out-dir", str(folder), str(ROOT))
        yield folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_string(opened.read(name).decode())


def test_the_wheel_holds_the_product_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    inside = {name.partition("/")[0] for name in names}
    # Spark looks for the module of a format at the top.
    assert inside == {
        "penstock",
        "pyspark_penstock.py",
        next(name for name in inside if name.endswith(".dist-info")),
    }
    assert "penstock/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert [name for name in names if "lab" in name.split("/") or "tests" in name.split("/")] == []
    tracked = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "penstock").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert {name for name in names if name.startswith("penstock/")} == tracked, "dashboard and all"


def test_the_sdist_holds_the_product_without_lab_and_tests(built: Path) -> None:
    (found,) = built.glob("*.tar.gz")
    with tarfile.open(found) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    assert {name.partition("/")[0] for name in names} <= {
        *("src", "docs", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore")
    }
    assert [name for name in names if "penstock_lab" in name] == []


def test_the_metadata_is_what_the_project_says(wheel: Path) -> None:
    found = metadata(wheel)
    assert found["Name"] == "penstock"
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == PROJECT["requires-python"]
    assert found.get_all("Classifier") == PROJECT["classifiers"]
    assert set(found.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])
    assert "# Penstock" in str(found.get_payload())


def test_the_quick_start_works_in_an_empty_environment_and_an_empty_folder(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, folder = tmp_path / "env", tmp_path / "empty"
    folder.mkdir()
    began_s = time.monotonic()
    uv("venv", "-q", "--python", sys.executable, str(place))
    exported = uv(
        *("export", "-q", "--frozen", "--no-dev", "--no-emit-workspace", "--no-hashes"),
        "--package",
        "penstock",
    )
    (tmp_path / "locked.txt").write_text(exported)
    python = str(place / "bin" / "python")
    uv(
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--python",
        python,
        "-r",
        str(tmp_path / "locked.txt"),
        str(wheel),
    )
    installed_s = time.monotonic() - began_s

    environment = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    node = subprocess.Popen(
        ["penstock", "up", "--json", "--port", "0", "--http-port", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert node.stdout is not None
        about = json.loads(node.stdout.readline())
        page = (ROOT / "README.md").read_text()
        block = page.partition("<!-- quick start -->\n```sh\n")[2].partition("```")[0]
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=folder,
            env={**environment, "PENSTOCK_URL": about["listeners"][0]["url"]},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        node.send_signal(signal.SIGTERM)
        assert node.wait(120) == 0
        assert node.stdout is not None
        node.stdout.close()
    digest_s = time.monotonic() - began_s
    assert done.returncode == 0, done.stderr
    assert "events dropped at level" in done.stdout
    assert done.stderr.splitlines()[-1].endswith("more: 3,000 accounted for")
    without = subprocess.run(
        ["penstock", "demo"], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert without.returncode == 4, "the lab is a package of its own"
    with capsys.disabled():
        sys.stdout.write(f"\n  installed in {installed_s:.1f} s, first digest after {digest_s:.1f} s\n")
