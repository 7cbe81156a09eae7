"""What every process of a run saw, and the rules that it must keep.

A history is one file of JSON lines. All processes append to it, each line in one write, with the time of this
machine's one boot clock, whatever clock the lease of that process was given. A line is written by a worker
about itself, so that nothing is taken from the library but what it told its user.

    asked       before an acquire
    granted     it returned: `fence`, `until` (0 if it was over at once), `record`, `clean`, `mended`
    held        a check said so: `until`
    stepped     the wall clock of this process is about to jump, which may end leases early
    lost        a check said so: `reason`
    releasing   before a release; from here on nothing is believed
    released    it was confirmed
    unconfirmed it was not
    acting      before a guarded write: `element`
    acked, refused, unknown  how it ended
    seen        what stood in the store when it was read after this moment: `record`
    healed      no fault from here on
    ended       nobody was told to stop before this

`until` is a proof, not a wish: the true time to which the lease would go on saying that it is held if it were
asked, by what it said at the line's own time.

Every rule is one pass over what was sorted once. Rules 3, 6 and 7 need the bound on clock rates, and so does
rule 2 where it takes the order of grants from their replies. The others need no clock.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Line:
    """One line of a history."""

    number: int
    at_us: int
    by: str
    """The incarnation of a worker: one start of its process."""
    what: str
    name: str = ""
    fence: int = 0
    until_us: int = 0
    element: str = ""
    record: str = ""
    clean: bool = True
    """Of a grant: no request of its acquire can be still on its way."""
    mended: bool = False
    """Of a grant: a request of its acquire failed, or went unanswered, and yet it came to a grant."""
    reason: str = ""

    def __str__(self) -> str:
        told = f"line {self.number} at {self.at_us} us: {self.by} {self.what} {self.name}"
        shown = {"fence": self.fence, "until": self.until_us, "element": self.element, "record": self.record}
        return " ".join([told, *(f"{key}={value}" for key, value in shown.items() if value)])


@dataclass(frozen=True)
class Effect:
    """A guarded write that the resource accepted."""

    name: str
    fence: int
    by: str
    element: str


@dataclass(frozen=True)
class Row:
    """A guarded row as it stands after the run."""

    elements: frozenset[str]
    effects: tuple[Effect, ...]
    """In the order in which the resource accepted them."""


@dataclass(frozen=True)
class Violation:
    """A rule that was broken, and the two lines that break it."""

    rule: int
    why: str
    first: Line
    second: Line

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.why}\n  {self.first}\n  {self.second}"


@dataclass
class Grant:
    """All that one acquisition left in the history, and for how long its holder surely believed in it."""

    line: Line
    believed_until_us: int
    proven_us: int
    lost: Line | None = None
    releasing: Line | None = None
    released: Line | None = None
    too_early: bool = False
    """The loss was heard before the deadline."""

    @property
    def believed(self) -> bool:
        """Whether its holder ever had it; an acquire may return so late that it is over."""
        return self.line.at_us < self.believed_until_us

    @property
    def over(self) -> bool:
        return self.lost is not None or self.releasing is not None


@dataclass
class History:
    """Lines in the order of their times, and what follows from them."""

    lines: list[Line]
    grants: dict[str, list[Grant]] = field(default_factory=dict)
    """Of each name, in the order of their lines."""
    granted: dict[tuple[str, str, int], Grant] = field(default_factory=dict)
    """By worker, name and fence."""
    acting: dict[str, Line] = field(default_factory=dict)
    """By element."""

    def __post_init__(self) -> None:
        self.lines.sort(key=lambda line: (line.at_us, line.number))
        latest: dict[str, dict[str, Grant]] = {}
        for line in self.lines:
            if line.what == "granted":
                grant = Grant(line, line.until_us, line.at_us)
                self.grants.setdefault(line.name, []).append(grant)
                self.granted[line.by, line.name, line.fence] = grant
                latest.setdefault(line.by, {})[line.name] = grant
            elif line.what == "stepped":
                for grant in latest.get(line.by, {}).values():
                    if not grant.over:
                        grant.believed_until_us = min(grant.believed_until_us, line.at_us)
            elif line.what == "acting":
                self.acting[line.element] = line
            elif (of_line := self.granted.get((line.by, line.name, line.fence))) is not None:
                _follow(of_line, line)

    @classmethod
    def of(cls, texts: Iterable[str]) -> History:
        return cls([_line(number, json.loads(text)) for number, text in enumerate(texts, 1)])

    @classmethod
    def read(cls, path: Path) -> History:
        with path.open() as file:
            return cls.of(file)

    def all_grants(self) -> Iterator[Grant]:
        for grants in self.grants.values():
            yield from grants

    def of_kind(self, what: str) -> list[Line]:
        return [line for line in self.lines if line.what == what]


def _line(number: int, fields: dict[str, Any]) -> Line:
    return Line(
        number,
        fields["at"],
        fields["by"],
        fields["what"],
        fields.get("name", ""),
        fields.get("fence") or 0,
        fields.get("until", 0),
        fields.get("element", ""),
        fields.get("record", ""),
        fields.get("clean", True),
        fields.get("mended", False),
        fields.get("reason", ""),
    )


def _follow(grant: Grant, line: Line) -> None:
    """What a later line of the same acquisition says about it."""
    if line.what == "released":
        grant.released = line
    elif grant.over:
        return
    elif line.what == "held":
        # It was held all the while, since what has ended never comes back.
        grant.believed_until_us = max(grant.believed_until_us, line.until_us)
        grant.proven_us = line.at_us
    elif line.what == "lost":
        grant.lost = line
        if line.at_us < grant.believed_until_us:
            # At some moment after the last proof.
            grant.too_early = True
            grant.believed_until_us = grant.proven_us
    elif line.what == "releasing":
        grant.releasing = line
        grant.believed_until_us = min(grant.believed_until_us, line.at_us)


# --- the rules ------------------------------------------------------------------------------------------------


def fences_of_effects_never_fall(history: History, rows: dict[str, Row]) -> Iterator[Violation]:
    """Rule 1: once the resource took a fence, it takes no smaller one."""
    for name, row in rows.items():
        for before, after in pairwise(row.effects):
            if after.fence < before.fence:
                why = f"{name} took fence {after.fence} after fence {before.fence}"
                yield Violation(1, why, _sent(history, before), _sent(history, after))


def a_fence_is_one_holders(history: History, rows: dict[str, Row], excludes: bool = True) -> Iterator[Violation]:
    """Rule 2: a fence is granted once, fences grow with every grant, and effects carry what was granted.

    Where the store excludes, the order of grants is that of the moments in which their holders had them. Else
    only that of an acquire which began after another one had ended.
    """
    for name, grants in history.grants.items():
        first: dict[int, Line] = {}
        for grant in grants:
            line = grant.line
            if line.fence in first:
                yield Violation(2, f"fence {line.fence} of {name} was granted twice", first[line.fence], line)
            first.setdefault(line.fence, line)
        yield from _fences_grow(history, name, excludes)
    granted = {(grant.line.name, grant.line.fence): grant.line for grant in history.all_grants()}
    for name, row in rows.items():
        for effect in row.effects:
            sent = _sent(history, effect)
            owner = granted.get((name, effect.fence))
            if owner is None or owner.by != effect.by:
                why = f"{effect.element} has fence {effect.fence}, which {effect.by} was not granted"
                yield Violation(2, why, owner or sent, sent)


def _fences_grow(history: History, name: str, excludes: bool) -> Iterator[Violation]:
    asked: dict[str, int] = {}
    # The highest fence so far after each grant, and when that grant was there.
    highest: list[Line] = []
    there_us: list[int] = []
    for line in history.lines:
        if line.name != name:
            continue
        if line.what == "asked":
            asked[line.by] = line.at_us
        if line.what != "granted" or not line.at_us < line.until_us:
            continue
        earlier = len(highest) if excludes else bisect_left(there_us, asked.get(line.by, line.at_us))
        if earlier and line.fence < highest[earlier - 1].fence:
            before = highest[earlier - 1]
            yield Violation(2, f"the fence of {name} fell from {before.fence} to {line.fence}", before, line)
        highest.append(highest[-1] if highest and highest[-1].fence > line.fence else line)
        there_us.append(line.at_us)


def beliefs_do_not_overlap(history: History) -> Iterator[Violation]:
    """Rule 3: no two grants of a name are believed in at one instant."""
    for name, grants in history.grants.items():
        longest: Grant | None = None
        for grant in grants:
            if not grant.believed:
                continue
            if longest is not None and grant.line.at_us < longest.believed_until_us:
                ends = min(longest.believed_until_us, grant.believed_until_us)
                why = f"{name} was held twice for {ends - grant.line.at_us} us"
                yield Violation(3, why, longest.line, grant.line)
            if longest is None or grant.believed_until_us > longest.believed_until_us:
                longest = grant


def nothing_acknowledged_is_lost(history: History, rows: dict[str, Row]) -> Iterator[Violation]:
    """Rule 4: what was acknowledged is in the set, what was refused is not, and nothing else than was sent."""
    accepted = {(name, e.element): position for name, row in rows.items() for position, e in enumerate(row.effects)}
    for line in history.lines:
        if line.what not in ("acked", "refused") or not line.element or line.name not in rows:
            continue
        row = rows[line.name]
        position = accepted.get((line.name, line.element))
        sent = history.acting.get(line.element, line)
        if line.what == "refused" and position is not None:
            yield Violation(4, f"{line.element} was refused and is there", sent, line)
        elif line.what == "acked" and position is None:
            yield Violation(4, f"{line.element} was acknowledged and never accepted", sent, line)
        elif line.what == "acked" and line.element not in row.elements:
            later = [e for e in row.effects[(position or 0) + 1 :][:1]]
            over = _sent(history, later[0]) if later else sent
            yield Violation(4, f"{line.element} was acknowledged and is gone", line, over)
    for name, row in rows.items():
        for element in sorted(row.elements):
            if element not in history.acting or (name, element) not in accepted:
                nobody = _sent(history, Effect(name, 0, "nobody", element))
                yield Violation(4, f"{element} is in {name}, and was never accepted", nobody, nobody)


def what_was_released_stays_so(history: History, ghost_us: int) -> Iterator[Violation]:
    """Rule 5: after a confirmed release nothing of that grant stands in the store, or acts.

    Where every attempt of an acquire is one record (Redis), a copy that was on its way comes back as what was
    released. Such a grant is not `clean`, and may be seen for so long as a copy travels and then stands.
    """
    released: dict[tuple[str, str], tuple[Line, bool]] = {}
    gone: dict[tuple[str, int], Line] = {}
    for line in history.lines:
        if line.what == "granted" and (line.name, line.fence) in gone:
            yield Violation(5, f"fence {line.fence} was granted again", gone[line.name, line.fence], line)
        if line.what == "acting" and (line.name, line.fence) in gone:
            yield Violation(5, f"{line.element} came after its release", gone[line.name, line.fence], line)
        if line.what == "seen" and (found := released.get((line.name, line.record))) is not None:
            end, clean = found
            if clean or line.at_us > end.at_us + ghost_us:
                yield Violation(5, f"{line.record} stands again after its release", end, line)
        if line.what == "released":
            gone[line.name, line.fence] = line
            grant = history.granted.get((line.by, line.name, line.fence))
            if grant is not None and grant.line.record:
                released[line.name, grant.line.record] = line, grant.line.clean


def a_free_name_is_taken(history: History, names: Iterable[str], bound_us: int) -> Iterator[Violation]:
    """Rule 6: with contenders alive and no fault, no name stays without a holder for longer than the bound."""
    [healed] = history.of_kind("healed")
    [ended] = history.of_kind("ended")
    for name in names:
        free_since, since = healed.at_us, healed
        held = sorted((g for g in history.grants.get(name, ()) if g.believed), key=lambda g: g.line.at_us)
        for grant in held:
            if grant.line.at_us > free_since + bound_us:
                yield Violation(6, f"{name} was free for {grant.line.at_us - free_since} us", since, grant.line)
            if grant.believed_until_us > free_since:
                free_since, since = grant.believed_until_us, grant.line
        if ended.at_us > free_since + bound_us:
            yield Violation(6, f"{name} was free for {ended.at_us - free_since} us", since, ended)


def nothing_is_lost_to_nobody(history: History) -> Iterator[Violation]:
    """Rule 7: where nobody else may have it yet, no lease is lost to somebody, or found gone (P5)."""
    for grant in history.all_grants():
        if grant.lost is not None and grant.too_early and grant.lost.reason in ("taken", "missing"):
            why = f"fence {grant.line.fence} of {grant.line.name} was lost ({grant.lost.reason}) before its deadline"
            yield Violation(7, why, grant.line, grant.lost)


def _sent(history: History, effect: Effect) -> Line:
    """The line in which its sender said that it would; without one, a line that says so."""
    unsaid = Line(0, 0, effect.by, "never said that it would send", effect.name, effect.fence, 0, effect.element)
    return history.acting.get(effect.element, unsaid)


@dataclass(frozen=True)
class Bounds:
    """What a run may take, in microseconds."""

    takeover_us: int
    ghost_us: int
    """How long a request can be on its way, and then stand."""


def violations(
    history: History, rows: dict[str, Row], names: Iterable[str], bounds: Bounds, excludes: bool = True
) -> list[Violation]:
    """All that is wrong. `excludes` is False for a store that forgets what it acknowledged: there two may hold one
    name (3), and one may find its record gone (7), but their fences and the resource still keep them apart."""
    found = [
        *fences_of_effects_never_fall(history, rows),
        *a_fence_is_one_holders(history, rows, excludes),
        *nothing_acknowledged_is_lost(history, rows),
        *what_was_released_stays_so(history, bounds.ghost_us),
        *a_free_name_is_taken(history, names, bounds.takeover_us),
    ]
    if excludes:
        found += [*beliefs_do_not_overlap(history), *nothing_is_lost_to_nobody(history)]
    return sorted(found, key=lambda violation: violation.rule)
