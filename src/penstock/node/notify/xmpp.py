"""Transport: the XMPP chat bot, which takes commands, sends changes, and waits for offline contacts.

A message counts as sent when the server has acknowledged it (XEP-0198), where the server supports that.
The bot knows the presence of contacts that share it; to others it sends at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.backoff import pauses_s
from penstock.errors import MissingTool, NodeError
from penstock.model.instant import SECOND_US
from penstock.node.access.rate import RateLimits
from penstock.node.clock import steady_us
from penstock.node.notify.transport import (
    Delivered,
    Notification,
    RecipientGone,
    RetryLater,
    SendOutcome,
    clean,
    message_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from penstock.core.channels.delta import Delta
    from penstock.model.digest import Digest
    from penstock.node.config.notify import XmppSettings as Settings

PASSWORD_VARIABLE: Final = "PENSTOCK_XMPP_PASSWORD"  # noqa: S105  # a name
"""Environment variable with the password, if the configuration has none."""


def password_of(settings: Settings) -> str:
    """The bot's password, from wherever it is; NodeError says where it was looked for."""
    found = settings.password
    if not found and settings.password_file:
        try:
            found = Path(settings.password_file).read_text().splitlines()[0].strip()
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise NodeError(f"notify.xmpp.password_file: {settings.password_file}: {error}") from None
    found = found or os.environ.get(PASSWORD_VARIABLE, "")
    if not found:
        raise NodeError(
            f"notify.xmpp: no password: set password, password_file or the variable {PASSWORD_VARIABLE}"
        )
    return found


def may_talk(settings: Settings, bare: str) -> bool:
    """Whether the settings allow an address to use the bot."""
    domain = bare.rpartition("@")[2].lower()
    own = settings.jid.partition("/")[0].rpartition("@")[2].lower()
    accepted = [one.lower() for one in settings.accept] or [own]
    return bare.lower() in accepted or domain in accepted


def made(slixmpp: Any, settings: Settings, password: str) -> Any:
    """Make a client of slixmpp that is not connected yet."""
    bot = slixmpp.ClientXMPP(settings.jid, password, ssl_context=_context(settings))
    bot.enable_direct_tls = settings.tls == "direct"
    bot.enable_starttls = settings.tls == "starttls"
    bot.enable_plaintext = settings.tls == "off"
    if settings.tls == "off":
        for setting in ("unencrypted_plain", "unencrypted_scram"):
            bot.plugin["feature_mechanisms"].config[setting] = True
    bot.roster.auto_authorize = None
    bot.roster.auto_subscribe = False
    bot.register_plugin("xep_0198", {"allow_resume": False})
    bot.register_plugin("xep_0199", {"keepalive": True, "interval": 60, "timeout": 20})
    return bot


def library() -> Any:
    """Import slixmpp; MissingTool says how to get it."""
    try:
        import slixmpp  # noqa: PLC0415  # a part of the extra `channels`
    except ImportError:
        raise MissingTool(
            "notify.xmpp needs the package slixmpp; install it with: pip install 'penstock[channels]'"
        ) from None
    logging.getLogger("slixmpp").setLevel(logging.CRITICAL)  # what matters is logged here
    return slixmpp


def _context(settings: Settings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise NodeError(f"notify.xmpp.ca: {settings.ca}: {error}") from None


def quiet(bot: Any) -> None:
    """Cancel a task that the library leaves running."""
    filters = bot._run_out_filters  # noqa: SLF001  # it has no other way
    if filters is not None:
        filters.cancel()


log = logging.getLogger(__name__)

SESSION_S: Final = 30.0
"""Time for a server to begin a session, before the connection is tried again."""

ACK_S: Final = 10.0
"""Time for the server to acknowledge a message, before it is sent again."""

SENT: Final = 1_000
"""Sent messages remembered in case they come back: some minutes of a busy bot."""

ANSWERS: Final = 64
"""Commands answered at the same time."""


class XmppTransport:
    """Sends to subscribers named xmpp:name@domain, and answers their commands."""

    def __init__(
        self,
        settings: Settings,
        *,
        answer: Callable[[str, str], Awaitable[str]],
        wake: Callable[[str], None],
        waiting: Callable[[], list[str]],
        returned: Callable[[str, Delta | Digest, str], None],
        dice: Random,
    ) -> None:
        self._settings = settings
        self._password = password_of(settings)
        self._answer = answer
        self._wake = wake
        self._waiting = waiting
        self._returned = returned
        """Called when a message that counted as sent comes back."""
        self._dice = dice
        self._slixmpp = library()
        self._bot: Any = None
        """The connection, while there is a session."""
        self._acks: dict[str, asyncio.Future[str]] = {}
        self._sent: OrderedDict[str, Notification] = OrderedDict()
        """Last messages sent, by id: one may come back."""
        self._answering: set[asyncio.Task[None]] = set()
        self._pace = RateLimits(
            interval_us=60 * SECOND_US // limits.COMMANDS_PER_MINUTE, burst=10, keys=limits.NOTIFY_PACES
        )
        self._task: asyncio.Task[None] | None = None
        self.fault = ""
        """Why there is no session; empty if there is one."""
        self.sent = self.commands = self.sessions = 0

    async def start(self) -> None:
        """Connect, and reconnect whenever the connection is lost."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Disconnect."""
        tasks = [*self._answering, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the connection --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            pauses = pauses_s(self._dice, least_s=limits.RECONNECT_LEAST_S, most_s=300.0)
            for pause_s in pauses:
                before = self.sessions
                fault = await self._session()
                if fault != self.fault:
                    log.warning("chat as %s: %s; trying again", self._settings.jid, fault)
                self.fault = fault
                await asyncio.sleep(pause_s)
                if self.sessions > before:
                    break  # the connection worked: pauses start short again

    async def _session(self) -> str:
        """Keep one connection until it ends; return why it ended."""
        settings = self._settings
        bot = self._made()
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        began = asyncio.Event()

        def end(reason: str) -> None:
            if not ended.done():
                ended.set_result(reason)

        async def begin(_: object) -> None:
            bot.send_presence()
            await bot.get_roster()
            self._bot = bot
            self.sessions += 1
            self.fault = ""
            log.info("chat as %s: connected", bot.boundjid.bare)
            began.set()
            for who in self._waiting():
                self._wake(who)

        bot.add_event_handler("session_start", begin)
        bot.add_event_handler("connection_failed", lambda error: end(f"no connection: {error}"))
        bot.add_event_handler("failed_all_auth", lambda _: end("the server does not accept the password"))
        bot.add_event_handler("ssl_invalid_chain", lambda error: end(f"the certificate: {error}"))
        bot.add_event_handler(
            "disconnected", lambda reason: end(f"disconnected: {reason or 'no reason given'}")
        )
        try:
            bot.connect(*((settings.host, settings.port) if settings.host else ()))
            starting = asyncio.create_task(began.wait())
            waited: set[asyncio.Future[Any]] = {starting, ended}
            await asyncio.wait(waited, timeout=SESSION_S, return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            if not began.is_set() and not ended.done():
                return f"the server began no session within {SESSION_S:g} s"
            return await ended
        finally:
            self._bot = None
            for ack in self._acks.values():
                ack.cancel()
            bot.cancel_connection_attempt()
            with suppress(Exception):  # the connection is over, whatever this raises
                async with asyncio.timeout(3.0):
                    await bot.disconnect(wait=1.0)
            quiet(bot)

    def _made(self) -> Any:
        bot = made(self._slixmpp, self._settings, self._password)
        bot.add_event_handler("message", self._heard)
        bot.add_event_handler("message_error", self._came_back)
        bot.add_event_handler("presence_subscribe", self._asked)
        bot.add_event_handler("got_online", lambda presence: self._wake(f"xmpp:{presence['from'].bare}"))
        bot.add_event_handler("stanza_acked", self._acked)
        return bot

    def _asked(self, presence: Any) -> None:
        """Answer a request to see the presence of the bot."""
        bot = presence.stream
        who = presence["from"].bare
        accepted = may_talk(self._settings, who)
        bot.send_presence(pto=who, ptype="subscribed" if accepted else "unsubscribed")
        if accepted:
            bot.send_presence(pto=who, ptype="subscribe")

    # -- commands --------------------------------------------------------------------------------------

    def _heard(self, message: Any) -> None:
        if message["type"] not in ("chat", "normal") or not message["body"].strip():
            return
        who = message["from"].bare
        if len(self._answering) >= ANSWERS or not self._pace.take(who, now_us=steady_us()):
            return  # too many commands at once: two bots would answer each other for ever
        task = asyncio.create_task(self._reply(message, who))
        self._answering.add(task)
        task.add_done_callback(self._answered)

    def _came_back(self, message: Any) -> None:
        error = message["error"]
        reason = f"the message came back: {clean(error['text'] or error['condition'])[:200]}"
        parcel = self._sent.get(message["id"])
        if parcel is None or message["from"].bare != parcel.address:
            return
        ack = self._acks.get(parcel.id)
        if ack is None:
            del self._sent[parcel.id]
            self._returned(parcel.who, parcel.what, reason)
        elif not ack.done():
            ack.set_result(reason)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug: a command is not answered", exc_info=error)

    async def _reply(self, message: Any, who: str) -> None:
        self.commands += 1
        if may_talk(self._settings, who):
            said = await self._answer(f"xmpp:{who}", message["body"])
        else:
            said = "I take no commands from you. Whoever runs this node can add you to notify.xmpp.accept."
        if self._bot is not None:
            with suppress(self._slixmpp.xmlstream.xmlstream.NotConnectedError):
                message.reply(clean(said[: limits.NOTIFY_CHARS])).send()
                self._meet(who, message["body"])

    def _meet(self, who: str, said: str) -> None:
        """Ask a new subscriber to let the bot see whether they are online."""
        contact = self._bot.client_roster[who]
        if said.lower().startswith("subscribe") and not contact["to"] and not contact["pending_out"]:
            self._bot.send_presence_subscription(pto=who, ptype="subscribe")

    # -- sending ---------------------------------------------------------------------------------------

    def away(self, who: str) -> bool:
        """Whether there is no session, or the person is known to be offline."""
        if self._bot is None:
            return True
        bare = who.partition(":")[2]
        roster = self._bot.client_roster
        return bool(roster.has_jid(bare) and roster[bare]["to"] and not roster[bare].resources)

    async def send(self, parcel: Notification) -> SendOutcome:
        """Send one message."""
        bot = self._bot
        if not may_talk(self._settings, parcel.address):
            return RecipientGone("the bot does not talk to them any more (notify.xmpp.accept)")
        if bot is None:
            return RetryLater(self.fault or "not connected")
        self._sent[parcel.id] = parcel
        if len(self._sent) > SENT:
            self._sent.popitem(last=False)
        problem = await self._send(bot, parcel)
        if problem:
            self._sent.pop(parcel.id, None)  # no need to handle its return as well
            return RetryLater(problem)
        self.sent += 1
        return Delivered()

    async def _send(self, bot: Any, parcel: Notification) -> str:
        """Wait for the server's acknowledgement; return why it did not come, or an empty text."""
        message = bot.make_message(mto=parcel.address, mbody=message_of(parcel.what), mtype="chat")
        message["id"] = parcel.id
        ack: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._acks[parcel.id] = ack
        try:
            message.send()
            acks = bot.plugin["xep_0198"]
            if not acks.enabled_out:
                return ""
            acks.stanza.RequestAck(bot).send()  # in the queue behind it; request_ack() would overtake it
            async with asyncio.timeout(ACK_S):
                return await ack
        except TimeoutError:
            return f"the chat server did not acknowledge it within {ACK_S:g} s"
        except asyncio.CancelledError:
            if self._bot is bot:
                raise  # cancelled because the node ends
            return "the connection to the chat server was lost"
        except self._slixmpp.xmlstream.xmlstream.NotConnectedError:
            return "the connection to the chat server was lost"
        finally:
            del self._acks[parcel.id]

    def _acked(self, stanza: Any) -> None:
        ack = self._acks.get(stanza["id"])
        if ack is not None and not ack.done():
            ack.set_result("")

    def statistics(self) -> dict[str, object]:
        """Return whether there is a session, and the numbers of messages."""
        return {
            "connected": self._bot is not None,
            "fault": self.fault,
            "sessions": self.sessions,
            "commands": self.commands,
            "sent": self.sent,
        }
