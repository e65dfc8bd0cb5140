"""Rows for tests of what reads them: factories for factory_boy.

They write the tables directly, so a row may stand in any state, also one that no job
reached by running. Tests of what jobs do use ``.enqueue()`` instead.
"""

# factory_boy's declarations carry no types.
# mypy: allow-untyped-calls

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from factory.declarations import LazyAttribute, LazyFunction, SelfAttribute, Sequence, Trait
from factory.django import DjangoModelFactory

from django_durable_jobs import states
from django_durable_jobs.models import Job, JobAttempt, JobStep
from django_durable_jobs.store.ids import new_id


class JobFactory(DjangoModelFactory[Job]):
    """A job; ready and due unless told otherwise."""

    class Meta:
        model = Job

    id = LazyFunction(new_id)
    name = "shop.charge"
    queue = "default"
    state = states.READY
    input = LazyFunction(lambda: {"order_id": 7})
    input_preview = '{"order_id": 7}'
    max_attempts = 5
    created_at = LazyFunction(timezone.now)
    run_at = SelfAttribute("created_at")
    is_armed = LazyAttribute(lambda job: job.state == states.READY)

    class Params:
        running = Trait(
            state=states.RUNNING,
            attempt=1,
            claims=1,
            worker_id="web-1:4711",
            started_at=SelfAttribute("created_at"),
            lease_expires_at=LazyAttribute(lambda job: job.created_at + timedelta(minutes=1)),
        )
        dead = Trait(
            state=states.DEAD,
            attempt=5,
            claims=5,
            worker_id="web-1:4711",
            last_error="upstream timed out",
            error_class="TimeoutError",
            finished_at=LazyFunction(timezone.now),
        )
        done = Trait(
            state=states.DONE,
            attempt=1,
            claims=1,
            result=LazyFunction(lambda: {"paid": True}),
            started_at=SelfAttribute("created_at"),
            finished_at=LazyFunction(timezone.now),
        )


class JobStepFactory(DjangoModelFactory[JobStep]):
    """A finished step; give it its ``job``."""

    class Meta:
        model = JobStep

    name = Sequence(lambda n: f"step {n}")
    seq = Sequence(lambda n: n)
    status = "done"
    claim = 1
    attempt = 1
    output = LazyFunction(lambda: {"ok": True})
    started_at = LazyFunction(timezone.now)
    finished_at = LazyAttribute(
        lambda step: None if step.status in ("sleeping", "waiting") else timezone.now()
    )


class JobAttemptFactory(DjangoModelFactory[JobAttempt]):
    """A failed attempt; give it its ``job``."""

    class Meta:
        model = JobAttempt

    claim = Sequence(lambda n: n)
    attempt = 1
    outcome = states.READY
    error_class = "TimeoutError"
    message = "upstream timed out"
    traceback = 'Traceback (most recent call last):\n  File "shop.py", line 7, in charge\n'
    worker_id = "web-1:4711"
    started_at = LazyFunction(timezone.now)
    finished_at = LazyFunction(timezone.now)


__all__ = ["JobAttemptFactory", "JobFactory", "JobStepFactory"]
