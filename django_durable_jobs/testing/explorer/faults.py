"""What may happen at a boundary, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .wire import WIRE_FAULTS, Boundary, WireFault

MEETINGS: Final = ("event", "held-event", "other-worker", "lapse")
"""What can happen in front of a statement, which is then sent as usual.

``event``: what the run waits for is published. ``held-event``: the same in a transaction
that commits only when every run is parked. ``other-worker``: another worker runs all that
is due. ``lapse``: the lease lapses, another worker takes the run again and reads its steps;
then the first goes on as if nothing had happened.
"""

KILL: Final = "kill"
"""The worker's process ends by SIGKILL in front of the statement."""

WAKES: Final = frozenset(
    {"wake_waiters", "wake_parents", "wake_event", "wake_event_again", "notify"}
)
"""Statements that wake parked runs: one that these were to wake may need the
look for missed wakes."""

_OF_A_RUN: Final = frozenset(
    {"load_steps", "put_step", "find_event", "children", "settle", "settle_children", "COMMIT"}
)
"""Statements of a body and of its end: what meets a run, meets it there."""

_FIRST: Final = 2
_LAST: Final = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens: a meeting in front of the statement, then something to the statement.

    Written ``drop``, ``event`` or ``event+lost-answer``.
    """

    meeting: str | None = None
    wire: WireFault | None = None

    def __str__(self) -> str:
        return "+".join(part for part in (self.meeting, self.wire) if part)


def read_fault(text: str) -> Fault:
    """The fault of that name.

    Raises:
        ValueError: There is none.
    """
    meeting: str | None = None
    wire: WireFault | None = None
    for part in text.split("+"):
        if part in MEETINGS and meeting is None and wire is None:
            meeting = part
        elif wire is None and (known := [each for each in WIRE_FAULTS if each == part]):
            (wire,) = known
        else:
            known_names = ", ".join((*WIRE_FAULTS, *MEETINGS, KILL))
            raise ValueError(f"There is no fault '{text}'. Known: {known_names}.")
    return Fault(meeting, wire)


def plan(
    passed: Sequence[Boundary], *, has_events: bool, has_others: bool, is_full: bool
) -> list[tuple[Boundary, Fault]]:
    """What to try on a flow that sends these statements: each boundary with each fault.

    A statement that a flow sends many times, as for each of fifty children, is broken in
    every way at its first and last places, and at each place between them in one way, in
    turn; with *is_full* in every way everywhere.

    Args:
        has_events: The flow waits for events.
        has_others: The flow consists of several jobs.
    """
    times = Counter(boundary.statement for boundary in passed)
    seen: Counter[str] = Counter()
    planned: list[tuple[Boundary, Fault]] = []
    for boundary in passed:
        place, of = seen[boundary.statement], times[boundary.statement]
        seen[boundary.statement] += 1
        faults = _faults_at(boundary.statement, has_events=has_events, has_others=has_others)
        if not is_full and _FIRST <= place < of - _LAST:
            faults = [faults[place % len(faults)]]
        planned += [(boundary, fault) for fault in faults]
    return planned


def _faults_at(statement: str, *, has_events: bool, has_others: bool) -> list[Fault]:
    if statement.startswith("ROLLBACK"):
        # Whatever becomes of the answer, the transaction is gone.
        return [Fault(wire="drop")]
    faults = [Fault(wire=each) for each in WIRE_FAULTS]
    if statement in _OF_A_RUN:
        met = [Fault("lapse")]
        if has_events:
            met += [Fault("event"), Fault("held-event")]
        if has_others:
            met.append(Fault("other-worker"))
        if statement == "settle":
            # It ends an attempt and owes others a look: the look must come all the same.
            met += [Fault(each.meeting, "lost-answer") for each in met if each.meeting != "lapse"]
        faults += met
    return faults
