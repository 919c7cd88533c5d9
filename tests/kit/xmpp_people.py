"""People with XMPP accounts."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import slixmpp

from tests.kit.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.kit.prosody import Prosody

ACCOUNTS = {"bot": "bot-word", "ann": "ann-word", "bob": "bob-word"}


@asynccontextmanager
async def person(name: str, server: Prosody) -> AsyncIterator[Person]:
    found = Person(name, server)
    await found.come()
    try:
        yield found
    finally:
        await found.go()


class Person:
    """Somebody with a chat program."""

    def __init__(self, name: str, server: Prosody) -> None:
        context = ssl.create_default_context(cafile=str(server.ca))
        self._xmpp: Any = slixmpp.ClientXMPP(f"{name}@localhost", ACCOUNTS[name], ssl_context=context)
        self._xmpp.enable_direct_tls = False
        self._port = server.port
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._began = asyncio.Event()
        self._xmpp.add_event_handler("session_start", self._begin)
        self._xmpp.add_event_handler("message", self._hear)

    async def _begin(self, _: object) -> None:
        self._xmpp.send_presence()
        await self._xmpp.get_roster()
        self._began.set()

    def _hear(self, message: Any) -> None:
        if message["type"] != "error" and message["body"]:
            self._heard.put_nowait(str(message["body"]))

    async def come(self) -> None:
        self._xmpp.connect("127.0.0.1", self._port)
        await asyncio.wait_for(self._began.wait(), 120)

    async def befriended(self) -> None:
        """The bot asked to see when we are there, and may; the library agrees by itself."""
        async with asyncio.timeout(120):
            while self._xmpp.client_roster["bot@localhost"]["subscription"] != "both":
                await asyncio.sleep(0.02)

    def say(self, text: str) -> None:
        self._xmpp.send_message(mto="bot@localhost", mbody=text, mtype="chat")

    async def ask(self, text: str) -> str:
        self.say(text)
        return await self.hear()

    async def hear(self) -> str:
        return await asyncio.wait_for(self._heard.get(), 120)

    @property
    def silent(self) -> bool:
        return self._heard.empty()

    async def go(self) -> None:
        await asyncio.wait_for(self._xmpp.disconnect(wait=2.0), 120)
        filters = self._xmpp._run_out_filters
        if filters is not None:
            filters.cancel()
