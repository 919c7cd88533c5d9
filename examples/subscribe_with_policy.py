"""A slow reader with a policy: it gets what matters, and digests in the place of the rest."""

import asyncio

from penstock import Client, Digest
from penstock.node import Config, Http, Listener, LoadedConfig, Node, Queues, about
from penstock.policy import drop, keep, policy

VITALS = policy(
    drop.within(50, 100),  # the normal range goes first
    keep.latest(10),
    attribute="pulse",
    digest=["count", "mean", "min", "max"],
)
READINGS = 5_000


async def flood(client: Client) -> None:
    for number in range(READINGS):
        pulse = 150 if number % 1_000 == 500 else 60 + number % 30
        await client.publish("ward/1", b'{"pulse": %d}' % pulse + b" " * 500)


async def show(url: str) -> None:
    async with Client(url) as reader, Client(url) as sensor:
        subscription = await reader.subscribe("ward/+", policy=VITALS, buffer_events=20)
        publishing = asyncio.create_task(flood(sensor))
        events = digested = digests = high = 0
        while events + digested < READINGS:
            item = await subscription.get()
            if isinstance(item, Digest):
                digests, digested = digests + 1, digested + item.count
            elif item is not None:
                events += 1
                high += b"150" in item.payload
                await asyncio.sleep(0.0005)  # a slow reader
        await publishing
        print(f"{events} events and {digests} digests of {digested} more: {events + digested} accounted for")
        print(f"{high} of 5 high readings arrived as themselves")


async def main() -> None:
    config = Config(
        data="", listeners=(Listener(port=0),), http=Http(enabled=False), queues=Queues(events=50)
    )
    async with Node(LoadedConfig(config)) as node:
        await show(about(node)["listeners"][0]["url"])


asyncio.run(main())
