"""Many nodes fail at once: owners, their copies and messages under way are lost with them.

A channel's subscriptions, level and factors are known to its primary owner and to the next owners, which hold
copies. Until the others notice the failure nobody speaks for a channel whose primary owner has failed: living
pollers hold what they see. Then the closest living owner takes over with its copy. Where all owners have
failed nothing is known any more: a client has to renew its subscription, which each does once per `renew_us`
at a moment of its own, and the new owner begins with the first renewal, without an old version to compare
with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock_lab.sim.corona.polls import NEVER_US, detected_us, unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.core.cluster.ring import Ring
    from penstock_lab.sim.corona.polls import Epoch
    from penstock_lab.sim.corona.setting import CoronaSetting
    from penstock_lab.sim.corona.workload import Floats, Ints, Workload


@dataclass(frozen=True, slots=True)
class Failure:
    """Nodes that fail at once, and what happens to each channel."""

    at_us: int
    noticed_us: int
    """When the other nodes know, and new owners speak for the channels."""
    renew_us: int
    gone: tuple[int, ...]
    """Identifiers of the nodes."""
    ownerless: NDArray[np.bool_] = field(repr=False)
    """Channels whose primary owner has failed."""
    lost: NDArray[np.bool_] = field(repr=False)
    """Channels of which every owner has failed."""
    luck: Floats = field(repr=False)
    """Between 0 and 1 for each channel: how soon the first of its subscribers happens to renew."""

    def known(self, asked: Ints, channel: Ints, at_us: Ints | int) -> Ints:
        """Return how many of `asked` subscriptions of channels are known to an owner at a time."""
        since = np.asarray(at_us) - self.at_us
        renewed = np.floor(since / self.renew_us * asked + self.luck[channel]).astype(np.int64)
        renewed = np.where(since < self.noticed_us - self.at_us, 0, np.clip(renewed, 0, asked))
        return np.where(self.lost[channel] & (since >= 0), renewed, asked)

    def begins_us(self, asked: Ints, channel: Ints) -> Ints:
        """Return when the first subscriber of channels that are lost has renewed."""
        first = self.renew_us * (1 - self.luck[channel]) / np.maximum(asked, 1)
        return np.maximum(self.at_us + np.ceil(first).astype(np.int64), self.noticed_us)


def fail(ring: Ring, workload: Workload, setting: CoronaSetting, seed: int) -> Failure | None:
    """Draw the nodes that fail, and find out which channels they leave without an owner, or without any."""
    if setting.fail_us is None:
        return None
    dice = np.random.default_rng((seed, 3))
    places = dice.choice(len(ring), round(len(ring) * setting.fail_share), replace=False)
    failed = np.zeros(len(ring), bool)
    failed[places] = True
    ownerless = failed[ring.primaries(workload.ids)]
    lost = np.zeros(len(workload), bool)
    for channel in np.flatnonzero(ownerless).tolist():
        owners = ring.owners(workload.ids[channel], further=setting.further)
        lost[channel] = failed[list(owners)].all()
    return Failure(
        at_us=setting.fail_us,
        noticed_us=setting.fail_us + setting.notice_us,
        renew_us=setting.renew_us,
        gone=tuple(ring.ids[place] for place in sorted(places.tolist())),
        ownerless=ownerless,
        lost=lost,
        luck=unit(~workload.tops),
    )


def told_us(
    epochs: Sequence[Epoch],
    channel: Ints,
    at_us: Ints,
    *,
    message_us: int,
    failure: Failure | None,
    asked: Ints,
) -> Ints:
    """Return when the owner of each channel learns of a change and tells subscribers, or NEVER_US.

    `asked` are the subscribers of each change's channel.
    """
    polled = detected_us(epochs, channel, at_us)
    told = _arrival_us(epochs, channel, polled, message_us)
    if failure is None:
        return told
    # The message is lost with the owner, and its sender may be too: the change is left to the next poll.
    broken = np.flatnonzero(
        failure.ownerless[channel] & (polled < failure.at_us) & (told >= failure.at_us) & (told < NEVER_US)
    )
    polled[broken] = detected_us(epochs, channel[broken], np.full(len(broken), failure.at_us))
    told[broken] = _arrival_us(epochs, channel[broken], polled[broken], message_us)
    held = failure.ownerless[channel] & (told >= failure.at_us) & (told < failure.noticed_us)
    told[held] += failure.noticed_us - polled[held]
    new = np.flatnonzero(failure.lost[channel] & (told >= failure.at_us))
    first = detected_us(epochs, channel[new], failure.begins_us(asked[new], channel[new]))
    told[new[at_us[new] < first]] = NEVER_US
    return told


def _arrival_us(epochs: Sequence[Epoch], channel: Ints, polled: Ints, message_us: int) -> Ints:
    """Return when what pollers have seen reaches the owners."""
    arrived = polled.copy()
    if not message_us:
        return arrived
    epoch_of = np.searchsorted([epoch.from_us for epoch in epochs], polled, side="right") - 1
    for number, epoch in enumerate(epochs):
        here = np.flatnonzero((epoch_of == number) & (polled < NEVER_US))
        arrived[here] += message_us * epoch.schedule.hops(channel[here])
    return arrived
