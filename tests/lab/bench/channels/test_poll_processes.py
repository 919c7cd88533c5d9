"""The benchmark of the poller, small: both contestants poll what was planned."""

from __future__ import annotations

import pytest

from penstock_lab.bench.channels.poll_processes import OurPoller, PlainLoop, PollerFigures, PollerServer
from penstock_lab.rigs.worker import Worker


@pytest.mark.e2e
def test_both_poll_what_was_planned() -> None:
    with Worker("server", PollerServer) as server:
        server.ask("port")
        port = server.answer()
        for part in (OurPoller, PlainLoop):
            with Worker(part.__name__, part, port, 200, 1.5) as worker:
                worker.ask((1.0, 1.5))
                found: PollerFigures = worker.answer()
            assert 50 <= found.polls <= 300
            assert found.errors == 0
            server.ask("bins")
            assert sum(server.answer().values()) >= found.polls
