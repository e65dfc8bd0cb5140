"""Events: something happened that a parked run may be waiting for.

An event is stored, not broadcast: its publisher is usually a web process and the run
that waits may be parked in no process at all. It is stored in the caller's transaction,
so nothing is woken by what was rolled back. It stays matchable until it expires, it is
not used up by a match, and every wait that fits may take it: one with the same name
whose key is the event's, or that has no key. A wait with a key never takes an event
without one, and no wait takes an event that was committed before it began.

An event may be addressed to one job. Then no other takes it, and without a key it fits
any wait of that job for its name. A wait that says so begins with its job's enqueue, so
that it takes what came before the run got there. What counts is when an event was
committed: the stamp says when it was written, which may be long before.

A wait takes the oldest event that fits, by the pair of publishing time and id. One that
it refuses it never finds again (``cursor``).
"""

from .event import Event
from .publish import publish_event

__all__ = ["Event", "publish_event"]
