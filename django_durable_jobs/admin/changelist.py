"""The list page: keyset paging on the primary key, and no full count anywhere.

Ids are UUIDv7, so the primary key is the order of enqueue: depth costs nothing, and
jobs of one instant are neither lost nor shown twice between two pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.functional import cached_property

from django_durable_jobs.models import Job

from .counting import CAP, capped
from .filters import FILTERS
from .search import SearchRefused

ERROR_SHOWN: Final = 240

AFTER: Final = "after"
BEFORE: Final = "before"

if TYPE_CHECKING:
    _Paginator = Paginator[Job]
else:
    _Paginator = Paginator


class JobChangeList(ChangeList):
    """One page of jobs, newest first."""

    newest_link: str | None
    newer_link: str | None
    older_link: str | None

    def get_filters_params(self, params: Any = None) -> Any:
        remaining = super().get_filters_params(params)
        for cursor in (AFTER, BEFORE):
            remaining.pop(cursor, None)
        # Django would take any column here, the payloads included: a way to guess at what
        # they hold, and to make the database read everything.
        if set(remaining) - {each.parameter_name for each in FILTERS}:
            raise IncorrectLookupParameters
        return remaining

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        try:
            jobs: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        except SearchRefused as refusal:
            messages.warning(request, str(refusal))
            return self.root_queryset.none()
        # The form may have refused the term (a NUL, say); without a term all would be shown.
        return jobs.none() if request.GET.get(SEARCH_VAR) and not self.query else jobs

    def get_results(self, request: HttpRequest) -> None:
        size = self.list_per_page
        jobs = self.queryset.order_by()
        after, before = self._cursor(request, AFTER), self._cursor(request, BEFORE)
        page = jobs.defer("last_error").annotate(error_start=Left("last_error", ERROR_SHOWN))
        if before is not None:
            rows = list(page.filter(pk__gt=before).order_by("pk")[: size + 1])
            has_newer, has_older = len(rows) > size, True
            rows = rows[:size][::-1]
        else:
            page = page if after is None else page.filter(pk__lt=after)
            rows = list(page.order_by("-pk")[: size + 1])
            has_newer, has_older = after is not None, len(rows) > size
            rows = rows[:size]
        is_all = not has_newer and not has_older
        self.result_list = rows
        self.result_count = len(rows) if is_all else capped(jobs[: CAP + 1].count())
        self.full_result_count = None
        self.show_full_result_count = False
        self.show_admin_actions = bool(rows)
        self.can_show_all = self.multi_page = False
        self.paginator = _OnePage(rows, size)
        cursors = [AFTER, BEFORE]
        self.newest_link = self.get_query_string(remove=cursors) if has_newer else None
        self.newer_link = (
            self.get_query_string({BEFORE: rows[0].pk}, [AFTER]) if has_newer and rows else None
        )
        self.older_link = (
            self.get_query_string({AFTER: rows[-1].pk}, [BEFORE]) if has_older and rows else None
        )

    def _cursor(self, request: HttpRequest, name: str) -> UUID | None:
        text = request.GET.get(name)
        if text is None:
            return None
        try:
            return UUID(text)
        except ValueError:
            raise IncorrectLookupParameters from None


class _OnePage(_Paginator):
    """What Django's tags ask of a paginator, without its count of all rows."""

    @cached_property
    def count(self) -> int:
        return len(self.object_list)
