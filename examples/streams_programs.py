"""A program writes lines into a reliable stream, and again after a crash; another reads each of them once."""

from tempfile import TemporaryDirectory

from penstock import StreamReader, StreamWriter
from penstock_lab.rigs.local_node import local_node

LINES = ["three apples", "two pears", "a plum"]


def write(url: str, lines: list[str]) -> None:
    """Write all lines from the beginning, as after a crash; numbers that the stream has are skipped."""
    with StreamWriter(url, "orders", "import") as writer:
        print(f"{writer.last} lines are there already")
        for number, line in enumerate(lines, 1):
            writer.write("orders/new", line, number=number)


with TemporaryDirectory() as folder:
    streams = {
        "host": [{"name": "orders", "topics": ["orders/#"]}],
        "listen": {"enabled": True, "port": 0},
    }
    with local_node({"data": folder, "streams": streams}) as node:
        url = f"stream://127.0.0.1:{node.streams}"
        write(url, LINES[:2])
        write(url, LINES)
        with StreamReader(url, "orders", consumer="billing", start="earliest", until="end") as reader:
            for message in reader:
                print(f"{message.topic}: {message.payload.decode()}")
                reader.commit()
    with local_node({"data": folder, "streams": streams}) as node:
        url = f"stream://127.0.0.1:{node.streams}"
        write(url, [*LINES, "a quince"])
        with StreamReader(url, "orders", consumer="billing", until="end") as reader:
            print(f"after a restart: {[message.payload.decode() for message in reader]}")
