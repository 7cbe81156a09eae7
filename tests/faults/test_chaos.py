"""Everything at once, at random, on every engine: whatever breaks, the histories keep the rules.

`TENURE_FAULT_SECONDS` is how long each engine is tormented, `TENURE_FAULT_SEED` which plan it is. Two promises
differ. An engine that keeps what it acknowledged gives all of them, through crashes too. One that forgets (Redis
without persistence) cannot exclude, since a lease may vanish while its holder believes in it; but fences go on
growing, as they rest on the server's clock, and what checks them stays whole. There the guarded rows are in a
second engine which is left alone: a resource that forgets its fence protects nothing.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from .chaos import Report, run
from .engine import durable, forgetful

SECONDS = {"redis70": 10, "redis86": 10, "valkey91": 10, "dynamodb": 16, "bounded": 10}


# A run that hangs must end as a failure, whatever length it was given.
pytestmark = pytest.mark.timeout(120 + 2 * float(os.environ.get("TENURE_FAULT_SECONDS") or 0))


def seconds(kind: str) -> float:
    return float(os.environ.get("TENURE_FAULT_SECONDS") or SECONDS[kind])


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("TENURE_FAULT_SEED") or random.SystemRandom().randrange(10**6))
    print(f"TENURE_FAULT_SEED={chosen}")
    return chosen


def assert_sound(report: Report) -> None:
    print(report)
    told = "\n".join(str(violation) for violation in report.violations[:5])
    assert not report.violations, f"{len(report.violations)} violations, {report}\n{told}"


def assert_something_happened(report: Report) -> None:
    """A run in which nothing broke proves nothing."""
    counts = report.counts
    needed = ["takeovers", "released", "accepted", "kills", "long stops", "short stops", "engine crashes"]
    # Replies were lost, and acquires came to a grant in spite of what befell them.
    needed += ["partitions", "lost replies", "mended"]
    missing = [what for what in needed if not counts[what]]
    assert not missing, f"no {', '.join(missing)}: {report}"


@pytest.mark.parametrize("kind", SECONDS)
def test_whatever_breaks_the_rules_are_kept(kind: str, seed: int, tmp_path: Path) -> None:
    report = run(durable(kind), tmp_path, seconds(kind), seed)
    assert_sound(report)
    assert_something_happened(report)


def test_where_the_store_forgets_fences_still_grow_and_protect(seed: int, tmp_path: Path) -> None:
    report = run(forgetful("redis86"), tmp_path, seconds("redis86"), seed, excludes=False)
    assert_sound(report)
    assert_something_happened(report)
