"""Commands of the chat bot and their answers; every input gets a sentence."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.errors import PenstockError, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.channels.subscriptions import ChannelApi

COMMANDS: Final = {
    "subscribe": ("URL [POLICY]", "tell me when a page or feed changes"),
    "unsubscribe": ("URL", "and no more"),
    "list": ("", "what you are subscribed to"),
    "why": ("URL", "why a page is polled when it is"),
    "pause": ("[URL]", "pause all pages, or one; you get the number of changes afterwards"),
    "resume": ("[URL]", "end the pause"),
    "feed": ("", "the address of an Atom feed with your changes"),
    "help": ("", "this"),
}
"""Commands by name: their arguments, and what they do."""


def help_text() -> str:
    """List all commands."""
    lines = [f"{name} {what}".rstrip() + f": {about}" for name, (what, about) in COMMANDS.items()]
    return "\n".join(["You can say:", *lines])


class ChatCommands:
    """Executes commands on channels."""

    def __init__(self, channels: ChannelApi, *, feed_of: Callable[[str], str]) -> None:
        self._channels = channels
        self._feed_of = feed_of
        """Returns the address of a subscriber's feed; empty if there are no feeds."""

    async def answer(self, who: str, text: str) -> str:
        """Execute a command and return the answer."""
        if len(text) > limits.COMMAND_CHARS:
            return f"That is too long: a command has {limits.COMMAND_CHARS:,} characters at most."
        word, *rest = text.split() or ["help"]
        name = word.lower().lstrip("/!")
        if name not in COMMANDS:
            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            return printable(f"I do not know '{word[:80]}'.{hint} Say help for what I know.")
        usage = COMMANDS[name][0]
        needed, allowed = usage.startswith("URL"), len(usage.split())
        if needed and not rest:
            return f"Which one? Say {name} {usage}, as in {name} https://example.org/feed"
        if len(rest) > allowed:
            return f"That is too much: say {name} {usage}".rstrip() + "."
        try:
            return await self._do(who, name, rest)
        except PenstockError as error:
            return str(error)

    async def _do(self, who: str, name: str, rest: list[str]) -> str:
        channels = self._channels
        match name, rest:
            case "subscribe", [url, *policy]:
                return await channels.subscribe(who, url, policy=policy[0] if policy else "")
            case "unsubscribe", [url]:
                return await channels.unsubscribe(who, url)
            case "why", [url]:
                return channels.why(canonical(url))
            case (("pause" | "resume"), _):
                return await channels.pause(who, rest[0] if rest else None, paused=name == "pause")
            case "list", _:
                return self._list(who)
            case "feed", _:
                return (
                    self._feed_of(who) or "There are no feeds here: whoever runs this node can enable them."
                )
            case _:
                return help_text()

    def _list(self, who: str) -> str:
        found = sorted(self._channels.subscriptions(who), key=lambda one: one.url)
        if not found:
            return "You are subscribed to nothing. Say subscribe URL."
        lines = [
            one.url
            + (f" (policy {printable(one.policy.splitlines()[0][:80])})" if one.policy else "")
            + (" (paused)" if one.paused else "")
            for one in found[: limits.LIST_LINES]
        ]
        if len(found) > len(lines):
            lines.append(f"… and {len(found) - len(lines):,} more")
        return "\n".join(lines)
