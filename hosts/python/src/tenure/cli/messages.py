"""What `tenure` says on stderr: one line each, what and who."""

from __future__ import annotations

import math
import sys

import tenure


class Messages:
    """A guarded command that goes well leaves no word: cron mails whatever is printed."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self.store = "store"
        """The one in use, as it may be shown."""
        self._secrets: list[str] = []

    def hide(self, secrets: list[str]) -> None:
        # Longest first: one secret may be a part of another.
        self._secrets = sorted({*self._secrets, *secrets}, key=len, reverse=True)

    def note(self, text: str) -> None:
        """What may be of interest; `-q` silences it."""
        if not self._quiet:
            self.error(text)

    def error(self, text: str) -> None:
        try:
            print(f"tenure: {self.clean(text)}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            # Nobody reads it, which must not change what is done.
            pass

    def clean(self, text: str) -> str:
        """On one line and without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split())


def somebody(holder: str | None, fence: int | None) -> str:
    return (holder or "somebody") + (f" (fence {fence})" if fence is not None else "")


def seconds(value: float) -> str:
    if math.isinf(value):
        return "for ever"
    if value < 100:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def busy(error: tenure.Busy) -> str:
    who = somebody(error.holder, error.fence)
    soon = "" if error.retry_after is None else f" {seconds(error.retry_after)}"
    if error.because == "resting":
        return f"{error.name} rests after its last holder" + (f", for{soon}" if soon else "")
    if error.because == "unjudgeable":
        again = f", try again in{soon}" if soon else ""
        return f"{error.name} has a record of {who} that cannot be judged yet{again}"
    return f"{error.name} is held by {who}" + (f", ends in{soon} unless renewed" if soon else "")


def waiting(name: str, holder: str | None, retry_after: float | None) -> str:
    limit = "" if retry_after is None else f", at most {seconds(retry_after)} unless it renews"
    return f"waiting for {name}, which {holder or 'somebody'} holds{limit}"


def status(found: tenure.Status) -> str:
    """The state of one name in words, without the name."""
    if found.foreign:
        by = f" by {found.holder!r}" if found.holder else ""
        return f"held{by}, in a record that was not written by tenure" + _end(found)
    if found.resting:
        soon = "" if found.expires_in is None else f" for {seconds(found.expires_in)}"
        return f"resting after its last holder{soon}"
    if not found.held:
        return "free" + (f", last fence {found.fence}" if found.fence is not None else "")
    return f"held by {somebody(found.holder, found.fence)}" + _end(found)


def _end(found: tenure.Status) -> str:
    if found.expires_in is not None:
        return f", ends in {seconds(max(0.0, found.expires_in))} unless renewed"
    if found.ttl is None or math.isinf(found.ttl):
        return ""
    return f", ends {seconds(found.ttl)} after its last renewal"
