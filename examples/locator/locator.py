"""The PACK paper's locator: follows the campus' events, asks access points, and publishes where devices are.

    python locator.py mqtt://127.0.0.1:1883 http://127.0.0.1:8090 policy.yaml

It is one reader that answers in order, so it falls behind: its policy says what may be dropped. Without a
policy here the node's own apply (`install`, or the table `policies` of a pipeline). Prints an account at the
end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from penstock import Client, Digest

TOPIC = "campus/syslog"
END = "campus/end"
FRESH_S = 3.0
"""An answer serves so long, and its access point is not asked again meanwhile; the paper has 30 s."""
ANSWER_BYTES = 1 << 20
ASSOCIATIONS = ("Associated", "Reassociated")


class Locator:
    """Knows the last answer of each access point."""

    def __init__(self, web: aiohttp.ClientSession, points: str) -> None:
        self.web = web
        self.points = points
        self.answers: dict[str, tuple[float, dict[str, Any]]] = {}
        self.counts = {"events": 0, "digested": 0, "digests": 0, "located": 0, "queries": 0, "failed": 0}

    async def take(self, payload: bytes) -> dict[str, Any] | None:
        """Where a device is, if an event says that it has come."""
        self.counts["events"] += 1
        event = json.loads(payload)
        if event["action"] not in ASSOCIATIONS or event["message_type"] != "Info":
            return None
        answer = await self.ask(event["ap"])
        ip = event["ip"] or answer.get("stations", {}).get(event["host"])
        self.counts["located"] += 1
        return {
            "device": event["host"],
            "ap": event["ap"],
            "ip": ip,
            "x": answer.get("x"),
            "y": answer.get("y"),
        }

    async def ask(self, ap: str) -> dict[str, Any]:
        """What an access point says; an old answer within FRESH_S, none if it does not answer."""
        at, answer = self.answers.get(ap, (float("-inf"), {}))
        if time.monotonic() - at < FRESH_S:
            return answer
        self.counts["queries"] += 1
        try:
            async with self.web.get(f"{self.points}/ap/{quote(ap, safe='')}") as reply:
                reply.raise_for_status()
                answer = json.loads(await reply.content.read(ANSWER_BYTES))
        except (aiohttp.ClientError, TimeoutError, ValueError):
            self.counts["failed"] += 1
        self.answers[ap] = (time.monotonic(), answer)
        return answer


def published(end: asyncio.Task[Any]) -> int:
    """How many events the gateway has published in all."""
    return int(json.loads(end.result().payload)["published"])


async def main(url: str, points: str, policy: str | None) -> None:
    timeout = aiohttp.ClientTimeout(total=30)  # as in the paper
    async with (
        Client(url, client_id="locator") as client,
        aiohttp.ClientSession(timeout=timeout) as web,
    ):
        locator = Locator(web, points)
        ended = await client.subscribe(END, qos=1, retain_handling=2)  # not those of an earlier run
        events = await client.subscribe(TOPIC, qos=1, policy=policy, acknowledge="done", digests="json")
        print(json.dumps({"ready": True}), flush=True)
        end = asyncio.create_task(ended.get())
        coming: asyncio.Task[Any] = asyncio.create_task(events.get())
        counts = locator.counts
        while not end.done() or counts["events"] + counts["digested"] < published(end):
            await asyncio.wait({coming} if end.done() else {coming, end}, return_when="FIRST_COMPLETED")
            if not coming.done():
                continue
            got = coming.result()
            if isinstance(got, Digest):
                counts["digests"] += 1
                counts["digested"] += got.count
            elif (where := await locator.take(got.payload)) is not None:
                await client.publish(f"campus/location/{where['device']}", json.dumps(where), qos=1)
            events.done()
            coming = asyncio.create_task(events.get())
        coming.cancel()
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text() if len(sys.argv) > 3 else None))
