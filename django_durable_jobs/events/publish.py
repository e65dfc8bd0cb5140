"""Store an event and wake the runs that wait for it."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from django_durable_jobs.conf import settings
from django_durable_jobs.durations import Duration, parse_duration
from django_durable_jobs.exceptions import EventRefused
from django_durable_jobs.payloads import Codec
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.names import name_fault
from django_durable_jobs.store.registry import get_store

# Further than this, the database's own calendar is at its end.
MAX_TTL: Final = timedelta(days=36_525)


def publish_event(
    name: str, payload: Any = None, *, key: str | None = None, ttl: Duration | None = None
) -> UUID:
    """Store an event, wake the jobs that wait for it, and answer its id.

    Part of the caller's transaction: waiting jobs are woken when it commits, and nothing
    happens when it rolls back.

    Args:
        payload: JSON value that ``Event.payload`` will hold.
        key: Which one of many, such as the id of the order. A wait with a key takes only
            events with the same key.
        ttl: How long the event can still be taken; ``DURABLE_JOBS["EVENT_TTL"]`` if omitted.

    Raises:
        EventRefused: The name or the key is not storable text, or *ttl* is out of bounds.
        DurationInvalid: *ttl* is not a length of time.
        PayloadInvalid: The payload has no exact JSON form.
        PayloadTooLarge: The payload is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
        StoreUnavailable: The store could not be reached.
    """
    fault = name_fault(name)
    if fault is not None:
        raise EventRefused("name", fault)
    if key is not None:
        fault = name_fault(key)
        if fault is not None:
            raise EventRefused("key", fault)
    lifetime = settings.EVENT_TTL if ttl is None else parse_duration(ttl, subject="ttl")
    if not timedelta(0) < lifetime <= MAX_TTL:
        raise EventRefused("ttl", "is not above zero and at most 100 years")
    text = _json().encode(payload, subject=f"Event '{name}'", path="payload")
    event_id = new_id()
    get_store().publish(event_id, name, text, key=key, ttl=lifetime)
    return event_id


@cache
def _json() -> Codec:
    return Codec()
