"""What the database says of the orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django_durable_jobs import states
from django_durable_jobs.models import Job, JobAttempt, JobStep, JobWorker
from example_project.orders.models import Order

STEPS = (
    "charge",
    "record payment",
    "reserve stock",
    "picked",
    "record picking",
    "packing",
    "ship",
)


@dataclass(frozen=True)
class Progress:
    """How far one order has come.

    Attributes:
        steps: Status by name, of those that were reached.
        state: Of the order's job.
        trouble: What its attempts ended in that did not end well, in order.
    """

    number: str
    customer: str
    job_id: UUID
    state: str
    steps: dict[str, str]
    trouble: tuple[str, ...]

    @property
    def is_settled(self) -> bool:
        return self.state in states.FINISHED_STATES

    @property
    def is_done(self) -> bool:
        return self.state == states.DONE

    @property
    def words(self) -> tuple[str, ...]:
        """One word for each of STEPS, "" for those not reached."""
        words = [WORDS.get(self.steps.get(step, ""), "") for step in STEPS]
        is_parked = "waits" in words or "sleeps" in words
        if "" in words and not is_parked and not self.is_settled:
            again = "again" if self.trouble else ""
            words[words.index("")] = "runs" if self.state == states.RUNNING else again
        return tuple(words)


WORDS = {"done": "done", "waiting": "waits", "sleeping": "sleeps", "timed_out": "timed out"}


def look(orders: Sequence[Order]) -> list[Progress]:
    """Return the progress of *orders*, in their order."""
    job_ids = [order.job_id for order in orders if order.job_id is not None]
    jobs = {job.pk: job for job in Job.objects.filter(pk__in=job_ids)}
    steps: dict[UUID, dict[str, str]] = defaultdict(dict)
    for step in JobStep.objects.filter(job_id__in=job_ids).order_by("seq"):
        steps[step.job_id][step.name] = step.status
    trouble: dict[UUID, list[str]] = defaultdict(list)
    for attempt in JobAttempt.objects.filter(job_id__in=job_ids).order_by("claim"):
        trouble[attempt.job_id].append("killed" if attempt.outcome == "lapsed" else "failed")
    return [
        Progress(
            number=order.number,
            customer=order.customer,
            job_id=job.pk,
            state=job.state,
            steps=steps[job.pk],
            trouble=tuple(trouble[job.pk]),
        )
        for order in orders
        if order.job_id is not None and (job := jobs.get(order.job_id)) is not None
    ]


def busy_workers(job_ids: Iterable[UUID]) -> dict[int, set[UUID]]:
    """Return which of *job_ids* run right now, by the process id of their worker."""
    running = dict(
        Job.objects.filter(pk__in=list(job_ids), state=states.RUNNING).values_list(
            "pk", "worker_id"
        )
    )
    pids = dict(
        JobWorker.objects.filter(worker_id__in=set(running.values())).values_list(
            "worker_id", "pid"
        )
    )
    busy: dict[int, set[UUID]] = defaultdict(set)
    for job_id, worker_id in running.items():
        if worker_id in pids:
            busy[pids[worker_id]].add(job_id)
    return busy
