"""The states of a job and the table of allowed moves.

==========  =================================================================
ready       due, or waiting for its retry
delayed     enqueued for a later time
running     claimed by a worker under a lease
suspended   parked by a step: a sleep, an event, a child
done        finished; its result is stored
failed      given up, outside the dead letters
dead        given up, waiting for a person
cancelled   stopped by a person or by code
==========  =================================================================

The first four are *live*, the last four *finished*. What is not in ``MOVES`` is
refused or leaves the row exactly as it was.
"""

from __future__ import annotations

from typing import Final

READY: Final = "ready"
DELAYED: Final = "delayed"
RUNNING: Final = "running"
SUSPENDED: Final = "suspended"
DONE: Final = "done"
FAILED: Final = "failed"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"

STATES: Final = (READY, DELAYED, RUNNING, SUSPENDED, DONE, FAILED, DEAD, CANCELLED)
LIVE_STATES: Final = (READY, DELAYED, RUNNING, SUSPENDED)
FINISHED_STATES: Final = (DONE, FAILED, DEAD, CANCELLED)
WAITING_STATES: Final = (READY, DELAYED, SUSPENDED)
REQUEUEABLE_STATES: Final = FINISHED_STATES
CANCELLABLE_STATES: Final = LIVE_STATES
REMOVABLE_STATES: Final = (READY, DELAYED, SUSPENDED, DONE, FAILED, DEAD, CANCELLED)

# (from, cause) -> states it may end in. "" is "no row yet".
MOVES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "enqueue"): (READY, DELAYED),
    (READY, "claim"): (RUNNING,),
    (DELAYED, "claim"): (RUNNING,),
    (SUSPENDED, "claim"): (RUNNING,),
    (RUNNING, "rescue"): (RUNNING, DEAD, FAILED),
    (RUNNING, "settle"): (DONE, READY, SUSPENDED, DEAD, FAILED),
    (READY, "cancel"): (CANCELLED,),
    (DELAYED, "cancel"): (CANCELLED,),
    (RUNNING, "cancel"): (CANCELLED,),
    (SUSPENDED, "cancel"): (CANCELLED,),
    (DONE, "requeue"): (READY,),
    (FAILED, "requeue"): (READY,),
    (DEAD, "requeue"): (READY,),
    (CANCELLED, "requeue"): (READY,),
    (DELAYED, "promote"): (READY,),
    (READY, "promote"): (READY,),
    (SUSPENDED, "publish"): (SUSPENDED,),
}

LEASE_LAPSED_FINAL_ATTEMPT: Final = (
    "The lease lapsed on the final attempt: the worker was killed or cut off each time."
)
