"""Sessions that join and leave a stream's live messages at any moment miss nothing and get nothing twice."""

from __future__ import annotations

import random

import pytest

from tests.kit.effort import seeds
from tests.node.streams.sessions.world import Wants, World


def story(seed: int, *, remote: bool, steps: int = 60) -> World:
    """Messages, connections that come and go, and a node that is killed."""
    rng = random.Random(seed)
    world = World(rng, remote=remote, full=rng.choice((0.0, 0.05, 0.3)), loss=rng.choice((0.0, 0.1)))
    world.loop.run(2.0)
    world.client("two", Wants("orders/#", 2), window=rng.choice((1, 3, 20)))
    world.client("one", Wants("orders/+", 1), window=rng.choice((1, 3, 20)), slow=True)
    world.client("part", Wants("orders/a", 2), window=rng.choice((1, 20)), slow=rng.random() < 0.5)
    for _ in range(steps):
        match rng.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                world.publish(rng.choice((1, 3, 30)))
            case 5 | 6:
                client = rng.choice(world.clients)
                if client.line is None:
                    client.connect()
                else:
                    client.disconnect()
            case 7 if rng.random() < 0.3:
                world.restart()
            case 8 if len(world.clients) < 5:
                early = None if remote or rng.random() < 0.5 else 0  # far away, more may be gone by then
                world.client(f"late {len(world.clients)}", Wants("#", rng.choice((1, 2)), early))
            case _:
                pass
        world.loop.run(rng.choice((0.0, 0.0005, 0.003, 0.05, 0.7)))
    world.rest()
    world.check()
    return world


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("seed", seeds(0, 64))
def test_each_message_once_and_in_order(seed: int, remote: bool) -> None:
    story(seed, remote=remote)


def changing(seed: int, *, remote: bool, steps: int = 80) -> None:
    """Subscriptions get another QoS, connections another window, and one takes over from the other."""
    rng = random.Random(seed)
    world = World(rng, remote=remote, full=rng.choice((0.0, 0.05, 0.3)), loss=rng.choice((0.0, 0.1)))
    world.loop.run(2.0)
    world.client("one", Wants("orders/+", 1), window=rng.choice((1, 3, 20)), slow=True)
    world.client("both", Wants("orders/a", 2), Wants("orders/#", 1), slow=rng.random() < 0.5)
    for _ in range(steps):
        client = rng.choice(world.clients)
        match rng.randrange(8):
            case 0 | 1 | 2 | 3:
                world.publish(rng.choice((1, 3, 30)))
            case 4 | 5:
                if client.line is not None:
                    client.disconnect()
                if rng.random() < 0.7:
                    client.window = rng.choice((1, 3, 20))
                    client.connect()
            case 6 if rng.random() < 0.3:
                world.restart()
            case 7:
                client.change(rng.choice(client.wants))
                world.loop.run(0.2)
        world.loop.run(rng.choice((0.0, 0.0005, 0.003, 0.05, 0.7)))
    world.rest()
    world.check(once=False)  # QoS 1 messages may come again, and then with QoS 2
    for client in world.clients:
        assert client.session is not None
        assert len(client.session.exchange.ids) == 0


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("seed", [*range(4), 1_011, 2_112])
def test_each_message_in_order_whatever_changes(seed: int, remote: bool) -> None:
    changing(seed, remote=remote)


@pytest.mark.slow
@pytest.mark.parametrize("remote", [False, True])
def test_many_more_stories(remote: bool) -> None:
    for seed in seeds(1_000, 100):
        story(seed, remote=remote)
    for seed in seeds(1_000, 30):
        changing(seed, remote=remote)
