"""What came of the orders, counted in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from django_durable_jobs import states
from django_durable_jobs.models import Job, JobAttempt, JobStep
from example_project.orders.models import Order, Shipment
from example_project.payments.models import Charge, GatewayCall


@dataclass(frozen=True)
class Summary:
    """The figures of one run of the demo."""

    wanted: int
    settled: int
    shipped_once: int
    charged_once: int
    kills: int
    steps: int
    attempts: int
    failed: int
    killed: int
    charges: Counter[int]
    calls: dict[str, int]

    @property
    def is_as_promised(self) -> bool:
        counts = {self.settled, self.shipped_once, self.charged_once}
        return counts == {self.wanted} and self.kills == 1

    @property
    def verdict(self) -> str:
        each = "each" if self.charged_once == self.wanted else f"{self.charged_once} of them"
        times = "1 time" if self.kills == 1 else f"{self.kills} times"
        return (
            f"settled {self.settled} of {self.wanted} orders, {each} charged once, "
            f"worker killed {times}"
        )

    def __str__(self) -> str:
        charges = ", ".join(
            f"{count} for {orders} orders" for count, orders in sorted(self.charges.items())
        )
        calls = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.calls.items()))
        return "\n".join(
            [
                f"orders             {self.wanted}, of which {self.shipped_once} shipped once",
                f"steps              {self.steps} finished",
                f"attempts           {self.attempts}: {self.failed} failed, {self.killed} killed",
                f"charges per order  {charges}",
                f"gateway calls      {sum(self.calls.values())}: {calls}",
                self.verdict,
            ]
        )


def sum_up(orders: Sequence[Order], *, wanted: int, kills: int) -> Summary:
    """Count what became of *orders*.

    Args:
        wanted: How many there should be.
        kills: How often a worker was killed.
    """
    job_ids = [order.job_id for order in orders if order.job_id is not None]
    keys = [f"order-{order.number}" for order in orders]
    jobs = Job.objects.filter(pk__in=job_ids)
    both = Job.objects.filter(Q(pk__in=job_ids) | Q(parent_id__in=job_ids))
    run_ids = list(both.values_list("pk", flat=True))
    shipments = Counter(Shipment.objects.filter(order__in=orders).values_list("order", flat=True))
    charges_by_key = Counter(Charge.objects.filter(key__in=keys).values_list("key", flat=True))
    charges = Counter(charges_by_key[key] for key in keys)
    amiss = JobAttempt.objects.filter(job_id__in=run_ids)
    calls = GatewayCall.objects.filter(key__in=keys).values_list("outcome")
    return Summary(
        wanted=wanted,
        settled=jobs.filter(state=states.DONE).count(),
        shipped_once=sum(count == 1 for count in shipments.values()),
        charged_once=charges[1],
        kills=kills,
        steps=JobStep.objects.filter(job_id__in=run_ids, status="done").count(),
        attempts=sum(both.values_list("attempt", flat=True)),
        failed=amiss.exclude(outcome="lapsed").count(),
        killed=amiss.filter(outcome="lapsed").count(),
        charges=charges,
        calls=dict(calls.annotate(Count("pk"))),
    )
