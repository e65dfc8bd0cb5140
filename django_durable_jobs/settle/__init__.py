"""The end of an attempt: decided, written once under the fence, then announced.

``settlement_of`` turns what became of the body into one ``Settlement``, which the store
lands or, when the claim no longer holds the job, drops without a trace. Only one that
landed is announced, and only when it finished the job: ``announce_settled`` calls the
job's ``on_settled`` hook, the single hook there is. A process that dies between the two
loses the announcement; it is never repeated.
"""

from .announce import Settled, announce_buried, announce_settled
from .failure import describe_failure
from .outcome import (
    UNVERSIONED,
    AttemptEnd,
    Parked,
    Returned,
    settlement_of,
    settlement_of_other_version,
    settlement_of_unknown,
)

__all__ = [
    "UNVERSIONED",
    "AttemptEnd",
    "Parked",
    "Returned",
    "Settled",
    "announce_buried",
    "announce_settled",
    "describe_failure",
    "settlement_of",
    "settlement_of_other_version",
    "settlement_of_unknown",
]
