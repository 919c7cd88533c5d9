"""Sensors whose connection breaks: a bounded buffer, a policy for what may be dropped, all accounted for."""

import asyncio
import json

from penstock import Client, Digest
from penstock.mqtt import Reason
from penstock.node import Config, Http, Listener, LoadedConfig, Node, about

MAY_GO = """
attribute: pulse
digest: [count, mean, min, max]
levels:
  - drop: {delta: 5}           # small changes first
  - drop: {within: [50, 100]}  # then the normal range
"""
READINGS = 3_000


async def sensors(client: Client) -> None:
    """Three patients, one of whom needs help."""
    for number in range(READINGS):
        pulse = 150 if number == 1_500 else 60 + number % 30
        await client.publish(f"ward/bed{number % 3}", json.dumps({"pulse": pulse}))


async def show(node: Node) -> None:
    url = about(node)["listeners"][0]["url"]
    # Without a policy, `publish` would block once 200 messages wait.
    sender = Client(url, client_id="sensors", send_policy=MAY_GO, send_events=200)
    async with Client(url) as nurse, sender:
        ward = await nurse.subscribe("ward/+")
        node.broker.disconnect("sensors", reason=Reason.SERVER_BUSY)  # it reconnects in half a second
        while sender.connected:
            await asyncio.sleep(0.01)
        await sensors(sender)
        seen = 0
        while seen < READINGS:
            item = await ward.get()
            if isinstance(item, Digest):
                seen += item.count
            elif item is not None:
                seen += 1
                if b"150" in item.payload:
                    print(f"{item.topic}: {item.payload.decode()}")
    sent = sender.statistics().sent
    print(f"published {sent.published} = sent {sent.sent} + digested {sent.digested}; {sent.packs} packs")


async def main() -> None:
    config = Config(data="", listeners=(Listener(port=0),), http=Http(enabled=False))
    async with Node(LoadedConfig(config)) as node:
        await show(node)


asyncio.run(main())
