"""The checker itself: it lets a sound history pass, and each rule fails on a history that breaks it.

A checker that cannot fail proves nothing, so every case here is the smallest change to what is sound.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from .history import Bounds, Effect, History, Row, Violation, violations

if TYPE_CHECKING:
    from _typeshed import TraceFunction

SECOND = 1_000_000
BOUNDS = Bounds(takeover_us=2 * SECOND, ghost_us=3 * SECOND)
NAME = "job"

Event = dict[str, Any]


def event(at: float, by: str, what: str, **fields: object) -> Event:
    until = fields.get("until")
    if isinstance(until, (int, float)):
        fields["until"] = int(until * SECOND)
    return {"at": int(at * SECOND), "by": by, "what": what, "name": NAME, **fields}


def sound() -> list[Event]:
    """w1 acquires, renews, works and releases; w2 waits for it, works, and is killed; w3 takes over."""
    return [
        event(0.0, "w1", "asked"),
        event(0.1, "w1", "granted", fence=5, until=1.0, record="r5"),
        event(0.2, "w2", "asked"),
        event(0.3, "w1", "acting", fence=5, element="w1.1"),
        event(0.4, "w1", "acked", fence=5, element="w1.1"),
        event(0.5, "test", "seen", record="r5"),
        event(0.9, "w1", "held", fence=5, until=1.8),
        event(1.2, "w1", "releasing", fence=5),
        event(1.3, "w1", "released", fence=5),
        event(1.4, "w2", "granted", fence=6, until=2.4, record="r6"),
        event(1.5, "test", "healed"),
        event(1.6, "w2", "acting", fence=6, element="w2.1"),
        event(1.7, "w2", "acked", fence=6, element="w2.1"),
        event(1.8, "w3", "asked"),
        event(2.6, "w3", "granted", fence=9, until=3.6, record="r9"),
        event(2.7, "w3", "acting", fence=9, element="w3.1"),
        event(2.8, "w3", "unknown", fence=9, element="w3.1"),
        event(3.0, "test", "ended"),
    ]


def sound_row() -> Row:
    effects = (Effect(NAME, 5, "w1", "w1.1"), Effect(NAME, 6, "w2", "w2.1"))
    return Row(frozenset({"w1.1", "w2.1"}), effects)


def check(events: list[Event], row: Row | None = None, excludes: bool = True) -> list[Violation]:
    history = History.of(json.dumps(event) for event in events)
    return violations(history, {NAME: row or sound_row()}, [NAME], BOUNDS, excludes)


def the_only(found: list[Violation]) -> Violation:
    assert len(found) == 1, [str(violation) for violation in found]
    return found[0]


def changed(at: float, **fields: object) -> list[Event]:
    """The sound history with one of its events changed."""
    events = sound()
    [index] = [number for number, event in enumerate(events) if event["at"] == int(at * SECOND)]
    events[index] = event(
        at, **{key: value for key, value in {**events[index], **fields}.items() if key not in ("at", "name")}
    )
    if "until" not in fields and "until" in events[index]:
        events[index]["until"] //= SECOND
    return events


# --- what is sound --------------------------------------------------------------------------------------------


def test_a_sound_history_breaks_no_rule() -> None:
    assert check(sound()) == []
    assert check(sound(), excludes=False) == []


def test_lines_may_come_in_any_order() -> None:
    assert check(sound()[::-1]) == []


def test_an_unknown_write_may_be_there_or_not() -> None:
    row = sound_row()
    landed = Row(row.elements | {"w3.1"}, (*row.effects, Effect(NAME, 9, "w3", "w3.1")))
    assert check(sound(), landed) == []


def test_a_write_that_arrived_twice_is_one_write() -> None:
    row = sound_row()
    assert check(sound(), Row(row.elements, (row.effects[0], *row.effects))) == []


def test_what_is_taken_after_its_deadline_is_no_overlap() -> None:
    abandoned = [e for e in sound() if e["what"] not in ("releasing", "released", "held")]
    assert check(abandoned) == []


def test_belief_ends_with_a_jump_of_the_wall_clock() -> None:
    events = [e for e in sound() if e["what"] not in ("releasing", "released")]
    assert [violation.rule for violation in check(events)] == [3]
    assert check([*events, event(1.1, "w1", "stepped")]) == []
    # Unless the holder found afterwards that it still had it.
    again = [*events, event(1.1, "w1", "stepped"), event(1.15, "w1", "held", fence=5, until=1.8)]
    assert the_only(check(again)).rule == 3


def test_what_was_lost_before_its_deadline_was_believed_in_until_the_last_proof() -> None:
    events = [e for e in sound() if e["what"] not in ("releasing", "released")]
    assert check([*events, event(1.5, "w1", "lost", fence=5, reason="missing")], excludes=False) == []
    assert check([*events, event(1.5, "w1", "lost", fence=5, reason="expired")]) == []


def test_an_acquire_that_returned_too_late_was_nobodys() -> None:
    late = event(1.5, "w4", "granted", fence=4, until=0)
    assert check([*sound(), late]) == []


# --- rule 1 ---------------------------------------------------------------------------------------------------


def test_a_smaller_fence_after_a_larger_one_is_found() -> None:
    row = sound_row()
    violation = the_only(check(sound(), Row(row.elements, row.effects[::-1])))
    assert (violation.rule, violation.first.element, violation.second.element) == (1, "w2.1", "w1.1")
    assert "line 12" in str(violation) and "line 4" in str(violation)


# --- rule 2 ---------------------------------------------------------------------------------------------------


def test_a_fence_that_is_granted_twice_is_found() -> None:
    found = check(changed(2.6, fence=6))
    assert {violation.rule for violation in found} == {2}
    assert (found[0].first.by, found[0].second.by) == ("w2", "w3")


@pytest.mark.parametrize("excludes", [True, False])
def test_a_fence_that_falls_is_found(excludes: bool) -> None:
    events = [e for e in sound() if e["by"] != "w3"]
    events += [event(2.55, "w3", "asked"), event(2.6, "w3", "granted", fence=4, until=3.6)]
    violation = the_only(check(events, excludes=excludes))
    assert (violation.rule, violation.first.fence, violation.second.fence) == (2, 6, 4)


def test_a_fence_that_was_drawn_before_and_told_later_did_not_fall_where_the_store_forgets() -> None:
    # w4 asked before anybody was granted anything, so its grant may be the oldest.
    events = [*sound(), event(0.05, "w4", "asked"), event(1.45, "w4", "granted", fence=4, until=1.6)]
    assert check(events, excludes=False) == []
    assert {violation.rule for violation in check(events)} == {2, 3}


def test_an_effect_with_the_fence_of_somebody_else_is_found() -> None:
    row = sound_row()
    borrowed = Row(row.elements, (row.effects[0], Effect(NAME, 5, "w2", "w2.1")))
    violation = the_only(check(sound(), borrowed))
    assert (violation.rule, violation.first.by, violation.second.by) == (2, "w1", "w2")


def test_an_effect_with_a_fence_that_nobody_has_is_found() -> None:
    row = sound_row()
    assert the_only(check(sound(), Row(row.elements, (row.effects[0], Effect(NAME, 7, "w2", "w2.1"))))).rule == 2


# --- rule 3 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "events",
    [
        # It goes on believing after its record was taken.
        [e for e in sound() if e["what"] not in ("releasing", "released")],
        # It is granted while another one has it, and ends first.
        [*sound(), event(0.6, "w4", "granted", fence=5, until=0.7)],
        # The overlap is with one that began long before, not with the last one.
        [*changed(0.1, until=9), event(0.6, "w4", "granted", fence=5, until=0.7)],
    ],
    ids=["late end", "inside", "long before"],
)
def test_two_beliefs_at_once_are_found(events: list[Event]) -> None:
    found = [violation for violation in check(events) if violation.rule == 3]
    assert found and found[0].first.by == "w1"


def test_where_the_store_forgets_two_beliefs_at_once_are_not_looked_for() -> None:
    assert check([e for e in sound() if e["what"] not in ("releasing", "released")], excludes=False) == []


# --- rule 4 ---------------------------------------------------------------------------------------------------


def test_an_acknowledged_element_that_is_gone_is_found() -> None:
    row = sound_row()
    violation = the_only(check(sound(), Row(frozenset({"w2.1"}), row.effects)))
    assert (violation.rule, violation.first.element, violation.second.element) == (4, "w1.1", "w2.1")


def test_an_acknowledged_write_that_was_never_accepted_is_found() -> None:
    row = sound_row()
    violation = the_only(check(sound(), Row(frozenset({"w1.1"}), row.effects[:1])))
    assert (violation.rule, violation.first.what, violation.second.what) == (4, "acting", "acked")


def test_a_refused_write_that_was_accepted_is_found() -> None:
    violation = the_only(check(changed(1.7, what="refused")))
    assert (violation.rule, violation.second.what) == (4, "refused")


def test_an_element_from_nowhere_is_found() -> None:
    row = sound_row()
    assert the_only(check(sound(), Row(row.elements | {"w9.1"}, row.effects))).rule == 4


# --- rule 5 ---------------------------------------------------------------------------------------------------


def test_a_released_record_that_stands_again_is_found() -> None:
    violation = the_only(check([*sound(), event(1.35, "test", "seen", record="r5")]))
    assert (violation.rule, violation.first.what, violation.second.what) == (5, "released", "seen")


def test_a_copy_on_its_way_may_stand_again_for_so_long_as_it_can() -> None:
    unclean = changed(0.1, clean=False, until=1.0)
    assert check([*unclean, event(1.35, "test", "seen", record="r5")]) == []
    assert the_only(check([*unclean, event(4.5, "test", "seen", record="r5")])).rule == 5


def test_a_release_that_was_not_confirmed_promises_nothing() -> None:
    events = [*changed(1.3, what="unconfirmed"), event(1.35, "test", "seen", record="r5")]
    assert check(events) == []


def test_a_released_fence_that_is_granted_or_used_again_is_found() -> None:
    again = check([*sound(), event(1.35, "w1", "acting", fence=5, element="w1.2")])
    assert the_only(again).rule == 5
    assert {violation.rule for violation in check(changed(1.4, fence=5))} >= {2, 5}


# --- rule 6 ---------------------------------------------------------------------------------------------------


def without_w3() -> list[Event]:
    return [e for e in sound() if e["by"] != "w3" and e["what"] != "ended"]


@pytest.mark.parametrize(
    ("last", "free"),
    [
        ([event(4.5, "w3", "granted", fence=9, until=5.5), event(5.0, "test", "ended")], 2.1),
        ([event(4.5, "test", "ended")], 2.1),
    ],
    ids=["taken late", "never taken"],
)
def test_a_name_that_stays_free_is_found(last: list[Event], free: float) -> None:
    violation = the_only(check([*without_w3(), *last]))
    assert violation.rule == 6 and f"{int(free * SECOND)} us" in violation.why


def test_a_name_that_nobody_ever_holds_is_found() -> None:
    events = [event(0.0, "test", "healed"), event(2.5, "test", "ended")]
    violation = the_only(check(events, Row(frozenset(), ())))
    assert (violation.rule, violation.first.what, violation.second.what) == (6, "healed", "ended")


def test_what_was_free_while_faults_went_on_is_no_matter() -> None:
    late = [{**e, "at": e["at"] + 60 * SECOND} for e in sound()]
    late = [{**e, "until": e["until"] + 60 * SECOND} if "until" in e else e for e in late]
    assert check([event(0.0, "w1", "asked"), *late]) == []


# --- rule 7 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["taken", "missing"])
def test_a_lease_that_is_lost_before_its_deadline_is_found(reason: str) -> None:
    events = [e for e in sound() if e["what"] not in ("releasing", "released")]
    violation = the_only(check([*events, event(1.5, "w1", "lost", fence=5, reason=reason)]))
    assert (violation.rule, violation.first.what, violation.second.what) == (7, "granted", "lost")


def test_a_lease_that_is_lost_after_its_deadline_is_not_lost_too_early() -> None:
    events = [e for e in sound() if e["what"] not in ("held", "releasing", "released")]
    assert check([*events, event(1.5, "w1", "lost", fence=5, reason="taken")]) == []


# --- its cost -------------------------------------------------------------------------------------------------


def steps_of(work: Callable[[], object]) -> int:
    """How many lines of Python it takes: the same on every machine."""
    counted = 0

    def trace(frame: FrameType, kind: str, argument: object) -> TraceFunction:
        nonlocal counted
        counted += kind == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def test_twice_the_history_takes_about_twice_the_steps() -> None:
    def history(grants: int) -> tuple[list[Event], Row]:
        events = [event(0, "test", "healed")]
        effects = []
        for k in range(1, grants + 1):
            by, element = f"w{k % 5}", f"w{k % 5}.{k}"
            events += [
                event(k - 0.5, by, "asked"),
                event(k, by, "granted", fence=k, until=k + 0.7, record=f"r{k}"),
                event(k + 0.1, by, "acting", fence=k, element=element),
                event(k + 0.2, by, "acked", fence=k, element=element),
                event(k + 0.3, by, "releasing", fence=k),
                event(k + 0.4, by, "released", fence=k),
            ]
            effects.append(Effect(NAME, k, by, element))
        row = Row(frozenset(effect.element for effect in effects), tuple(effects))
        return [*events, event(grants + 1, "test", "ended")], row

    def steps(grants: int, excludes: bool) -> int:
        events, row = history(grants)
        read = History.of(json.dumps(e) for e in events)
        found: list[Violation] = []
        counted = steps_of(lambda: found.extend(violations(read, {NAME: row}, [NAME], BOUNDS, excludes)))
        assert found == []
        return counted

    for excludes in (True, False):
        assert steps(800, excludes) < 2.5 * steps(400, excludes)
