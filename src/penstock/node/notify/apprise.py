"""Transport: services that Apprise can notify, each under the name that the operator gave it.

Apprise blocks, so each notification runs in a thread with a time limit. A thread that does not return is
abandoned, and its target is not tried again before the thread ends.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import MissingTool, NodeError
from penstock.node.notify.transport import (
    Delivered,
    Notification,
    RecipientGone,
    RetryLater,
    SendOutcome,
    message_of,
    title_of,
)

if TYPE_CHECKING:
    from penstock.node.config.notify import AppriseSettings as Settings

THREADS: Final = 4
"""Notifications sent at the same time."""


def targets_of(settings: Settings) -> dict[str, Any]:
    """Make Apprise's objects by name; NodeError if it does not know an address."""
    try:
        import apprise  # noqa: PLC0415  # a part of the extra `channels`
    except ImportError:
        raise MissingTool(
            "notify.apprise needs the package apprise; install it with: pip install 'penstock[channels]'"
        ) from None
    logging.getLogger("apprise").setLevel(logging.ERROR)
    found: dict[str, Any] = {}
    for number, target in enumerate(settings.targets):
        made = apprise.Apprise(asset=apprise.AppriseAsset(async_mode=False))
        if not made.add(target.url):
            scheme = target.url.partition(":")[0]
            raise NodeError(
                f"notify.apprise.targets[{number}].url: Apprise does not know such an address "
                f"(it begins with {scheme[:20]}); its documentation lists those it knows"
            )
        found[target.name] = made
    return found


class AppriseTransport:
    """Sends to subscribers named apprise:NAME."""

    def __init__(self, settings: Settings) -> None:
        self._send_s = settings.send_s
        self._targets = targets_of(settings)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-apprise")
        self._stuck: dict[str, asyncio.Future[bool]] = {}
        self.sent = self.refused = 0

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Close without waiting for threads that are still sending."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def away(self, who: str) -> bool:  # noqa: ARG002
        """Return False: whether a service can be reached shows when sending."""
        return False

    async def send(self, parcel: Notification) -> SendOutcome:
        """Send one notification in a thread."""
        name = parcel.address
        target = self._targets.get(name)
        if target is None:
            return RecipientGone(f"there is no target '{name}' in notify.apprise.targets any more")
        if name in self._stuck and not self._stuck[name].done():
            return RetryLater("the last notification has not come back yet")
        title, body = title_of(parcel.what), message_of(parcel.what)
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: bool(target.notify(title=title, body=body))
        )
        try:
            async with asyncio.timeout(self._send_s):
                done = await asyncio.shield(work)
        except TimeoutError:
            self._stuck[name] = work
            work.add_done_callback(lambda late: late.cancelled() or late.exception())
            self.refused += 1
            return RetryLater(f"Apprise did not come back within {self._send_s:g} s")
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # raised by a plugin of Apprise
            self.refused += 1
            return RetryLater(f"Apprise failed: {error}")
        if not done:
            self.refused += 1
            return RetryLater("the service did not take the notification")
        self.sent += 1
        return Delivered()

    def statistics(self) -> dict[str, object]:
        """Return the numbers of notifications."""
        return {"targets": len(self._targets), "sent": self.sent, "refused": self.refused}
