"""What a caller holds after an enqueue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from django_durable_jobs.durations import Duration
from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import JobNotFound
from django_durable_jobs.states import DONE, FINISHED_STATES
from django_durable_jobs.store import get_store
from django_durable_jobs.store.definition import RunnableJob
from django_durable_jobs.store.names import storable
from django_durable_jobs.store.rows import JobRow

R = TypeVar("R")


@dataclass(slots=True)
class JobResult(Generic[R]):
    """One enqueued job, as known when it was last looked at.

    Attributes:
        id: The job's id; the live holder's when *deduplicated*.
        deduplicated: A live job already held the idempotency key; nothing was added.
        state: One of ``states.STATES``.
    """

    id: UUID
    state: str
    deduplicated: bool
    _job: RunnableJob = field(repr=False)
    _row: JobRow | None = field(default=None, repr=False)

    def refresh(self) -> None:
        """Look again.

        Raises:
            JobNotFound: It was removed, or its transaction rolled back.
        """
        row = get_store().show(self.id)
        if row is None:
            raise JobNotFound(self.id)
        self._row = row
        self.state = row.state

    @property
    def is_finished(self) -> bool:
        """Whether it was finished when last looked at."""
        return self.state in FINISHED_STATES

    @property
    def return_value(self) -> R | None:
        """What the body returned, decoded; None unless ``done`` when last looked at."""
        if self._row is None or self.state != DONE or self._row.result is None:
            return None
        value: R = self._job.load_result(self._row.result)
        return value

    @property
    def error(self) -> str:
        """The last error's message when last looked at."""
        return "" if self._row is None else self._row.last_error

    @property
    def row(self) -> JobRow | None:
        """Everything known since the last ``refresh()``."""
        return self._row

    def cancel(self, reason: str = "") -> bool:
        """Cancel it if it is live; whether it was.

        A running body is told at its lease's next renewal; none of its durable writes
        lands from now on.
        """
        return get_store().cancel(self.id, reason=storable(reason)) is not None

    def publish_event(
        self,
        event: str,
        payload: Any = None,
        *,
        key: str | None = None,
        ttl: Duration | None = None,
    ) -> UUID:
        """Publish *event* for this job alone, and answer the event's id.

        Without *key* it fits any wait of the job for *event*, also one that has a key.

        Raises:
            As ``publish_event``.
        """
        return publish_event(event, payload, key=key, ttl=ttl, job_id=self.id)
