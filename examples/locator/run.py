"""Runs the locator with all its processes, and ends by itself: what each of them did is printed at the end.

python examples/locator/run.py                        # a node, a campus, the gateway, the locator, a map
python examples/locator/run.py --data DIR             # … and recordings for a pipeline in DIR/pipeline
python examples/locator/run.py --data DIR --advised   # … with the policy that this pipeline advises
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
POLICY = HERE.parent / "policies" / "locator.yaml"
CONFLATE = HERE.parent / "policies" / "conflate.yaml"
PENSTOCK = [sys.executable, "-m", "penstock"]


@contextmanager
def process(
    *command: str, stdin: int | None = None, stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process whose output is read line by line; it is ended with the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=stdin, stderr=stderr, text=True) as found:
        try:
            yield found
        finally:
            if found.poll() is None:
                found.send_signal(signal.SIGTERM)
                try:
                    found.wait(60)
                except subprocess.TimeoutExpired:
                    found.kill()


def said(stream: IO[str] | None) -> dict[str, Any]:
    """The next line that a process says, which is JSON."""
    assert stream is not None
    line = stream.readline()
    if not line:
        raise SystemExit("a process has ended early; what it said is above")
    found: dict[str, Any] = json.loads(line)
    return found


def python(name: str, *arguments: str) -> list[str]:
    """The command of a program in this folder."""
    return [sys.executable, str(HERE / name), *arguments]


def policy_of(api: str) -> str:
    """Name of the policy that the node applies to the locator; empty: none."""
    with urlopen(f"{api}api/v1/clients/locator") as answer:  # noqa: S310  # our own node
        found = json.load(answer)["subscriptions"]
    return next(one["policy"] for one in found if one["filter"] == "campus/syslog")


def traffic(
    url: str, api: str, *, lines: int, slow_s: float, seed: int, policy: Path | None
) -> dict[str, Any]:
    """Send a campus' lines through gateway, node and locator; return what each of them counted."""
    with ExitStack() as stack:
        gateway = stack.enter_context(process(*python("gateway.py", url)))
        port = said(gateway.stdout)["port"]
        sends = [f"--syslog=127.0.0.1:{port}", f"--lines={lines}", f"--slow={slow_s}", f"--seed={seed}"]
        campus = stack.enter_context(process(*python("campus.py", *sends), stdin=subprocess.PIPE))
        points = said(campus.stdout)["points"]
        given = [] if policy is None else [str(policy)]
        locator = stack.enter_context(process(*python("locator.py", url, points, *given)))
        said(locator.stdout)  # it has subscribed
        applied = policy_of(api)
        shown = ("sub", "campus/location/#", "--node", url, "--policy", str(CONFLATE), "--json")
        shows = stack.enter_context(process(*PENSTOCK, *shown, stderr=subprocess.PIPE))
        assert shows.stderr is not None
        shows.stderr.readline()  # "subscribed to …"
        assert campus.stdin is not None
        campus.stdin.write("\n")
        campus.stdin.flush()
        sent = said(campus.stdout)["sent"]
        gateway.send_signal(signal.SIGTERM)  # it ends when it has published what it received
        taken = said(gateway.stdout)
        located = said(locator.stdout)
        shows.send_signal(signal.SIGINT)
        assert shows.stdout is not None
        seen = [json.loads(line) for line in shows.stdout]
        campus.stdin.close()
    return {"policy": applied, "sent": sent, "gateway": taken, "locator": located, "map": len(seen)}


def configure(data: Path) -> Path:
    """Write the node's configuration: small queues, a recorder, the policies of a pipeline."""
    path = data / "penstock.yaml"
    config = {
        "data": str(data / "node"),
        "listeners": [{"kind": "tcp", "port": 0}],
        "http": {"port": 0},
        "log": "warning",
        "queues": {"events": 100},
        "recorder": {"topics": ["campus/syslog", "campus/location/#"], "traces_s": 1},
        "policy_table": str(data / "pipeline" / "control" / "policies"),
    }
    path.write_text(json.dumps(config))  # JSON is YAML
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=3_000, help="lines of syslog that are sent")
    parser.add_argument("--slow", type=float, default=0.01, help="seconds an access point takes to answer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="folder for recordings; a temporary one if omitted")
    parser.add_argument(
        "--advised", action="store_true", help="the locator's policy is the node's, from DIR/pipeline"
    )
    given = parser.parse_args()
    with ExitStack() as stack:
        data = given.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="locator-")))
        data.mkdir(parents=True, exist_ok=True)
        node = stack.enter_context(process(*PENSTOCK, "up", "--json", "--config", str(configure(data))))
        about = said(node.stdout)
        done = traffic(
            "mqtt://127.0.0.1:{port}".format(**about["listeners"][0]),
            about["http"]["url"],
            lines=given.lines,
            slow_s=given.slow,
            seed=given.seed,
            policy=None if given.advised else POLICY,
        )
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
