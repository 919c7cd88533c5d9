"""Limits of the client."""

from __future__ import annotations

from typing import Final

CLIENT_WRITE_BYTES: Final = 1 << 16
"""Bytes in a client's transport before messages queue in the client's own buffer, where a policy can act."""

CLIENT_UNCLAIMED: Final = 1_000
"""Messages of a resumed session kept until the program subscribes again."""

CLIENT_KEEP_S: Final = 60
"""How long a node keeps a client's session by default: a change of network, not a night."""

CLIENT_CLOSE_S: Final = 10
"""How long a closing client waits until everything is sent and acknowledged."""

RECONNECT_LEAST_S: Final = 0.5
"""First pause before connecting again; it doubles with each failure."""

RECONNECT_MOST_S: Final = 30
"""Longest pause before connecting again: a thousand clients then ask a node 33 times a second."""
