"""Events: something happened that a parked run may be waiting for.

An event is stored, not broadcast: its publisher is usually a web process and the run
that waits may be parked in no process at all. It is stored in the caller's transaction,
so nothing is woken by what was rolled back. It stays matchable until it expires, it is
not used up by a match, and every wait that fits may take it: one with the same name
whose key is the event's, or that has no key. A wait with a key never takes an event
without one, and no wait takes an event that was committed before it began.
"""

from .event import Event
from .publish import publish_event

__all__ = ["Event", "publish_event"]
