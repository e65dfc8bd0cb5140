"""Declare jobs, and start them.

``@job`` makes a ``JobDefinition`` of a function and registers it under a stable name.
``.enqueue()`` checks the arguments against the signature, encodes them as JSON, and
stores one row in the caller's transaction.
"""

from .declare import job
from .definition import JobDefinition
from .registry import declared_queues, get_job, registered_jobs
from .result import JobResult

__all__ = [
    "JobDefinition",
    "JobResult",
    "declared_queues",
    "get_job",
    "job",
    "registered_jobs",
]
