"""What the exit status of `tenure` says.

Numbers of `sysexits.h`, `timeout(1)` and the shell where they have one, so that scripts that know those know these.
A command of the user may exit with the same numbers: `--report` tells the two apart.
"""

from __future__ import annotations

OK = 0
DIFFERENT = 1
"""`tenure trace show`: replaying the trace gives something else than was recorded."""
FREE = 3
"""`tenure status`: nobody holds it. As `systemctl is-active` says that a unit is not."""
USAGE = 64
UNREACHABLE = 69
"""The store did not answer, or what became of our request is unknown."""
BUSY = 75
CONFIG = 78
LOST = 123
"""The lease was lost, and the command stopped."""
MAX_RUNTIME = 124
INTERNAL = 125
CANNOT_EXECUTE = 126
NOT_FOUND = 127
SIGNAL = 128
"""Plus the number of the signal that ended the command, or us before there was one."""
