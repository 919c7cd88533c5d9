"""Update intervals as owners estimate them: from the polls since the start, by the estimator of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.channels.change_rate import rate_per_s
from penstock.model.instant import SECOND_US
from penstock_lab.sim.corona.polls import NEVER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock_lab.sim.corona.polls import Epoch
    from penstock_lab.sim.corona.workload import Floats, Ints


class Estimates:
    """Polls of all channels so far, and which of them found a change."""

    def __init__(self, channels: int, channel: Ints, at_us: Ints, *, tau_us: int) -> None:
        self._channel = channel
        self._at_us = at_us
        self._seen = np.zeros(len(at_us), bool)
        self._tau_us = tau_us
        self._channels = channels
        self._spans: list[tuple[Floats, Floats, Ints]] = []
        """Of each span of time: interval between polls, polls, and polls that found a change."""

    def watch(self, epoch: Epoch, until_us: int) -> None:
        """Add the polls of a schedule until a time; they are taken to be evenly spread."""
        gap_us = self._tau_us / epoch.schedule.per_tau()
        open_ = np.flatnonzero(~self._seen & (self._at_us < until_us))
        polled = epoch.schedule.next_poll_us(
            self._channel[open_], np.maximum(self._at_us[open_], epoch.from_us)
        )
        inside = polled < min(until_us, NEVER_US)
        self._seen[open_[inside]] = True
        polls = np.unique(np.stack((self._channel[open_[inside]], polled[inside])), axis=1)
        changed = np.bincount(polls[0], minlength=self._channels)
        made = np.maximum((until_us - epoch.from_us) / gap_us, changed)
        self._spans.append((gap_us, made, changed))

    def forget(self, channels: NDArray[np.bool_]) -> None:
        """Forget all polls of channels whose owners are gone."""
        for _, polls, changed in self._spans:
            polls[channels] = 0
            changed[channels] = 0

    def update_interval_us(self) -> Floats:
        """Return the estimate for each channel; τ for one that was never polled."""
        found = np.full(self._channels, float(self._tau_us))
        if not self._spans:
            return found
        gaps, polls, changed = (np.stack(parts) for parts in zip(*self._spans, strict=True))
        total = polls.sum(axis=0)
        spent = (gaps * polls).sum(axis=0)
        quiet = (gaps * (polls - changed)).sum(axis=0)
        for channel in np.flatnonzero(total > 0).tolist():
            bins = [
                (float(count), float(count * gap))
                for count, gap in zip(changed[:, channel], gaps[:, channel], strict=True)
                if count
            ]
            mean_us = spent[channel] / total[channel]
            found[channel] = SECOND_US / rate_per_s(bins, unchanged_us=quiet[channel], mean_us=mean_us)
        return found
