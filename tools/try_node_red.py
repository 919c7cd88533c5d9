"""Runs the Node-RED recipe of the documentation: a node, Node-RED with the flow, readings in, alarms out.

    python tools/try_node_red.py [FOLDER]

Node-RED is installed by npm into FOLDER (a temporary one if omitted; give one to keep it). The flow is read
from docs/guides/recipes.md; only its port is changed. No test runs this: installing takes minutes.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PENSTOCK = [sys.executable, "-m", "penstock"]
SETTINGS = (
    "module.exports = {uiPort: %d, uiHost: '127.0.0.1', flowFile: 'flows.json', httpAdminRoot: false};\n"
)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def install(folder: Path) -> Path:
    """Install Node-RED unless it is there; return its start file."""
    start = folder / "node_modules" / "node-red" / "red.js"
    if not start.exists():
        command = ["npm", "install", "--no-audit", "--no-fund", "--omit=dev", "node-red"]
        subprocess.run(command, cwd=folder, check=True)
    return start


def try_out(folder: Path, start: Path) -> None:
    """Run node, Node-RED and two commands; fail if the alarm does not come out."""
    page = (ROOT / "docs" / "guides" / "recipes.md").read_text()
    (flow,) = re.findall(r"^```json\n(\[.*?)^```$", page, re.MULTILINE | re.DOTALL)
    port, websocket = free_port(), free_port()
    node = folder / "node"
    node.mkdir(exist_ok=True)
    listeners = [{"kind": "tcp", "port": port}, {"kind": "websocket", "port": websocket}]
    config = {"listeners": listeners, "http": {"enabled": False}, "data": ""}
    (node / "penstock.yaml").write_text(json.dumps(config))
    user = folder / "user"
    user.mkdir(exist_ok=True)
    (user / "settings.js").write_text(SETTINGS % free_port())
    (user / "flows.json").write_text(flow.replace(":9001/", f":{websocket}/"))
    broker = subprocess.Popen([*PENSTOCK, "up", "--json"], cwd=node, stdout=subprocess.PIPE)
    running: list[subprocess.Popen[bytes] | subprocess.Popen[str]] = [broker]
    assert broker.stdout is not None
    broker.stdout.readline()  # it is ready
    where = ["--node", f"127.0.0.1:{port}"]
    try:
        running.append(subprocess.Popen(["node", str(start), "--userDir", str(user)]))
        sub = subprocess.Popen(
            [*PENSTOCK, "sub", "alarms", *where, "--count", "1", "--seconds", "120"],
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(sub)
        for _ in range(120):  # until Node-RED has subscribed, nobody takes the readings
            for pulse in (72, 150):
                command = [*PENSTOCK, "pub", "ward/7", json.dumps({"pulse": pulse}), "-q", "1", *where]
                subprocess.run(command, check=False)
            if sub.poll() is not None:
                break
            time.sleep(1)
        assert sub.stdout is not None
        heard = sub.stdout.read()
        assert 'alarms {"pulse":150}' in heard, heard
        print(f"Node-RED took the readings over WebSocket and published the alarm:\n{heard}")
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)


def main() -> None:
    """Install and try it in a folder."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else made).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        try_out(folder, install(folder))


if __name__ == "__main__":
    main()
