"""The verbs for people: move jobs by hand, and read them.

Surfaces (the admin, the command line) ask here and nowhere else. A verb knows no
permission and writes no record of who used it: the surface checks before and records
after. Each verb is one statement of the store, so it either happens whole or is
refused with one of ``REFUSALS``, which says what the job's state is now; a double
click, or a worker that was faster, changes nothing twice.

``OPERATIONS`` is the one table from which a surface derives its buttons, its bulk
actions, its addresses and its permission checks.
"""

from django_durable_jobs.store.asked import MAX_JOB_PAGE

from .bulk import MAX_BULK_ROWS, REFUSALS, BulkOutcome, apply_to_each
from .catalogue import OPERATIONS, Operation
from .reading import DEFAULT_JOB_PAGE, attempts, job_cursor, list_jobs, show, version_waits
from .verbs import cancel, promote, remove, requeue

__all__ = [
    "DEFAULT_JOB_PAGE",
    "MAX_BULK_ROWS",
    "MAX_JOB_PAGE",
    "OPERATIONS",
    "REFUSALS",
    "BulkOutcome",
    "Operation",
    "apply_to_each",
    "attempts",
    "cancel",
    "job_cursor",
    "list_jobs",
    "promote",
    "remove",
    "requeue",
    "show",
    "version_waits",
]
