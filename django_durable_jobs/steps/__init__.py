"""Durable steps: what a body finished stays finished, whatever becomes of its process.

A body is run from the top at every attempt and after every wait. A step that an earlier
run finished answers its stored output without running its function again; the first
one that is not stored yet runs, and its output is stored before the call returns.

- A step's name is its key. It must be the same at every run and used once in a run: a
  name made of the time, of chance or of a set's order would never be found again.
- What a step answers is decoded from what was stored, the first time too.
- A function that raises stores nothing; its retry is the job's retry. A process that
  dies after the function's effect and before the checkpoint runs it again: only
  ``step.atomic``, whose effects are in the jobs' own database, is exactly once.
- A wait (``sleep``, ``sleep_until``, ``wait_for_event``, ``wait_for_any``) stores when it
  ends, then parks the run: ``Suspension`` unwinds the body, and later the body comes back
  to it. ``call`` and ``map`` store their children in one transaction with the step, and
  park the run until the last one has finished.
- Steps run one after another; side by side only as branches of ``gather``, each of which
  goes as far as it can before the run is parked.
- Every write is refused when the attempt was cancelled (``Aborted``), and again by the
  store when the claim no longer holds the job (``LeaseLost``).
"""

from .context import AsyncJobContext, JobContext, RunContext
from .current import current_job_id
from .suspension import Suspension, suspension_in
from .timed import TimedSteps
from .values import Steps

__all__ = [
    "AsyncJobContext",
    "JobContext",
    "RunContext",
    "Steps",
    "Suspension",
    "TimedSteps",
    "current_job_id",
    "suspension_in",
]
