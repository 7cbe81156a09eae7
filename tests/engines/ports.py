"""Which port a test's server listens on."""

from __future__ import annotations

import random
import socket

# Below what the kernel hands to clients (from 32768). A port from that range can be taken by any client's
# connection while its server is down; worse, a client that retries such a port may get connected to itself.
_PORTS = range(15_000, 32_000)

# Not the global generator: a test may have seeded it, and two processes must not draw the same ports.
_random = random.SystemRandom()


def free_port() -> int:
    """A loopback port that nobody listens on, and that stays with its server while it is down."""
    while True:
        port = _random.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
