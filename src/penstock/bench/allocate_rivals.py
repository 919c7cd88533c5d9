"""What a programmer would write to share polls among channels, in plain Python; each is right, and slow."""

from __future__ import annotations

from heapq import heapify, heapreplace
from math import sqrt


def price_search(subscribers: list[float], *, budget: float, low: float, high: float) -> list[float]:
    """Polls per channel at the price that meets the budget, found by halving, channel by channel."""

    def polls(price: float) -> list[float]:
        return [min(max(sqrt(q / price), low), high) for q in subscribers]

    dear, cheap = max(subscribers) / low**2, min(subscribers) / high**2
    for _ in range(60):
        middle = sqrt(dear * cheap)
        if sum(polls(middle)) > budget:
            cheap = middle
        else:
            dear = middle
    return polls(dear)


def greedy(subscribers: list[float], *, budget: int) -> list[int]:
    """Whole polls, one after the other to the channel that gains most by one more; each begins with one.

    From n polls to n + 1 the mean delay falls by q·(1/n − 1/(n + 1)).
    """
    polls = [1] * len(subscribers)
    heap = [(-q / 2, channel) for channel, q in enumerate(subscribers)]
    heapify(heap)
    for _ in range(budget - len(subscribers)):
        channel = heap[0][1]
        polls[channel] += 1
        count = polls[channel]
        heapreplace(heap, (-subscribers[channel] / (count * (count + 1)), channel))
    return polls
