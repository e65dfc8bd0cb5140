"""What the database says of the orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django_durable_jobs import states
from django_durable_jobs.models import Job, JobAttempt, JobStep, JobWorker
from example_project.orders.models import Order

STEPS_OF_ORDER = ("charge", "record", "cool off", "approval", "ship")
STEPS_OF_SHIPMENT = ("pick and pack", "hand over")
STEPS = STEPS_OF_ORDER + STEPS_OF_SHIPMENT
WORDS = {
    "done": "done",
    "sleeping": "sleeps",
    "waiting": "waits",
    "calling": "calls",
    "timed_out": "timed out",
}
PARKED = {"sleeps", "waits", "calls"}


@dataclass(frozen=True)
class Run:
    """How far one job has come.

    Attributes:
        steps: Status by name, of those that were reached.
        trouble: What its attempts ended in that did not end well, in order.
    """

    job_id: UUID
    state: str
    steps: dict[str, str]
    trouble: tuple[str, ...]

    def words(self, names: Sequence[str]) -> tuple[str, ...]:
        """One word for each of the steps *names*, "" for those not reached."""
        words = [WORDS.get(self.steps.get(name, ""), "") for name in names]
        is_moving = self.state in (states.READY, states.RUNNING)
        # One that was woken stands at its wait until that is stored as over.
        if "" in words and is_moving and PARKED.isdisjoint(words):
            again = "again" if self.trouble else ""
            words[words.index("")] = "runs" if self.state == states.RUNNING else again
        return tuple(words)


@dataclass(frozen=True)
class Progress:
    """How far one order has come: its job, and that of its shipment once it was called."""

    number: str
    customer: str
    fulfilment: Run
    shipment: Run | None

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.fulfilment,) if self.shipment is None else (self.fulfilment, self.shipment)

    @property
    def job_ids(self) -> tuple[UUID, ...]:
        return tuple(run.job_id for run in self.runs)

    @property
    def is_settled(self) -> bool:
        return self.fulfilment.state in states.FINISHED_STATES

    @property
    def is_done(self) -> bool:
        return self.fulfilment.state == states.DONE

    @property
    def trouble(self) -> tuple[str, ...]:
        return tuple(what for run in self.runs for what in run.trouble)

    @property
    def words(self) -> tuple[str, ...]:
        """One word for each of STEPS, "" for those not reached."""
        if self.shipment is None:
            shipment = ("",) * len(STEPS_OF_SHIPMENT)
        else:
            shipment = self.shipment.words(STEPS_OF_SHIPMENT)
        return self.fulfilment.words(STEPS_OF_ORDER) + shipment


def look(orders: Sequence[Order]) -> list[Progress]:
    """Return the progress of *orders*, in their order."""
    job_ids = [order.job_id for order in orders if order.job_id is not None]
    runs = _runs(job_ids)
    shipments = dict(
        Job.objects.filter(parent_id__in=job_ids, parent_step="ship").values_list("parent_id", "pk")
    )
    runs |= _runs(list(shipments.values()))
    return [
        Progress(
            number=order.number,
            customer=order.customer,
            fulfilment=run,
            shipment=runs.get(shipments.get(run.job_id)),
        )
        for order in orders
        if order.job_id is not None and (run := runs.get(order.job_id)) is not None
    ]


def _runs(job_ids: Sequence[UUID]) -> dict[UUID | None, Run]:
    steps: dict[UUID, dict[str, str]] = defaultdict(dict)
    for step in JobStep.objects.filter(job_id__in=job_ids).order_by("seq"):
        steps[step.job_id][step.name] = step.status
    trouble: dict[UUID, list[str]] = defaultdict(list)
    for attempt in JobAttempt.objects.filter(job_id__in=job_ids).order_by("claim"):
        trouble[attempt.job_id].append("killed" if attempt.outcome == "lapsed" else "failed")
    return {
        job.pk: Run(job.pk, job.state, steps[job.pk], tuple(trouble[job.pk]))
        for job in Job.objects.filter(pk__in=job_ids)
    }


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
