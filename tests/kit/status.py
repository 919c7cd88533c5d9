"""Snapshots of a broker and of a node as tests need them."""

from __future__ import annotations

import msgspec

from penstock.model.instant import SECOND_US
from penstock.node.broker.status import (
    Account,
    BrokerStatus,
    ClientStatus,
    StoreStatus,
    SubscriptionStatus,
)
from penstock.node.channels.status import ChannelsStatus, PollCounts
from penstock.node.cluster.status import ClusterStatus, LinkFigures, LinkRow, MemberRow
from penstock.node.notify.status import NotifyFigures
from penstock.node.observe.status import NodeStatus
from penstock.node.slots.status import FlowsStatus, SlotsStatus
from penstock.node.store.recording import RecorderStatus
from penstock.node.streams.status import (
    ConsumerRow,
    LogRow,
    NeighbourRow,
    ReaderFigures,
    StreamRow,
    StreamsStatus,
)

LINK_EVENTS = LinkFigures(accepted=10, handed=4, digested=1, queued=2, in_flight=2, abandoned=1, received=7)
CLUSTER = ClusterStatus(
    cluster="ward",
    node="n1",
    incarnation=1,
    zone="east",
    address="tcp/127.0.0.1:7447",
    clients=("mqtt://127.0.0.1:1883",),
    load=3,
    members=(
        MemberRow(
            "n2", 2, "here", 5_000_000, "west", ("mqtt://10.0.0.2:1883",), "", 2, "0.1.0", LinkFigures()
        ),
        MemberRow("n3", 3, "away", 1_000_000, "", (), "", 0, "", LinkFigures()),
    ),
    links=(
        LinkRow("n2", True, 5, LINK_EVENTS, 200, 300, 1, 0, 1_500, via=("n4", "n5"), forwarded=6),
        LinkRow("n3", False, 0, LinkFigures(), 0, 0, 0, 0, 0),
    ),
    events=LINK_EVENTS,
    total=LINK_EVENTS,
    balanced=True,
)
LOG = LogRow(
    kind="file",
    messages=20,
    bytes=5_000,
    bytes_most=1 << 30,
    commits=4,
    committed=20,
    commits_per_s=2.0,
    commit_us=1_500,
    fault="",
)
ORDERS = StreamRow(
    name="orders",
    topics=("shop/orders/#",),
    host="north",
    hosted=True,
    upstream="",
    state="live",
    position=1_024_000,
    durable=1_024_000,
    acked=512_000,
    trimmed=1_024,
    published=20,
    delivered=20,
    rate=12.5,
    waiting=1,
    held=3,
    horizon=1_024_000,
    lag_s=0.0,
    recovering=False,
    nack_window_ms=100.0,
    nacks=0,
    cached_messages=5,
    cached_bytes=600,
    readers=ReaderFigures(live=2, catching_up=1, away=1, missed=0),
    consumers=(ConsumerRow("orders", "billing", 512_000, connected=False),),
    consumers_total=1,
    log=LOG,
)
SOUTH = msgspec.structs.replace(
    ORDERS, name="readings", topics=("plant/#",), host="south", hosted=False, rate=None, lag_s=2.5, log=None
)
LINK = NeighbourRow(
    name="south",
    state="down",
    address="127.0.0.1:1884",
    since_us=1,
    queue_bytes=100,
    sent=7,
    sent_bytes=700,
    received=8,
    received_bytes=800,
    dropped=1,
    reconnects=2,
    fault="connection refused",
)
STREAMS = StreamsStatus(node="north", streams=(ORDERS, SOUTH), neighbours=(LINK,), faults=())


def subscription(filter_: str, *, items: int = 0, level: int = 0, delivered: int = 0) -> SubscriptionStatus:
    """A subscription in which so many items wait."""
    return SubscriptionStatus(
        filter=filter_,
        qos=0,
        policy="",
        content_filter=False,
        account=Account(accepted=delivered + items, delivered=delivered, queued=items),
        level=level,
        items=items,
        bytes=items,
        packs=0,
        packs_by_level={},
        filters=(),
        digests=0,
        digests_in_stream=False,
        oldest_us=items,
        latency_p50_us=1,
        latency_p99_us=2,
    )


def client(client_id: str, *subscriptions: SubscriptionStatus) -> ClientStatus:
    """An attached client."""
    return ClientStatus(
        client_id=client_id,
        user="",
        state="attached",
        address="",
        protocol=5,
        since_us=0,
        expires_us=0,
        in_flight=0,
        behind=False,
        received=0,
        sent=0,
        subscriptions=subscriptions,
    )


def broker(second: int, *clients: ClientStatus) -> BrokerStatus:
    """A broker at that second."""
    return BrokerStatus(
        version="",
        started_us=0,
        now_us=second * SECOND_US,
        connections=0,
        sessions=0,
        subscriptions=0,
        retained=0,
        retained_bytes=0,
        messages_received=0,
        messages_sent=0,
        bytes_received=0,
        bytes_sent=0,
        refused={},
        unrouted=0,
        departed=Account(),
        clients=clients,
    )


def whole_node() -> NodeStatus:
    """A node with every part on, and no field that is None or empty."""
    polls = PollCounts(polls=100, first=10, same=20, changes=30, noise=5, errors=34, looking=1, bytes=12_345)
    slow = client("c", subscription("x", items=3, level=1, delivered=7))
    refused = {"address limit": 4}
    return NodeStatus(
        msgspec.structs.replace(broker(90, slow), refused=refused, store=StoreStatus("disk full", 5, 6)),
        recorder=RecorderStatus(
            folder="recorded",
            fault="disk full",
            seen=10,
            recorded=5,
            waiting=2,
            dropped=2,
            lost=1,
            files=3,
            deleted=4,
        ),
        flows=FlowsStatus(
            known=9,
            served=8,
            silent=1,
            refused={"bad period": 2},
            alarms=4,
            reserved=100,
            best_effort=200,
            late=300,
            requests={"accepted": 1, "again": 2, "rejected": 3},
            retried=5,
            unlisted=6,
            fullest=0.75,
            fullest_link="slow",
            links=3,
            memory_bytes=3_145_728,
            false_positive=0.001,
            slots=[SlotsStatus(slot_us=20_000, window_us=1_240_000)],
            forgotten=1,
            turned_away=2,
            table_version=7,
            table_fault="v=0008 is broken",
        ),
        channels=ChannelsStatus(
            channels=5,
            polled=4,
            failing=1,
            subscriptions=9,
            counts=polls,
            balanced=True,
            published=31,
            handed=17,
            untold=2,
            confirming=3,
            fetching=4,
            due=6,
            table_version=8,
            faults=("the store cannot be written",),
        ),
        notify=NotifyFigures(
            taken=100, sent=50, digested=30, waiting=15, forgotten=5, subscribers=7, failing=2
        ),
        streams=STREAMS,
        cluster=CLUSTER,
    )
