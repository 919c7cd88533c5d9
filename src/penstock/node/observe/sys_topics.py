"""The node's own figures as retained messages below $SYS/broker, under mosquitto's names where it has one."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Protocol

from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.channels.status import ChannelsStatus
    from penstock.node.observe.status import NodeStatus
    from penstock.node.streams.status import StreamsStatus

ROOT: Final = "$SYS/broker/"

_MINUTES: Final = (1, 5, 15)


class Publish(Protocol):
    """Publishes a message from inside the node."""

    def __call__(self, topic: str, payload: bytes, /, *, retain: bool = False) -> None: ...


class Load:
    """Moving averages of a counter: how many a minute, over 1, 5 and 15 minutes."""

    def __init__(self) -> None:
        self._averages = [0.0] * len(_MINUTES)
        self._last: tuple[int, int] | None = None

    def take(self, count: int, *, now_us: int) -> list[float]:
        """The averages, now that the counter stands there."""
        if self._last is not None and now_us > self._last[1]:
            minutes = (now_us - self._last[1]) / (60 * SECOND_US)
            rate = (count - self._last[0]) / minutes
            self._averages = [
                rate + (average - rate) * math.exp(-minutes / span)
                for average, span in zip(self._averages, _MINUTES, strict=True)
            ]
        self._last = (count, now_us)
        return self._averages


def _web(web: ChannelsStatus) -> dict[str, int]:
    counts = web.counts
    found = {
        f"web/polls/{name}": getattr(counts, name) for name in counts.__struct_fields__ if name != "polls"
    }
    found |= {
        "web/polls/count": counts.polls,
        "web/channels/count": web.channels,
        "web/channels/polled": web.polled,
        "web/channels/failing": web.failing,
        "web/subscriptions/count": web.subscriptions,
        "web/changes/published": web.published,
        "web/changes/handed": web.handed,
        "web/changes/untold": web.untold,
        "web/fetches/active": web.fetching,
        "web/fetches/due": web.due,
        "web/faults": len(web.faults),
    }
    return found


def _streams(streams: StreamsStatus) -> dict[str, int]:
    rows = streams.streams
    logs = [row.log for row in rows if row.log is not None]
    return {
        "streams/count": len(rows),
        "streams/hosted": len(logs),
        "streams/stopped": sum(row.state == "stopped" for row in rows),
        "streams/recovering": sum(row.recovering for row in rows),
        "streams/messages/published": sum(row.published for row in rows),
        "streams/messages/delivered": sum(row.delivered for row in rows),
        "streams/messages/waiting": sum(row.waiting for row in rows),
        "streams/messages/held": sum(row.held for row in rows),
        "streams/log/messages": sum(log.messages for log in logs),
        "streams/log/bytes": sum(log.bytes for log in logs),
        "streams/log/commits": sum(log.commits for log in logs),
        "streams/readers/live": sum(row.readers.live for row in rows),
        "streams/readers/catching up": sum(row.readers.catching_up for row in rows),
        "streams/readers/away": sum(row.readers.away for row in rows),
        "streams/consumers/count": sum(row.consumers_total for row in rows),
        "streams/neighbours/count": len(streams.neighbours),
        "streams/neighbours/up": sum(one.state == "up" for one in streams.neighbours),
        "streams/faults": len(streams.faults),
    }


class SysTopics:
    """Publishes what has changed, at every interval."""

    def __init__(self, look: Callable[[], NodeStatus], publish: Publish) -> None:
        self._look = look
        self._publish = publish
        self._published: dict[str, str] = {}
        self._loads: dict[str, Load] = {}
        self._most_clients = 0

    async def run(self, interval_s: float) -> None:
        """Publish for ever."""
        while True:
            self.publish()
            await asyncio.sleep(interval_s)

    def publish(self) -> None:
        """Publish now."""
        for topic, text in self.figures(self._look()).items():
            if self._published.get(topic) != text:
                self._published[topic] = text
                self._publish(ROOT + topic, text.encode(), retain=True)

    def figures(self, status: NodeStatus) -> dict[str, str]:
        """Every topic below the root, with its text."""
        broker = status.broker
        account = broker.account
        self._most_clients = max(self._most_clients, broker.connections)
        counts = {
            "clients/connected": broker.connections,
            "clients/disconnected": max(0, broker.sessions - broker.connections),
            "clients/total": broker.sessions,
            "clients/maximum": self._most_clients,
            "subscriptions/count": broker.subscriptions,
            "retained messages/count": broker.retained,
            "retained messages/bytes": broker.retained_bytes,
            "publish/messages/received": broker.messages_received,
            "publish/messages/sent": broker.messages_sent,
            "publish/messages/unrouted": broker.unrouted,
            "bytes/received": broker.bytes_received,
            "bytes/sent": broker.bytes_sent,
            "account/accepted": account.accepted,
            "account/delivered": account.delivered,
            "account/digested": account.digested,
            "account/queued": account.queued,
            "account/abandoned": account.abandoned,
            "account/unaccounted": account.accepted
            - (account.delivered + account.digested + account.queued + account.abandoned),
        }
        counts["faults"] = len(status.faults)
        if broker.store is not None:
            counts |= {
                "store/stopped": bool(broker.store.fault),
                "store/rows waiting": broker.store.rows,
                "store/answers waiting": broker.store.answers,
            }
        if status.channels is not None:
            counts |= _web(status.channels)
        if status.streams is not None:
            counts |= _streams(status.streams)
        counts |= {f"refused/{why.replace(' ', '-')}": count for why, count in broker.refused.items()}
        found = {
            "version": f"penstock {broker.version}",
            "uptime": f"{(broker.now_us - broker.started_us) // SECOND_US} seconds",
        }
        found |= {name: str(int(count)) for name, count in counts.items()}
        for name in ("publish/messages/received", "publish/messages/sent", "bytes/received", "bytes/sent"):
            averages = self._loads.setdefault(name, Load()).take(counts[name], now_us=broker.now_us)
            load = name.replace("publish/messages", "publish")
            found |= {
                f"load/{load}/{span}min": f"{average:.2f}"
                for span, average in zip(_MINUTES, averages, strict=True)
            }
        return found
