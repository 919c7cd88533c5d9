"""Answers of the bot: a clear sentence to whatever people say."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.node.notify.commands import COMMANDS, ChatCommands
from tests.kit.channel_api import MemoryChannels

ANN = "xmpp:ann@example.org"


def clerk(channels: MemoryChannels | None = None) -> ChatCommands:
    return ChatCommands(channels or MemoryChannels(), feed_of=lambda who: f"https://p.example/{who}")


def say(at: ChatCommands, *texts: str) -> list[str]:
    async def talk() -> list[str]:
        return [await at.answer(ANN, text) for text in texts]

    return asyncio.run(talk())


def test_a_conversation() -> None:
    at = clerk()
    said = say(
        at,
        "list",
        "subscribe HTTP://Example.org",
        "SUBSCRIBE https://b.example/feed vitals",
        "pause https://b.example/feed",
        "list",
        "resume",
        "resume http://example.org",
        "why http://example.org/",
        "unsubscribe http://example.org",
        "feed",
    )
    assert said == [
        "You are subscribed to nothing. Say subscribe URL.",
        "You are subscribed to http://example.org/.",
        "You are subscribed to https://b.example/feed.",
        "paused",
        "http://example.org/\nhttps://b.example/feed (policy vitals) (paused)",
        "resumed",
        "resumed",
        "http://example.org/ is polled every 15 min, because one person subscribes to it.",
        "You are not subscribed to http://example.org/ any more.",
        f"https://p.example/{ANN}",
    ]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("subscribe", "Which one? Say subscribe URL [POLICY], as in subscribe https://example.org/feed"),
        (
            "subscrbe http://a.example",
            "I do not know 'subscrbe'. Did you mean 'subscribe'? Say help for what I know.",
        ),
        ("hello there", "I do not know 'hello'. Did you mean 'help'? Say help for what I know."),
        ("☃", "I do not know '☃'. Say help for what I know."),
        ("subscribe ftp://a.example", "ftp://a.example: must begin with http:// or https://"),
        ("subscribe not-a-url", "not-a-url: must begin with http:// or https://"),
        ("why http://", "http://: has no host, as in https://example.org/feed"),
        ("subscribe http://refused.example/", "refused.example is not allowed here"),
        ("unsubscribe http://a.example/", "you are not subscribed to http://a.example/"),
        ("pause", "you are not subscribed to anything"),
        ("list of everything", "That is too much: say list."),
        ("x" * 5000, "That is too long: a command has 4,096 characters at most."),
    ],
)
def test_what_cannot_be_done_is_said(text: str, answer: str) -> None:
    assert say(clerk(), text) == [answer]


def test_help_names_every_command() -> None:
    for said in say(clerk(), "help", "  ", "/help"):
        assert all(f"\n{name}" in said for name in COMMANDS)


def test_a_long_list_is_cut() -> None:
    channels = MemoryChannels()
    at = clerk(channels)
    say(at, *(f"subscribe http://a.example/{number}" for number in range(limits.LIST_LINES + 5)))
    (said,) = say(at, "list")
    assert said.endswith("\n… and 5 more")


@given(st.text(max_size=300))
def test_whatever_is_said_there_is_an_answer(text: str) -> None:
    (said,) = say(clerk(), text)
    assert said
    assert all(sign.isprintable() or sign == "\n" for sign in said)
