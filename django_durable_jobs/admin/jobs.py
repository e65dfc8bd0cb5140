"""The jobs' admin: what is listed, where pages are, and that nothing is edited by hand."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_durable_jobs import clock, states
from django_durable_jobs.conf import settings
from django_durable_jobs.models import Job
from django_durable_jobs.operations import DEFAULT_JOB_PAGE, OPERATIONS

from .badges import state_badge, state_label
from .budget import SECONDS, BudgetSpent, statement_budget
from .changelist import AFTER, BEFORE, JobChangeList
from .counting import VersionWait, count_by_state, count_version_waits
from .detail import PAYLOADS, detail
from .filters import FILTERS, NameFilter, StateFilter, registered_names
from .operating import Operating, bulk_action
from .payload import text_of, whole
from .search import HELP, search
from .times import age_tag, time_tag

PAYLOAD_PERMISSION: Final = "durable_jobs.view_job_payload"

_NEVER_LISTED: Final = ("input", "result", "progress")
_PREVIEW_SHOWN: Final = 120
_LINE: Final = '<div class="ddj-mono ddj-line {}" title="{}">{}</div>'


class JobAdmin(Operating):
    """Jobs, newest first. Override ``has_operation_permission`` and ``get_queryset`` to narrow."""

    list_display = ("job", "state_shown", "queue", "attempts", "due", "age")
    list_display_links = None
    list_filter = FILTERS
    list_per_page = DEFAULT_JOB_PAGE
    # The search is our own; Django asks for a field to show its form at all.
    search_fields = ("id",)
    search_help_text = HELP
    # One order, that of the primary key: any other would read the whole table.
    sortable_by = ()
    show_full_result_count = False
    # Counts beside filters are one scan for each choice.
    show_facets = admin.ShowFacets.NEVER
    actions = tuple(bulk_action(operation) for operation in OPERATIONS.values())
    change_list_template = "durable_jobs/job_list.html"

    class Media:
        css = {"all": ("durable_jobs/durable_jobs.css",)}
        js = ("durable_jobs/filters.js",)

    # -- nothing by hand

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        return False

    def has_payload_permission(self, request: HttpRequest, obj: Job | None = None) -> bool:
        """Whether this person may see inputs, results and outputs, of *obj* if given."""
        return request.user.has_perm(PAYLOAD_PERMISSION)

    # -- reading

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Return all jobs without their payloads, from the jobs' own database."""
        return Job._default_manager.using(settings.DATABASE).defer(*_NEVER_LISTED)

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        view = self.admin_site.admin_view
        own = [
            path("<path:object_id>/op/<slug:op>/", view(self.operate_view), name=f"{name}_op"),
            path(
                "<path:object_id>/payload/<slug:which>/",
                view(self.payload_view),
                name=f"{name}_payload",
            ),
        ]
        return own + super().get_urls()

    # -- the list

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found = search(
            queryset,
            search_term,
            names=registered_names(),
            may_see_payload=self.has_payload_permission(request),
        )
        return found, False

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        if self.has_payload_permission(request):
            return ("job_with_input", *self.list_display[1:])
        return self.list_display

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST":
            if not _are_ids(request.POST.getlist(ACTION_CHECKBOX_NAME)):
                said = gettext("Nothing changed: what was selected is not a list of jobs.")
                self.message_user(request, said, messages.ERROR)
                return HttpResponseRedirect(request.get_full_path())
            return super().changelist_view(request, extra_context)
        try:
            with statement_budget(settings.DATABASE):
                context = {"title": gettext("Jobs"), **(extra_context or {})}
                if self.has_view_permission(request):
                    context["tabs"] = self._state_tabs(request)
                    waits = count_version_waits(settings.DATABASE)
                    context["version_waits"] = _by_version(waits)
                response = super().changelist_view(request, context)
                if isinstance(response, TemplateResponse):
                    response.render()
                return response
        except BudgetSpent:
            said = gettext(
                "That list took longer than %(n)d s and was stopped. Narrow it: choose a state, a "
                "queue or a shorter time."
            )
            self.message_user(request, said % {"n": SECONDS}, messages.ERROR)
            # Without parameters there is nothing to leave out: the list would be tried again.
            home = reverse("admin:index", current_app=self.admin_site.name)
            return HttpResponseRedirect(request.path if request.GET else home)

    def _state_tabs(self, request: HttpRequest) -> list[dict[str, Any]]:
        counts = count_by_state(settings.DATABASE)
        current = request.GET.get(StateFilter.parameter_name)
        query = request.GET.copy()
        for parameter in (AFTER, BEFORE, "e", StateFilter.parameter_name):
            query.pop(parameter, None)
        tabs = [_tab("", gettext("all"), None, query.urlencode(), is_current=current is None)]
        for state in states.STATES:
            query[StateFilter.parameter_name] = state
            tabs.append(
                _tab(
                    state,
                    state_label(state),
                    counts[state],
                    query.urlencode(),
                    is_current=current == state,
                )
            )
        return tabs

    @admin.display(description=_("job"))
    def job(self, job: Job) -> SafeString:
        return self._job_cell(job, "")

    @admin.display(description=_("job"))
    def job_with_input(self, job: Job) -> SafeString:
        return self._job_cell(job, job.input_preview)

    def _job_cell(self, job: Job, preview: str) -> SafeString:
        parts = [
            format_html('<a class="ddj-name" href="{}">{}</a>', self.page_of(job.pk), job.name),
            format_html('<div class="ddj-mono ddj-line ddj-id">{}</div>', job.pk),
        ]
        if preview:
            shown = preview if len(preview) <= _PREVIEW_SHOWN else preview[:_PREVIEW_SHOWN] + "…"
            parts.append(format_html(_LINE, "ddj-quiet", preview, shown))
        error: str = getattr(job, "error_start", "")
        if error and job.state != states.DONE:
            parts.append(format_html(_LINE, "ddj-error", error, _line(error)))
        return format_html("{}" * len(parts), *parts)

    @admin.display(description=_("state"))
    def state_shown(self, job: Job) -> SafeString:
        return state_badge(job.state)

    @admin.display(description=_("attempt"))
    def attempts(self, job: Job) -> SafeString:
        return format_html('<span class="ddj-number">{} / {}</span>', job.attempt, job.max_attempts)

    @admin.display(description=_("due"))
    def due(self, job: Job) -> SafeString:
        # A job that will not start again, or has, is due no more.
        is_waiting = job.state in states.WAITING_STATES
        return time_tag(job.run_at if is_waiting else None, clock.now())

    @admin.display(description=_("age"))
    def age(self, job: Job) -> SafeString:
        return age_tag(job.created_at, clock.now())

    # -- the page of one job

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        try:
            with statement_budget(settings.DATABASE):
                response = self._job_page(request, object_id, extra_context or {})
                if isinstance(response, TemplateResponse):
                    response.render()
                return response
        except BudgetSpent:
            said = gettext("Reading the job took longer than %(n)d s and was stopped.")
            self.message_user(request, said % {"n": SECONDS}, messages.ERROR)
            return HttpResponseRedirect(self.address("changelist"))

    def _job_page(
        self, request: HttpRequest, object_id: str, extra: dict[str, Any]
    ) -> HttpResponse:
        job = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, job):
            raise PermissionDenied
        if job is None:
            said = gettext("There is no job “%(id)s”. Perhaps it was removed.")
            self.message_user(request, said % {"id": unquote(object_id)}, messages.WARNING)
            return HttpResponseRedirect(self.address("changelist"))
        context = {
            **detail(job, with_payload=self.has_payload_permission(request, job)),
            "title": job.name,
            "job": job,
            "operations": [
                (operation, is_possible, self.address("op", quote(job.pk), operation.name))
                for operation, is_possible in self.operations_on(request, job)
            ],
            "downloads": {name: self.address("payload", quote(job.pk), name) for name in PAYLOADS},
            "history": self.address("history", quote(job.pk)),
            **extra,
        }
        return self.respond(request, "durable_jobs/job.html", context)

    def payload_view(self, request: HttpRequest, object_id: str, which: str) -> HttpResponse:
        """A whole payload as a file, redacted like the page."""
        job = self.get_object(request, unquote(object_id))
        may_view = self.has_view_permission(request, job)
        if not (may_view and self.has_payload_permission(request, job)):
            raise PermissionDenied
        if job is None or which not in PAYLOADS:
            raise Http404
        row = self.get_queryset(request).filter(pk=job.pk).values(text=text_of(which)).first()
        if row is None or row["text"] is None:
            raise Http404
        # A file and no page, so that nothing in it is ever read as one.
        name = f"job-{job.pk}-{which}.json"
        return HttpResponse(
            whole(row["text"]),
            content_type="application/json; charset=utf-8",
            headers={
                "Content-Disposition": f'attachment; filename="{name}"',
                "X-Content-Type-Options": "nosniff",
            },
        )


def _tab(
    state: str, label: str, count: int | None, query: str, *, is_current: bool
) -> dict[str, Any]:
    return {
        "state": state,
        "label": label,
        "count": count,
        "link": f"?{query}",
        "is_current": is_current,
    }


def _by_version(waits: list[VersionWait]) -> list[tuple[str, list[tuple[VersionWait, str]]]]:
    """Return each version with its waits, and where the list shows those."""
    return [
        (version, [(wait, f"?{_filters_of(wait)}") for wait in found])
        for version, found in groupby(waits, attrgetter("version"))
    ]


def _filters_of(wait: VersionWait) -> str:
    return urlencode(
        {NameFilter.parameter_name: wait.name, StateFilter.parameter_name: states.READY}
    )


def _line(text: str) -> str:
    first = text.strip().split("\n", 1)[0]
    return first if len(first) <= _PREVIEW_SHOWN else first[:_PREVIEW_SHOWN] + "…"


def _are_ids(texts: list[str]) -> bool:
    try:
        for text in texts:
            UUID(text)
    except ValueError:
        return False
    return True
