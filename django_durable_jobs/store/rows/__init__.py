"""The frozen values that cross the store's port.

Payloads cross as JSON text (``input``, ``result``, ``output``): what a body sees is
always the decoded text, never the object that was handed in. Times are aware
datetimes; durations are ``timedelta``.
"""

from .attempts import AttemptRow, Failure, Settlement
from .claims import BuriedJob, ClaimedJob, ClaimIdentity, QueueDemand, Renewal, Rescued
from .events import Cursor, EventFilter, EventRow
from .jobs import ConflictPolicy, Inserted, JobFilter, JobRow, NewJob
from .queues import Probe, QueueStats, Wake, WorkerBeat
from .steps import ChildRow, NewStep, StepRow, StepStatus

__all__ = [
    "AttemptRow",
    "BuriedJob",
    "ChildRow",
    "ClaimIdentity",
    "ClaimedJob",
    "ConflictPolicy",
    "Cursor",
    "EventFilter",
    "EventRow",
    "Failure",
    "Inserted",
    "JobFilter",
    "JobRow",
    "NewJob",
    "NewStep",
    "Probe",
    "QueueDemand",
    "QueueStats",
    "Renewal",
    "Rescued",
    "Settlement",
    "StepRow",
    "StepStatus",
    "Wake",
    "WorkerBeat",
]
