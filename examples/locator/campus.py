"""A campus: access points send syslog over UDP, and say over HTTP where they are and who is with them.

    python campus.py --syslog 127.0.0.1:5514 --lines 3000 --rate 1000 --seed 1

Prints the address of the access points first, and an account at the end; ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

POINTS = 40
STATIONS = 200
BROKEN = 0.02
"""Share of lines that no receiver should take."""


class Campus:
    """Who is where; the lock is for the threads that answer over HTTP."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.points = [f"AP-b{number // 4:02}-{number % 4}" for number in range(POINTS)]
        self.place = {ap: (10 * (number % 8), 10 * (number // 8)) for number, ap in enumerate(self.points)}
        self.stations = [f"02:00:00:00:{number // 256:02x}:{number % 256:02x}" for number in range(STATIONS)]
        self.at: dict[str, str] = {}
        self.lock = threading.Lock()

    def ip(self, station: str) -> str:
        number = self.stations.index(station)
        return f"10.1.{number // 250}.{number % 250 + 1}"

    def visit(self) -> list[tuple[int, str, str, str]]:
        """What a station does next, as (severity, access point, station, message)."""
        station = self.random.choice(self.stations)
        ap = self.random.choice(self.points)
        with self.lock:
            old = self.at.get(station)
            leaves = old is not None and self.random.random() < 0.3
            if leaves:
                del self.at[station]
            else:
                self.at[station] = ap
        if old is not None and leaves:
            return [(6, old, station, "Disassociating"), (6, old, station, "Deauthenticated")]
        known = f" ip={self.ip(station)}" if self.random.random() < 0.3 else ""
        if old is not None:
            return [
                (6, ap, station, "Authenticated"),
                (6, old, station, "roamed"),
                (6, ap, station, f"Reassociated{known}"),
            ]
        lines = [(6, ap, station, "Authenticated"), (6, ap, station, f"Associated{known}")]
        if self.random.random() < 0.1:
            lines.append((4, ap, station, "Max retries"))
        if self.random.random() < 0.1:
            lines.append((6, ap, ap, "Associated"))  # of the access point itself, as bridges say it
        return lines

    def line(self, severity: int, ap: str, station: str, message: str) -> bytes:
        """One message in either form of syslog; now and then one that is none."""
        now = datetime.now(UTC)
        text = f"station {station} {message}"
        if self.random.random() < 0.5:
            found = f"<{16 * 8 + severity}>1 {now.isoformat()} {ap} wifi 412 assoc - {text}"
        else:
            found = f"<{16 * 8 + severity}>{now:%b %e %H:%M:%S} {ap} wifi[412]: {text}"
        if self.random.random() < BROKEN:
            return self.random.choice((found.encode()[:20], b"\xff\xfe" + found.encode(), b"x" * 3_000))
        return found.encode()

    def answer(self, ap: str) -> dict[str, object] | None:
        """What an access point says: its place, and the addresses of its stations."""
        if ap not in self.place:
            return None
        with self.lock:
            here = {station: self.ip(station) for station, where in self.at.items() if where == ap}
        x, y = self.place[ap]
        return {"ap": ap, "x": x, "y": y, "stations": here}


def serve(campus: Campus, slow_s: float) -> ThreadingHTTPServer:
    """Answer GET /ap/NAME, each after a moment: access points are slow."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = campus.answer(self.path.removeprefix("/ap/"))
            time.sleep(random.uniform(0.2, 1.8) * slow_s)
            body = json.dumps(found or {"error": "no such access point"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--syslog", required=True, metavar="HOST:PORT")
    parser.add_argument("--lines", type=int, default=3_000)
    parser.add_argument("--rate", type=float, default=1_000, help="lines per second")
    parser.add_argument("--slow", type=float, default=0.01, help="seconds that an answer takes on average")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    campus = Campus(given.seed)
    server = serve(campus, given.slow)
    print(json.dumps({"points": f"http://127.0.0.1:{server.server_port}"}), flush=True)
    sys.stdin.readline()  # the others are ready
    host, port = given.syslog.rsplit(":", 1)
    begin, sent = time.monotonic(), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        while sent < given.lines:
            for message in campus.visit():
                out.sendto(campus.line(*message), (host, int(port)))
                sent += 1
            time.sleep(max(0.0, begin + sent / given.rate - time.monotonic()))
    print(json.dumps({"sent": sent}), flush=True)
    sys.stdin.read()  # answer until the locator has ended
    server.shutdown()


if __name__ == "__main__":
    main()
