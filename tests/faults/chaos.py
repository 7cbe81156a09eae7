"""A run: workers contend and work, and at random moments something breaks.

    python -m faults.chaos redis86 --seconds 300 --seed 7      (with `tests/` on PYTHONPATH)

What is random comes from the seed; when it happens depends on the machine too, so a seed repeats the plan of a
run, not the run. Faults come as cards of a shuffled deck, so that none is missing from a run that is long
enough to deal all. A long run is made of rounds with new names each, since the rows are read and written whole.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from engines.proxy import (
    Action,
    Fault,
    answer,
    answer_http,
    delay,
    delay_reply,
    drop_reply,
    drop_request,
    duplicate,
    hang,
)

from .clients import TIMEOUT
from .clocks import Skew, true_us
from .engine import Engine, durable, forgetful
from .fleet import Fleet, Process
from .history import Bounds, History, Row, Violation, violations
from .worker import record_of

TTL = 1.2
WORKERS = 5
NAMES = 3
ROUND_SECONDS = 30.0
RATE_ERROR_PPM = 9_000
"""What clocks are wrong by: a little less than the declared one per cent, of which their readings take a part."""

LONGEST_DELAY = 1.0
SLACK = 1.5
"""For a machine that does something else just then. No rule of safety has any."""


def takeover_bound(engine: Engine) -> float:
    """By design P6: a ttl, both margins, and a poll before the first sight as well as at the end."""
    margins = 2 * (TTL * 2 * 0.01 + 0.002)
    polls = 2 * TTL / 10
    return TTL + margins + engine.max_clock_skew + polls + SLACK


def healing_bound(engine: Engine) -> float:
    """What was on its way when the faults ended may still renew a dead holder's lease, or hang for its client."""
    return LONGEST_DELAY + TIMEOUT + takeover_bound(engine)


@dataclass
class Report:
    """What a run was: its figures, and whether it kept the rules."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def __add__(self, other: Report) -> Report:
        counts = self.counts.copy()
        counts.update(other.counts)
        return Report(self.seed, counts, self.violations + other.violations)

    def __str__(self) -> str:
        figures = ", ".join(f"{what} {count}" for what, count in sorted(self.counts.items()))
        return f"seed {self.seed}: {figures}, violations {len(self.violations)}"


class Run:
    """One round: one fleet on names of its own."""

    def __init__(self, engine: Engine, folder: Path, names: list[str], seed: int, seconds: float) -> None:
        self._engine = engine
        self._choose = random.Random(seed)
        self._seconds = seconds
        self._fleet = Fleet(engine, folder, names, TTL, seed)
        self._ends_us = true_us() + int(seconds * 1e6)
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = itertools.count()
        self._engine_is_well = True
        self.counts: Counter[str] = Counter()

    def play(self, excludes: bool) -> Report:
        looking = threading.Event()
        looker = threading.Thread(target=self._look, args=[looking], name="looker")
        with self._fleet as fleet:
            try:
                for number in range(WORKERS):
                    self._start(number)
                for name in fleet.names:
                    fleet.wait_for("granted", name=name)
                looker.start()
                self._break_things()
                self._heal()
                time.sleep(healing_bound(self._engine) + 0.5)
                fleet.note("ended")
                fleet.end()
            finally:
                looking.set()
                if looker.ident is not None:
                    looker.join()
            history, rows = fleet.read()
            self._count(history, rows)
        bound = healing_bound(self._engine)
        bounds = Bounds(int(bound * 1e6), int((LONGEST_DELAY + 2 * TTL) * 1e6))
        found = violations(history, rows, fleet.names, bounds, excludes)
        return Report(0, self.counts, found)

    # --- workers ---

    def _start(self, number: int) -> None:
        choose = self._choose
        self._fleet.start(
            # Some have the true clocks; of the others no two agree on anything.
            skew=self._skew() if number % 4 else Skew(),
            retries=number % 3 == 2,
            careless=0.5 if number % 2 else 0.0,
            hold=choose.choice([0.3, 1.5, 5.0]),
            # Somebody who only holds is not ended by a write of unknown outcome, but by its lease alone.
            idle=number % 5 == 3,
        )

    def _skew(self) -> Skew:
        choose = self._choose
        rate_ppm = choose.choice([-1, 1]) * RATE_ERROR_PPM
        mono_us = choose.randrange(10**12)
        if self._engine.kind == "bounded":
            # They promise to agree on the Unix time; two that differ the most are at its bound.
            most_us = int(self._engine.max_clock_skew * 1e6 / 2)
            # The rate makes a difference too, which the bound must cover for the length of a round.
            rate_ppm = rate_ppm // 10
            drift_us = int((self._seconds + 20) * rate_ppm)
            return Skew(rate_ppm, mono_us, choose.choice([-1, 1]) * most_us - drift_us)
        return Skew(rate_ppm, mono_us, choose.randint(-5, 5) * 3600 * 10**6, self._ends_us)

    def _look(self, enough: threading.Event) -> None:
        """Notes what stands in the store, as somebody who has no part in it."""
        store = self._engine.store()
        while not enough.wait(0.1):
            for name in self._fleet.names:
                at_us = true_us()
                try:
                    status = store.status(name)
                except Exception:
                    # It is down just now, as it should be sometimes.
                    continue
                if status.held:
                    record = str(status.fence) if status.raw is None or status.fence else record_of(status.raw)
                    self._fleet.note("seen", at_us, name=name, record=record)
        store.close()

    # --- faults ---

    def _break_things(self) -> None:
        # What a run must have, however short it is or slow the machine; the rest by chance.
        deck = [self._stop_briefly, self._stop_for_long, self._kill, self._crash_engine, self._partition]
        self._choose.shuffle(deck)
        deck.append(self._lose_replies)
        while true_us() < self._ends_us:
            if not deck:
                deck = self._deck()
                self._choose.shuffle(deck)
            deck.pop()()
            self._wait(self._choose.uniform(0.05, 0.5))

    def _wait(self, seconds: float) -> None:
        """Meanwhile, what was put off is done."""
        until = time.monotonic() + seconds
        while self._later and self._later[0][0] <= until:
            at, _, work = heapq.heappop(self._later)
            time.sleep(max(0.0, at - time.monotonic()))
            work()
        time.sleep(max(0.0, until - time.monotonic()))

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._ties), work))

    def _heal(self) -> None:
        """From now on nothing is broken any more, but for what is on its way."""
        while self._later:
            heapq.heappop(self._later)[2]()
        for process in self._fleet.processes:
            process.proxy.disarm()
            process.proxy.up()
        self._fleet.note("healed")

    def _deck(self) -> list[Callable[[], None]]:
        short = [self._stop_briefly] * 3
        long = [self._stop_for_long] * 4
        kills = [self._kill] * 4
        networks = [self._spoiler(action) for action in self._actions()] + [self._partition] * 2
        return [*short, *long, *kills, *networks, *self._engine_faults()]

    def _engine_faults(self) -> list[Callable[[], None]]:
        return [self._crash_engine, self._crash_engine, self._pause_engine]

    def _actions(self) -> list[Action]:
        choose = self._choose
        lossy = [drop_request, drop_reply, drop_reply, drop_reply, duplicate, hang]
        late = [delay(choose.uniform(0.05, LONGEST_DELAY)) for _ in range(2)]
        late += [delay_reply(choose.uniform(0.05, LONGEST_DELAY)) for _ in range(2)]
        if self._engine.protocol == "redis":
            words = ["OOM no room", "LOADING not yet", "READONLY a replica", "BUSY with a script"]
            return [*lossy, *late, *(answer(f"-{word}\r\n".encode()) for word in words)]
        codes = [("ProvisionedThroughputExceededException", 400), ("TransactionConflictException", 400)]
        codes += [("ThrottlingException", 400), ("InternalServerError", 500), ("ServiceUnavailable", 503)]
        kind = "com.amazonaws.dynamodb.v20120810#"
        return [*lossy, *late, *(answer_http(status, {"__type": kind + code}) for code, status in codes)]

    def _somebody(self) -> Process:
        """Mostly a worker that holds something: there a fault does the most."""
        awake = [process for process in self._fleet.processes if not process.stopped]
        if self._choose.random() < 0.3:
            return self._choose.choice(awake)
        held: dict[str, str] = {}
        for line in self._fleet.lines("granted", "lost", "releasing"):
            held[line["name"]] = line["by"] if line["what"] == "granted" else ""
        holders = [process for process in awake if process.by in held.values()]
        return self._choose.choice(holders or awake)

    def _spoiler(self, action: Action) -> Callable[[], None]:
        def spoil() -> None:
            process = self._somebody()
            # Its holder id is in every write of a lease, and its name between spaces in every guarded one.
            only = self._choose.choice([None, None, f":{process.popen.pid}:", f" {process.by} "])
            times = self._choose.choice([*range(1, 7), *[None] * 6])
            process.proxy.arm(Fault(action, contains=only, times=times))
            self._fleet.note("fault", worker=process.by, action=str(action), contains=only, times=times)
            if times is None:
                self._after(self._choose.uniform(0.1, 1.2 * TTL), process.proxy.disarm)

        return spoil

    def _lose_replies(self) -> None:
        """To all workers, so that some acquire is sure to go through it."""
        for process in self._fleet.processes:
            process.proxy.arm(Fault(drop_reply, contains=f":{process.popen.pid}:", times=3))
            self._fleet.note("fault", worker=process.by, action=str(drop_reply), times=3)

    def _partition(self) -> None:
        process = self._somebody()
        process.proxy.down()
        self._fleet.note("partition", worker=process.by)

        def mend() -> None:
            if process in self._fleet.processes:
                process.proxy.up()

        self._after(self._choose.uniform(0.1, 1.5 * TTL), mend)
        self.counts["partitions"] += 1

    def _stop_briefly(self) -> None:
        self._stop("short stops", self._choose.uniform(0.05, 0.5) * TTL)

    def _stop_for_long(self) -> None:
        self._stop("long stops", self._choose.uniform(1.2, 2.5) * TTL)

    def _stop(self, what: str, seconds: float) -> None:
        if sum(not process.stopped for process in self._fleet.processes) <= 2:
            return
        process = self._somebody()
        self._fleet.stop(process)
        self.counts[what] += 1

        def go_on() -> None:
            if process in self._fleet.processes:
                self._fleet.resume(process)

        self._after(seconds, go_on)

    def _kill(self) -> None:
        process = self._somebody()
        self._fleet.kill(process)
        number = self._choose.randrange(12)
        # Never nobody: somebody has to take over.
        self._after(self._choose.uniform(0, 0.5), lambda: self._start(number))
        self.counts["kills"] += 1
        if len(self._fleet.processes) < 2:
            self._wait(0.5)

    def _crash_engine(self) -> None:
        if not self._engine_is_well:
            return
        self._fleet.note("engine killed")
        self._engine.server.kill()
        self._engine_is_well = False
        self.counts["engine crashes"] += 1

        def restart() -> None:
            self._engine.server.restart()
            self._engine_is_well = True
            self._fleet.note("engine restarted")

        self._after(self._choose.uniform(0, 0.8 * TTL), restart)

    def _pause_engine(self) -> None:
        if not self._engine_is_well:
            return
        self._fleet.note("engine paused")
        self._engine.server.pause()
        self._engine_is_well = False
        self.counts["engine pauses"] += 1

        def resume() -> None:
            self._engine.server.resume()
            self._engine_is_well = True
            self._fleet.note("engine resumed")

        self._after(self._choose.uniform(0.1, 1.3 * TTL), resume)

    # --- figures ---

    def _count(self, history: History, rows: dict[str, Row]) -> None:
        counts = self.counts
        counts["events"] += len(history.lines)
        for what in ("acked", "refused", "unknown", "released", "unconfirmed", "lost"):
            counts[what] += len(history.of_kind(what))
        counts["accepted"] += sum(len(row.effects) for row in rows.values())
        for grants in history.grants.values():
            counts["grants"] += len(grants)
            counts["mended"] += sum(grant.line.mended for grant in grants)
            by_fence = sorted(grants, key=lambda grant: grant.line.fence)
            # The one before was not given back, as far as anybody can tell.
            counts["takeovers"] += sum(grant.released is None for grant in by_fence[:-1])
        processes = self._fleet.processes + self._fleet.past
        counts["workers"] += len(processes)
        for process in processes:
            for entry in process.proxy.log:
                if entry.outcome not in ("passed", "unanswered"):
                    counts["spoiled"] += 1
                if entry.outcome == "drop_reply":
                    counts["lost replies"] += 1
                    counts["survived"] += _outlived(history, process.by, int(entry.at * 1e6), self._clock_gap_us)

    @property
    def _clock_gap_us(self) -> int:
        """What the log of a proxy is behind the history, should this machine have slept."""
        return true_us() - int(time.monotonic() * 1e6)


def _outlived(history: History, by: str, lost_at_us: int, gap_us: int) -> bool:
    """Whether this worker kept a lease that it had when a reply was lost for so long that it must have renewed it
    since. (Where it was the reply to a guarded write, it gave the lease up.)"""
    at_us = lost_at_us + gap_us
    return any(
        grant.line.by == by and grant.line.at_us < at_us and grant.believed_until_us > at_us + TTL * 1e6
        for grant in history.all_grants()
    )


def run(
    opened: AbstractContextManager[Engine], folder: Path, seconds: float, seed: int, excludes: bool = True
) -> Report:
    """As many rounds as it takes; each is checked for itself."""
    total = Report(seed)
    with opened as engine:
        for number in itertools.count():
            left = seconds - number * ROUND_SECONDS
            if left <= 0:
                break
            within = folder / f"round-{number}"
            within.mkdir()
            names = [f"job-{number}-{letter}" for letter in "abcdefgh"[:NAMES]]
            total += Run(engine, within, names, seed + number, min(left, ROUND_SECONDS)).play(excludes)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description="Breaks things for a while, and says what became of it.")
    parser.add_argument("kind", help="redis70, redis86, valkey91, dynamodb, bounded; `forgetful-` before a Redis")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    kind = options.kind.removeprefix("forgetful-")
    forgets = kind != options.kind
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    report = run((forgetful if forgets else durable)(kind), folder, options.seconds, options.seed, not forgets)
    print(f"{options.kind}: {report}, {time.monotonic() - began:.0f} s; histories in {folder}")
    for violation in report.violations:
        print(violation)


if __name__ == "__main__":
    main()
