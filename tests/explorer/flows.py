"""The reference flows: what crash-proof runs are made of."""

from __future__ import annotations

from django_durable_jobs.testing.explorer import Flow, Run

from . import bodies

ORDER = {"order_id": 7}
APPROVED = {"explorer.approved": {"by": "ann"}}


def every_child_counted(run: Run) -> None:
    """Each number was counted; once, or again by an attempt that could not settle."""
    counted = {note.step for note in run.history if note.act == "counted"}
    assert counted == {str(number) for number in range(bodies.CHILDREN)}


FLOWS = {
    flow.name: flow
    for flow in (
        Flow("order", bodies.order, ORDER, events=APPROVED),
        Flow("order-async", bodies.order_async, ORDER, events=APPROVED),
        Flow("timeout", bodies.remind, ORDER),
        Flow("timeout-async", bodies.remind_async, ORDER),
        Flow("fan-out", bodies.fan_out, check=every_child_counted),
        Flow("fan-out-async", bodies.fan_out_async, check=every_child_counted),
        Flow("parallel", bodies.parallel, ORDER),
        Flow("parallel-async", bodies.parallel_async, ORDER),
        Flow("retries", bodies.retries, ORDER),
        Flow("retries-async", bodies.retries_async, ORDER),
    )
}

SMALL = {
    flow.name: flow
    for flow in (
        Flow("steps", bodies.steps, ORDER),
        Flow("wait", bodies.wait, ORDER, events=APPROVED),
    )
}
"""Two more, on which seeded bugs are looked for."""
