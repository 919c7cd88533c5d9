"""Runs what deploy/Dockerfile does, without Docker: its `RUN uv sync` in a copy of what it copies, its start.

    python tools/try_image.py [--keep DIR]

The image itself (its Debian, its user, its volume) is not tried. The steps are read from the Dockerfile, so
they cannot drift apart: COPY lines of the first stage say which files are there, its RUN line how the
environment is made, HEALTHCHECK and CMD how the node is asked and started. Then comes the quick start: a
phone that is away while 3,000 readings come, and the digest it finds.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def steps() -> tuple[list[list[str]], str, list[str], list[str]]:
    """Return the copies and the install line of the first stage, the health check and the start."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    first, _, last = text.partition("\nFROM python:3.12-slim\n")
    copies = [shlex.split(line) for line in re.findall(r"^COPY (.+)$", first, re.MULTILINE)]
    (install,) = re.findall(r"^RUN (uv sync .+)$", first, re.MULTILINE)
    (extras,) = re.findall(r'^ARG EXTRAS="(.+)"$', first, re.MULTILINE)
    (health,) = re.findall(r"^HEALTHCHECK .+ CMD (\[.+\])$", last, re.MULTILINE)
    (start,) = re.findall(r"^CMD (\[.+\])$", last, re.MULTILINE)
    return copies, install.replace("${EXTRAS}", extras), json.loads(health), json.loads(start)


def build(folder: Path) -> Path:
    """Copy what the image copies, and install it; return the environment."""
    copies, install, _, _ = steps()
    source = folder / "src"
    for *names, to in copies:
        for name in names:
            at = source / to / Path(name).name if to.endswith("/") else source / to
            at.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, at)
    place = folder / "penstock"
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    asked = {
        "UV_PROJECT_ENVIRONMENT": str(place),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PYTHON": sys.executable,
    }
    subprocess.run([uv, *shlex.split(install)[1:]], cwd=source, env=known | asked, check=True)
    return place


def try_out(place: Path, folder: Path) -> None:
    """Start the node of the image on free ports, ask for its health, and be away for 3,000 readings."""
    _, _, health, start = steps()
    data = folder / "data"
    data.mkdir()
    config = folder / "penstock.yaml"
    there = (ROOT / "deploy" / "penstock.yaml").read_text()
    config.write_text(there.replace("0.0.0.0", "127.0.0.1").replace("/var/lib/penstock", str(data)))  # noqa: S104
    env = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}
    arguments = [str(config) if one.startswith("/etc/") else one for one in start]
    node = subprocess.Popen(
        ["penstock", *arguments, "--port", "0", "--http-port", "0", "--json"],
        env=env,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(*command: str, given: str = "") -> str:
        done = subprocess.run(
            command,
            env=env,
            cwd=folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{shlex.join(command)}: {done.stderr}")
        return done.stdout

    try:
        assert node.stdout is not None
        about = json.loads(node.stdout.readline())
        run(health[0], *(one.replace("8080", str(about["http"]["port"])) for one in health[1:]))
        at = ("--node", about["listeners"][0]["url"])
        policy = folder / "vitals.yaml"
        shutil.copy(ROOT / "examples" / "policies" / "vitals.yaml", policy)
        phone = ("sub", "ward/#", "-i", "phone", "--keep", "3600", "--policy", str(policy), "-q", "1", *at)
        run("penstock", *phone, "-W", "0.2")
        readings = "".join(f'{{"pulse": {60 + number % 50}}}\n' for number in range(3_000))
        run("penstock", "pub", "ward/1", "--lines", "-q", "1", *at, given=readings)
        shown = run("penstock", *phone, "-W", "3")
        digests = [line.strip() for line in shown.splitlines() if " dropped at level " in line]
        print(*digests, sep="\n")
        if not digests:
            sys.exit("no digest was shown")
        print(f"{len(shown.splitlines()) - len(digests)} readings and {len(digests)} digest(s) came")
    finally:
        node.terminate()
        node.wait(60)
        assert node.stdout is not None
        node.stdout.close()


def main() -> None:
    """Build and try it."""
    keep = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else None
    if keep is not None:
        Path(keep).mkdir(parents=True)
        try_out(build(Path(keep).resolve()), Path(keep).resolve())
        return
    with tempfile.TemporaryDirectory() as folder:
        try_out(build(Path(folder)), Path(folder))


if __name__ == "__main__":
    main()
