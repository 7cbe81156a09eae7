"""`tenure run`: one command under one lease."""

from __future__ import annotations

import argparse
import math
import os
import sys
from dataclasses import dataclass

import tenure

from . import clock, environment, exit_codes, failures, messages, stores
from .child import Child, cannot_execute, exists, fork_child
from .guard import Guard, fork_guard
from .report import Report, reporting
from .signals import Interrupted, Signals
from .stores import Place
from .supervise import Ending, Limits, Supervisor, lost_reason
from .terminal import Terminal

# How often a wait says that it still waits for the same holder.
_REMINDER = 30.0


@dataclass(frozen=True)
class Job:
    name: str
    command: list[str]
    wait: float
    min_hold: float
    limits: Limits
    busy_exit: int
    lost_exit: int


def run(options: argparse.Namespace, say: messages.Messages) -> int:
    job = Job(
        name=options.name,
        command=options.command,
        wait=options.wait,
        min_hold=options.min_hold,
        limits=Limits(options.ttl, options.grace, options.max_runtime),
        busy_exit=exit_codes.OK if options.skip_ok else options.busy_exit,
        lost_exit=options.lost_exit,
    )
    place = stores.chosen(options, say)
    report = Report(job.name)
    guarded = _Run(job, place, report, say)
    with reporting(options.report, report):
        report.exit_code = guarded.run()
    if guarded.abandoned:
        # The usual end of a process clears up, which includes releasing.
        sys.stdout.flush()
        os._exit(report.exit_code)
    return report.exit_code


class _Run:
    def __init__(self, job: Job, place: Place, report: Report, say: messages.Messages) -> None:
        self.abandoned = False
        """The command has started and nobody has seen it dead: its lease must not be released."""
        self._job = job
        self._place = place
        self._report = report
        self._say = say

    def run(self) -> int:
        """Every ending has a name and a code; none is a traceback."""
        try:
            return self._with_processes()
        except Interrupted as interrupted:
            self._report.outcome = "interrupted"
            return exit_codes.SIGNAL + interrupted.number
        except tenure.Busy as busy:
            self._report.outcome, self._report.holder, self._report.fence = "busy", busy.holder, busy.fence
            self._say.note(messages.busy(busy))
            return self._job.busy_exit
        except tenure.TenureError as error:
            failure = failures.explain(error, self._say.store)
            self._report.outcome = failure.outcome
            self._say.error(failure.text)
            return failure.code
        except Exception as error:
            self._say.error(f"internal error: {type(error).__name__}: {error}")
            return exit_codes.INTERNAL

    def _with_processes(self) -> int:
        job = self._job
        if environment.is_held_above(os.environ, self._place.url, job.name):
            why = f"{job.name} is held for the command that runs this, which would wait for itself"
            raise tenure.ConfigError("name", why)
        # Better said now than after a wait for the lease.
        if not exists(job.command[0]):
            return self._not_started(exit_codes.NOT_FOUND, "not found")
        # Both before the store, which may start threads.
        guard = fork_guard()
        child = fork_child(job.command, close=[guard.pipe])
        try:
            with Signals() as signals:
                return self._with_store(child, guard, signals)
        finally:
            if not child.started:
                child.dismiss()
            if self.abandoned:
                # Once more; and the guard does it again when our end closes its pipe.
                child.kill()
            else:
                guard.stand_down()

    def _with_store(self, child: Child, guard: Guard, signals: Signals) -> int:
        job, began = self._job, clock.now()
        waiting = _Waiting(job.name, self._say)

        def hears_of_loss(*_: object) -> None:
            signals.wake()

        store = self._place.open(job.limits.ttl)
        try:
            try:
                lease = store.acquire(
                    job.name,
                    _duration(job.limits.ttl),
                    wait=_duration(job.wait),
                    min_hold=job.min_hold,
                    on_lost=hears_of_loss,
                    on_waiting=waiting.hears,
                )
            finally:
                self._report.waited_ms = _milliseconds(clock.now() - began)
            return self._with_lease(lease, child, guard, signals)
        finally:
            if not self.abandoned:
                store.close()

    def _with_lease(self, lease: tenure.Lease, child: Child, guard: Guard, signals: Signals) -> int:
        job, began = self._job, clock.now()
        self._report.holder, self._report.fence = lease.holder, lease.fence
        try:
            signals.forward()
            if lease.remaining() <= job.limits.grace + job.limits.safety:
                # Its reply was too long on the way: nothing has started, so nothing has to be stopped.
                self._say.error(f"{job.name}: lost before the command could start")
                return self._lost(lease)
            terminal = Terminal()
            supervisor = Supervisor(child, lease, job.limits, signals, guard, terminal, self._say)
            terminal.give_at_start(child.group)
            # Until it is seen dead, whatever stops us from seeing it.
            self.abandoned = True
            try:
                env = environment.for_command(os.environ, lease, job.limits.ttl, self._place.url)
                ending = supervisor.run(env)
            finally:
                terminal.take_back(child.group)
            self.abandoned = not ending.dead
            return self._ended(ending, lease, child)
        finally:
            # Without the release, which a store that is gone may take long to not confirm.
            self._report.held_ms = _milliseconds(clock.now() - began)
            if not self.abandoned:
                self._release(lease)

    def _ended(self, ending: Ending, lease: tenure.Lease, child: Child) -> int:
        self._report.child_status = child.status
        if not ending.dead:
            end = messages.seconds(lease.remaining())
            self._say.error(f"{self._job.name}: the command could not be stopped; not released, ends in {end}")
        if ending.cause == "lost":
            return self._lost(lease)
        if ending.cause == "max_runtime":
            self._report.outcome = "max_runtime"
            return exit_codes.MAX_RUNTIME
        if child.exec_error is not None:
            self._report.child_status = None
            return self._not_started(cannot_execute(child.exec_error), str(child.exec_error.strerror))
        if child.status is None:
            return exit_codes.INTERNAL
        if child.status < 0:
            self._report.outcome = "signaled"
            return exit_codes.SIGNAL - child.status
        self._report.outcome = "exited"
        return child.status

    def _lost(self, lease: tenure.Lease) -> int:
        self._report.outcome, self._report.lost_reason = "lost", lost_reason(lease)
        return self._job.lost_exit

    def _not_started(self, code: int, why: str) -> int:
        self._report.outcome = "not_started"
        self._say.error(f"{self._job.command[0]}: {why}")
        return code

    def _release(self, lease: tenure.Lease) -> None:
        if lease.lost.is_set():
            return
        end = clock.now() + lease.remaining()
        try:
            lease.release()
        except tenure.TenureError as error:
            if self._report.outcome != "lost":
                left, why = messages.seconds(end - clock.now()), failures.explain(error, self._say.store).text
                self._say.error(f"{lease.name}: the release is not confirmed, it ends in {left} at the latest: {why}")
            return
        # A release that took until the end of the lease was ended by that, not by the store.
        self._report.released = clock.now() < end


class _Waiting:
    """Says whom we wait for, once and then now and again."""

    def __init__(self, name: str, say: messages.Messages) -> None:
        self._name = name
        self._say = say
        self._holder: str | None = None
        self._said_at = -math.inf

    def hears(self, holder: str | None, retry_after: float | None) -> None:
        if holder == self._holder and clock.now() - self._said_at < _REMINDER:
            return
        self._holder, self._said_at = holder, clock.now()
        self._say.note(messages.waiting(self._name, holder, retry_after))


def _duration(seconds: float) -> float | str:
    return "forever" if math.isinf(seconds) else seconds


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
