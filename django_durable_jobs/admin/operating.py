"""From a button to an operation: permission, confirmation, act, message, record.

A GET shows the confirmation and never acts. What is offered is judged by the row as it
was read; what happens is judged by the store when it acts, so a job that moved on
between the two is left alone and the person is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_durable_jobs.exceptions import DurableJobsError, JobDuplicate, JobNotFound
from django_durable_jobs.models import Job
from django_durable_jobs.operations import (
    MAX_BULK_ROWS,
    OPERATIONS,
    REFUSALS,
    BulkOutcome,
    Operation,
    apply_to_each,
)

from .badges import state_badge, state_label

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Job]
else:
    _ModelAdmin = admin.ModelAdmin

CONFIRMED: Final = "confirmed"
REASON_AT_MOST: Final = 300
# Each skipped job is named with its reason up to this many; the rest are counted.
_NAMED_SKIPS: Final = 5

Action = Callable[[Any, HttpRequest, QuerySet[Job]], HttpResponse | None]


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=REASON_AT_MOST,
        required=False,
        label=_("Reason"),
        help_text=_("Kept in the job's history, with your name."),
        widget=forms.TextInput(attrs={"class": "ddj-input", "autocomplete": "off"}),
    )


def bulk_action(operation: Operation) -> Action:
    """Return the list's action for *operation*, bound to its permission.

    An action without a permission of its own would be offered to, and run for, people who
    may only look.
    """

    @admin.action(description=operation.label, permissions=[operation.name])
    def act(
        model_admin: Operating, request: HttpRequest, queryset: QuerySet[Job]
    ) -> HttpResponse | None:
        return model_admin.operate_on_many(request, queryset, operation)

    act.__name__ = operation.name
    return act


class Operating(_ModelAdmin):
    """The part of the jobs' admin that acts."""

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return self.has_operation_permission(request, OPERATIONS["requeue"])

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self.has_operation_permission(request, OPERATIONS["cancel"])

    def has_operation_permission(
        self, request: HttpRequest, operation: Operation, obj: Job | None = None
    ) -> bool:
        """Whether this person may do *operation*, to *obj* if given.

        Override it to decide by queue or tenant; buttons, addresses and bulk actions all
        ask here.
        """
        return request.user.has_perm(operation.permission)

    def operations_on(self, request: HttpRequest, job: Job) -> list[tuple[Operation, bool]]:
        """Return what this person may do to *job*, and whether its state allows it now."""
        return [
            (operation, job.state in operation.states)
            for operation in OPERATIONS.values()
            if self.has_operation_permission(request, operation, job)
        ]

    # -- one job

    def operate_view(self, request: HttpRequest, object_id: str, op: str) -> HttpResponse:
        """Confirm by GET, act by POST."""
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "POST"])
        operation = OPERATIONS.get(op)
        if operation is None:
            raise Http404
        job = self.get_object(request, unquote(object_id))
        if not (
            self.has_view_permission(request, job)
            and self.has_operation_permission(request, operation, job)
        ):
            raise PermissionDenied
        if job is None:
            raise Http404
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            self._operate_on_one(request, job, operation, form.cleaned_data["reason"])
            return HttpResponseRedirect(self.page_of(job.pk))
        context = {
            "title": gettext("%(operation)s this job?") % {"operation": operation.label},
            "operation": operation,
            "is_possible": job.state in operation.states,
            "form": form,
            "job": job,
            "badge": state_badge(job.state),
            "page": self.page_of(job.pk),
        }
        return self.respond(request, "durable_jobs/confirm.html", context)

    def _operate_on_one(
        self, request: HttpRequest, job: Job, operation: Operation, reason: str
    ) -> None:
        try:
            operation.act(job.pk, self._signed(request, reason))
        except REFUSALS as refusal:
            said = gettext("Nothing changed: %(why)s.") % {"why": _why_refused(refusal)}
            self.message_user(request, said, messages.WARNING)
            return
        self._record(request, job, operation, reason)
        said = gettext("%(done)s: %(name)s.") % {"done": operation.done, "name": job.name}
        self.message_user(request, said, messages.SUCCESS)

    # -- the selected jobs

    def operate_on_many(
        self, request: HttpRequest, queryset: QuerySet[Job], operation: Operation
    ) -> HttpResponse | None:
        """Confirm first; the confirmed POST acts on exactly the jobs that were shown.

        None tells Django to go back to the list.
        """
        if request.POST.get("select_across", "0") != "0":
            said = gettext(
                "Nothing changed: select the jobs themselves. Acting on all that match at once is "
                "not possible here."
            )
            self.message_user(request, said, messages.ERROR)
            return None
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if len(selected) > MAX_BULK_ROWS:
            said = gettext("Nothing changed: select at most %(most)d jobs.")
            self.message_user(request, said % {"most": MAX_BULK_ROWS}, messages.ERROR)
            return None
        is_confirmed = CONFIRMED in request.POST
        form = ReasonForm(request.POST if is_confirmed else None)
        if is_confirmed and form.is_valid():
            # Not through the list's filters: a job that left the filtered state meanwhile
            # must be told as skipped, not vanish.
            named = [UUID(pk) for pk in selected]
            jobs = list(self.get_queryset(request).filter(pk__in=named))
            self._operate_on_each(request, jobs, named, operation, form.cleaned_data["reason"])
            return None
        jobs = list(queryset.order_by("-pk"))
        if not jobs:
            said = gettext("Nothing changed: none of the selected jobs is in this list any more.")
            self.message_user(request, said, messages.WARNING)
            return None
        return self._confirm_many(request, jobs, operation, form)

    def _confirm_many(
        self, request: HttpRequest, jobs: Sequence[Job], operation: Operation, form: ReasonForm
    ) -> HttpResponse:
        possible = sum(job.state in operation.states for job in jobs)
        context = {
            "title": ngettext("%(operation)s %(n)d job?", "%(operation)s %(n)d jobs?", possible)
            % {"operation": operation.label, "n": possible},
            "operation": operation,
            "form": form,
            "jobs": [(job, state_badge(job.state), job.state in operation.states) for job in jobs],
            "possible": possible,
            "skipped": len(jobs) - possible,
            "checkbox": ACTION_CHECKBOX_NAME,
            "confirmed": CONFIRMED,
        }
        return self.respond(request, "durable_jobs/confirm_many.html", context)

    def _operate_on_each(
        self,
        request: HttpRequest,
        jobs: Sequence[Job],
        named: Sequence[UUID],
        operation: Operation,
        reason: str,
    ) -> None:
        allowed = {
            job.pk: job
            for job in jobs
            if self.has_view_permission(request, job)
            and self.has_operation_permission(request, operation, job)
        }
        outcome = apply_to_each(operation, allowed, reason=self._signed(request, reason))
        for job_id in outcome.done:
            self._record(request, allowed[job_id], operation, reason)
        known = {job.pk for job in jobs}
        gone = tuple((pk, JobNotFound(pk)) for pk in dict.fromkeys(named) if pk not in known)
        outcome = BulkOutcome(outcome.done, outcome.skipped + gone)
        self._tell_outcome(request, operation, outcome, forbidden=len(known - set(allowed)))

    def _tell_outcome(
        self, request: HttpRequest, operation: Operation, outcome: BulkOutcome, *, forbidden: int
    ) -> None:
        count = len(outcome.done)
        said = [
            ngettext("%(done)s: %(n)d job.", "%(done)s: %(n)d jobs.", count)
            % {"done": operation.done, "n": count}
        ]
        if outcome.skipped:
            reasons = [
                f"{job_id} – {_why_refused(refusal)}"
                for job_id, refusal in outcome.skipped[:_NAMED_SKIPS]
            ]
            if len(outcome.skipped) > _NAMED_SKIPS:
                reasons.append("…")
            skipped = len(outcome.skipped)
            said.append(
                ngettext("Skipped %(n)d: %(why)s.", "Skipped %(n)d: %(why)s.", skipped)
                % {"n": skipped, "why": "; ".join(reasons)}
            )
        if forbidden:
            said.append(
                ngettext(
                    "Left alone %(n)d job that is not yours to change.",
                    "Left alone %(n)d jobs that are not yours to change.",
                    forbidden,
                )
                % {"n": forbidden}
            )
        level = messages.WARNING if outcome.skipped or forbidden else messages.SUCCESS
        self.message_user(request, " ".join(said), level)

    # -- shared

    def page_of(self, job_id: UUID) -> str:
        """Return the address of a job's page on this site."""
        return self.address("change", job_id)

    def address(self, page: str, *args: object) -> str:
        """Return the address of one of the model's pages on this site."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    def respond(
        self, request: HttpRequest, template: str, context: dict[str, Any]
    ) -> TemplateResponse:
        """Return a page of this site."""
        # Links that templates build stay on this site, also when there are several.
        request.current_app = self.admin_site.name
        shared = {"opts": self.opts, "media": self.media, "list": self.address("changelist")}
        return TemplateResponse(
            request, template, {**self.admin_site.each_context(request), **shared, **context}
        )

    def _signed(self, request: HttpRequest, reason: str) -> str:
        who = request.user.get_username()
        return f"{who}: {reason}" if reason else who

    def _record(self, request: HttpRequest, job: Job, operation: Operation, reason: str) -> None:
        said = gettext("%(done)s (was %(state)s)") % {
            "done": operation.done,
            "state": state_label(job.state),
        }
        self.log_change(request, job, f"{said}: {reason}" if reason else said)


def _why_refused(refusal: DurableJobsError) -> str:
    if isinstance(refusal, JobNotFound):
        return gettext("the job is gone")
    if isinstance(refusal, JobDuplicate):
        return gettext("the live job %(holder)s holds its idempotency key") % {
            "holder": refusal.holder
        }
    state = getattr(refusal, "state", None)
    if state is not None:
        return gettext("the job is %(state)s now") % {"state": state_label(state)}
    return refusal.cause.rstrip(".")
