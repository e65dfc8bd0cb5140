"""Steps for what would differ at every run of the body, and for messages sent once."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any, ParamSpec, Protocol
from uuid import UUID, uuid4

from django_durable_jobs.durations import Duration
from django_durable_jobs.events.publish import HasId, publish_event

from .branches import Branches

P = ParamSpec("P")


class Enqueued(Protocol):
    """What an enqueue answers."""

    @property
    def id(self) -> UUID: ...


class Enqueues(Protocol[P]):
    """A declared job, or one with options (``charge.using(delay="10m")``)."""

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued: ...


class Steps(Branches):
    """All durable verbs of one run, as ``ctx.step``.

    Chance, time and new ids are other ones at each run of the body. Asked for as steps
    they are drawn once and stored under the step's own name, so a new one in the code
    changes no other.
    """

    def now(self, name: str) -> datetime:
        """The database's time when the step was first reached.

        Raises:
            As ``run``.
        """
        return self.run(name, self._execution.store.now)

    def random(self, name: str) -> float:
        """A number from 0.0 up to 1.0, drawn once.

        Raises:
            As ``run``.
        """
        return self.run(name, _draw)

    def uuid(self, name: str) -> UUID:
        """A random UUID, drawn once: an id or an idempotency key for something outside.

        Raises:
            As ``run``.
        """
        return self.run(name, _new_uuid)

    def publish_event(
        self,
        name: str,
        event: str,
        payload: Any = None,
        *,
        key: str | None = None,
        ttl: Duration | None = None,
        job_id: UUID | str | HasId | None = None,
    ) -> UUID:
        """Publish an event exactly once, and answer its id; see ``publish_event``.

        The event and the checkpoint are committed together.

        Raises:
            As ``atomic`` and ``publish_event``.
        """
        return self.atomic(name, publish_event, event, payload, key=key, ttl=ttl, job_id=job_id)

    def enqueue(self, name: str, job: Enqueues[P], /, *args: P.args, **kwargs: P.kwargs) -> UUID:
        """Enqueue another job exactly once, not waiting for it, and answer its id.

        The job and the checkpoint are committed together. When a live job holds its
        idempotency key, that job's id is the answer.

        Raises:
            As ``atomic`` and ``JobDefinition.enqueue``.
        """
        return self.atomic(name, _enqueue, job, args, kwargs)


def _draw() -> float:
    return random.random()


def _new_uuid() -> UUID:
    return uuid4()


def _enqueue(job: Enqueues[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> UUID:
    return job.enqueue(*args, **kwargs).id
