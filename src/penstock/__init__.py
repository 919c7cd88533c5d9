"""Penstock: publish/subscribe for streams that outrun their readers.

These are the names that most programs need; the page `docs/reference/api.md` describes each. They are
imported on first use. More names are one folder deep:

    penstock.policy       `policy`, `drop` and `keep` build a policy; `to_yaml` and others write it
    penstock.model        events, digests and what they are made of
    penstock.client       everything about the client
    penstock.core.queues  queues without a network
    penstock.pipeline     Spark
    penstock.node         a node in a program

The builder `policy` is not among the names here, because `penstock.policy` is the folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.sending import Published
    from penstock.client.streams.reader import StreamMessage, StreamReader
    from penstock.client.streams.writer import StreamWriter
    from penstock.client.subscription import ReceivedDigest, ReceivedEvent, Subscription
    from penstock.errors import (
        BufferFull,
        ClientError,
        ConnectionLost,
        InputError,
        PenstockError,
        PolicyError,
        PublishRefused,
        SubscribeRefused,
        Unreachable,
    )
    from penstock.model.digest import Digest
    from penstock.model.event import Event
    from penstock.pipeline.compile.transforms import effect, pack
    from penstock.pipeline.stream.pack_stream import pack_stream
    from penstock.policy.explain import explain
    from penstock.policy.lint import lint
    from penstock.policy.nodes import Policy
    from penstock.policy.text.forms import parse

__all__ = [
    "BufferFull",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Digest",
    "Event",
    "InputError",
    "PenstockError",
    "Policy",
    "PolicyError",
    "PublishRefused",
    "Published",
    "ReceivedDigest",
    "ReceivedEvent",
    "StreamMessage",
    "StreamReader",
    "StreamWriter",
    "SubscribeRefused",
    "Subscription",
    "Unreachable",
    "effect",
    "explain",
    "lint",
    "pack",
    "pack_stream",
    "parse",
]

_MODULES: Final = {
    "BufferFull": "penstock.errors",
    "Client": "penstock.client.client",
    "ClientError": "penstock.errors",
    "ConnectionLost": "penstock.errors",
    "Digest": "penstock.model.digest",
    "Event": "penstock.model.event",
    "InputError": "penstock.errors",
    "PenstockError": "penstock.errors",
    "Policy": "penstock.policy.nodes",
    "PolicyError": "penstock.errors",
    "PublishRefused": "penstock.errors",
    "Published": "penstock.client.sending",
    "ReceivedDigest": "penstock.client.subscription",
    "ReceivedEvent": "penstock.client.subscription",
    "StreamMessage": "penstock.client.streams.reader",
    "StreamReader": "penstock.client.streams.reader",
    "StreamWriter": "penstock.client.streams.writer",
    "SubscribeRefused": "penstock.errors",
    "Subscription": "penstock.client.subscription",
    "Unreachable": "penstock.errors",
    "effect": "penstock.pipeline.compile.transforms",
    "explain": "penstock.policy.explain",
    "lint": "penstock.policy.lint",
    "pack": "penstock.pipeline.compile.transforms",
    "pack_stream": "penstock.pipeline.stream.pack_stream",
    "parse": "penstock.policy.text.forms",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
