"""How an attempt ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from .claims import ClaimIdentity


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt did not end well; kept in the attempt's history.

    Attributes:
        code: Stable error code, "" when the exception has none.
        error_class: Qualified class name, as text; never rebuilt into a class.
        fingerprint: Same for failures that look alike, to group by.
    """

    code: str
    error_class: str
    message: str
    traceback: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of one attempt, as one fenced transition.

    Attributes:
        state: ``done``, ``ready``, ``suspended``, ``dead`` or ``failed``.
        delay: For ``ready`` and ``suspended``: due after this long, by the database's clock.
        run_at: The same as an instant; wins over *delay*.
        give_back: The attempt is not counted.
        result: JSON text, for ``done``.
        stop_reason: Why nothing more will happen, for the final states.
        unknown_name: The worker did not know the name; the row remembers since when.
        waits: The suspended run has an open wait for an event.
        calls: The suspended run waits for children.
        steps: Names of the steps in which it waits; empty for all that it has open. Changed
            code may never come back to an open one, which then must not end its waits.
        code_version: Declared by the code that ran the attempt; None leaves what is stored.
        awaited_version: For ``ready``: the run goes on only under this version of its code;
            the row remembers since when.
        replay_warning: How the run differs from the steps it had stored; None leaves what
            is stored.
    """

    identity: ClaimIdentity
    state: str
    delay: timedelta | None = None
    run_at: datetime | None = None
    give_back: bool = False
    result: str | None = None
    failure: Failure | None = None
    stop_reason: str = ""
    unknown_name: bool = False
    waits: bool = False
    calls: bool = False
    steps: tuple[str, ...] = ()
    code_version: str | None = None
    awaited_version: str = ""
    replay_warning: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try that did not end ``done``, or whose steps were taken back later.

    Attributes:
        steps: JSON text: the steps that a requeue from a step took back, in order.
    """

    claim: int
    attempt: int
    outcome: str
    code: str
    error_class: str
    message: str
    traceback: str
    worker_id: str
    started_at: datetime | None
    finished_at: datetime
    steps: str | None = None
