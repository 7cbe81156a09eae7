"""The clocks of this machine, and whose they are. The only place that reads them."""

from __future__ import annotations

import hashlib
import os
import socket
import time

#: What the core takes with every input: monotonic and Unix clock in microseconds, random bytes.
Reading = tuple[int, int, bytes]

# A suspended machine's time must count, which CLOCK_MONOTONIC leaves out on Linux.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def mono_us() -> int:
    """Microseconds of the monotonic clock."""
    return time.clock_gettime_ns(_CLOCK) // 1000


def wall_us() -> int:
    """Microseconds of the Unix clock."""
    return time.time_ns() // 1000


def clocks() -> tuple[int, int]:
    """Both clocks at one instant: where this thread had to wait between the two, they are read again,
    since what lies between would be counted as the one clock running ahead of the other."""
    tries = 8
    while True:
        mono = mono_us()
        wall = wall_us()
        tries -= 1
        if tries == 0 or mono_us() - mono < 1000:
            return mono, wall


def reading() -> Reading:
    """Everything that only the host can read."""
    return (*clocks(), os.urandom(16))


def boot_us() -> int:
    """The monotonic clock as every process of this machine has it, whatever its namespace."""
    return mono_us() - _namespace_offset_us()


def machine() -> str | None:
    """32 hexadecimal digits for this machine, if it has an identity."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        text = _read(path)
        if text:
            return _digest(text)
    return None


def boot() -> str | None:
    """32 hexadecimal digits for this start of the machine, if that can be told."""
    text = _read("/proc/sys/kernel/random/boot_id")
    return _digest(text) if text else None


def clock_id() -> int | None:
    """Whose readings `mono_us` gives: the same for every process that shares the clock."""
    booted = boot()
    if booted is None:
        return None
    return int(_digest(f"{machine()} {booted} {_CLOCK} {_namespace_offset_us()}"), 16)


def new_holder() -> str:
    """Who holds: readable, and unique for each start of a process."""
    host = "".join(c for c in socket.gethostname() if c.isascii() and c.isprintable() and c != " ")
    return f"{host[:60] or 'host'}:{os.getpid()}:{os.urandom(6).hex()}"


def _namespace_offset_us() -> int:
    for line in (_read("/proc/self/timens_offsets") or "").splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[0] == "boottime":
            return int(parts[1]) * 1_000_000 + int(parts[2]) // 1000
    return 0


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
