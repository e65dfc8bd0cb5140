"""Store an event and wake the runs that wait for it."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any, Final, Protocol
from uuid import UUID

from django.utils.text import Truncator

from django_durable_jobs.conf import settings
from django_durable_jobs.durations import Duration, parse_duration
from django_durable_jobs.exceptions import EventRefused
from django_durable_jobs.payloads import Codec
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.names import name_fault
from django_durable_jobs.store.registry import get_store

# Further than this, the database's own calendar is at its end.
MAX_TTL: Final = timedelta(days=36_525)


class HasId(Protocol):
    """What stands for a job, such as the answer of its enqueue, or its row."""

    @property
    def id(self) -> UUID: ...


def publish_event(
    name: str,
    payload: Any = None,
    *,
    key: str | None = None,
    ttl: Duration | None = None,
    job_id: UUID | str | HasId | None = None,
) -> UUID:
    """Store an event, wake the jobs that wait for it, and answer its id.

    Part of the caller's transaction: waiting jobs are woken when it commits, and nothing
    happens when it rolls back.

    Every wait of the same name takes it whose key is *key*, or that has no key; with
    *job_id* only those of that job, and then, without *key*, whatever keys they have.
    A wait takes only what is committed after it began, or, where it says so, after its job
    was enqueued. Taking does not use the event up.

    Args:
        payload: JSON value that ``Event.payload`` will hold.
        key: Which one of many, such as the id of the order. A wait with a key takes only
            events with the same key, and those without one that are addressed to its job.
        ttl: How long the event can still be taken; ``DURABLE_JOBS["EVENT_TTL"]`` if omitted.
        job_id: The one job that may take it: its id, or what has it as ``.id``. Whether
            there is such a job is not asked.

    Raises:
        EventRefused: The name or the key is not storable text, *ttl* is out of bounds, or
            *job_id* is no job's id.
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
    address = None if job_id is None else _address(job_id)
    text = _json().encode(payload, subject=f"Event '{name}'", path="payload")
    event_id = new_id()
    get_store().publish(event_id, name, text, key=key, ttl=lifetime, job_id=address)
    return event_id


def _address(job_id: object) -> UUID:
    """The id that *job_id* is or has."""
    value = getattr(job_id, "id", job_id)
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str):
        kind = type(value).__name__
        raise EventRefused("job_id", f"is of type {kind}, neither a job's id nor a job")
    try:
        return UUID(value)
    except ValueError:
        raise EventRefused("job_id", f"'{Truncator(value).chars(60)}' is no job's id") from None


@cache
def _json() -> Codec:
    return Codec()
