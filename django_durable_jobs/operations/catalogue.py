"""The table of what a person may do to a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from django_durable_jobs import states

from .verbs import cancel, requeue

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as Text


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb as surfaces show it.

    Attributes:
        name: The verb; part of addresses and names of bulk actions.
        label: Button and menu entry.
        done: What happened, past tense, for messages.
        effect: One sentence on what it does, shown before it is done.
        permission: Full name of the Django permission it asks for.
        states: Where it applies. The store judges anew when it acts.
        act: Does it to one job, for a reason.
        is_dangerous: Work may be cut off.
    """

    name: str
    label: Text
    done: Text
    effect: Text
    permission: str
    states: frozenset[str]
    act: Callable[[UUID, str], object]
    is_dangerous: bool = False


OPERATIONS: Final[dict[str, Operation]] = {
    operation.name: operation
    for operation in (
        Operation(
            name="requeue",
            label=_("Retry"),
            done=_("Retried"),
            effect=_(
                "A retried job becomes due now, and its attempts start again from zero. "
                "Finished steps keep their results and do not run again."
            ),
            permission="durable_jobs.retry_job",
            states=frozenset(states.REQUEUEABLE_STATES),
            act=lambda job_id, reason: requeue(job_id),
        ),
        Operation(
            name="cancel",
            label=_("Cancel"),
            done=_("Cancelled"),
            effect=_(
                "A cancelled job is given up and runs again only if somebody retries it. If it "
                "is running, its code stops at its next step, and nothing more is stored."
            ),
            permission="durable_jobs.cancel_job",
            states=frozenset(states.CANCELLABLE_STATES),
            act=lambda job_id, reason: cancel(job_id, reason=reason),
            is_dangerous=True,
        ),
    )
}
"""Every operation by its name, in the order surfaces show them."""
