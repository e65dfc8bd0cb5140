"""The list's filters. An unknown value shows no job; it never shows all of them.

Django drops a filter without a word when ``has_output()`` is false, though it has taken
the parameter from the address: the list, and a bulk action on it, would then be
unfiltered. So every filter here always has output.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.jobs import registered_jobs
from django_durable_jobs.models import Job

from .counting import in_state

Choices = list[tuple[str, Any]]

_LINKS_AT_MOST: Final = 12
# An id is older than its row when the job waited in an outbox, or a clock was behind.
_ID_SLACK: Final = timedelta(days=1)


class StrictFilter(SimpleListFilter, abc.ABC):
    """A filter that always applies when its parameter is in the address."""

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        value = self.value()
        if value is None:
            return queryset
        # PostgreSQL has no text with NUL, so no row can match it.
        return queryset.none() if "\0" in value else self.narrow(queryset, value)

    @abc.abstractmethod
    def narrow(self, queryset: QuerySet[Job], value: str) -> QuerySet[Job]:
        """Return the jobs that match *value*; none for a value that means nothing."""


class StateFilter(StrictFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        return list(Job.State.choices)

    def narrow(self, queryset: QuerySet[Job], value: str) -> QuerySet[Job]:
        return queryset.filter(in_state(value))


class QueueFilter(StrictFilter):
    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        declared = {definition.queue for definition in registered_jobs()} | set(settings.QUEUES)
        return [(queue, queue) for queue in sorted(declared)]

    def narrow(self, queryset: QuerySet[Job], value: str) -> QuerySet[Job]:
        return queryset.filter(queue=value)


class NameFilter(StrictFilter):
    """By name: links while they are few, else a field that completes what is typed."""

    title = _("name")
    parameter_name = "name"

    @property
    def template(self) -> str:  # type: ignore[override]  # an attribute there; here it depends on the registry
        few = len(self.lookup_choices) <= _LINKS_AT_MOST
        return "admin/filter.html" if few else "durable_jobs/filter_by_typing.html"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        return [(name, name) for name in registered_names()]

    def narrow(self, queryset: QuerySet[Job], value: str) -> QuerySet[Job]:
        return queryset.filter(name=value)


class WindowFilter(StrictFilter):
    """By age, instead of a date hierarchy, which reads the whole table."""

    title = _("enqueued")
    parameter_name = "since"
    windows: ClassVar[dict[str, tuple[timedelta, Any]]] = {
        "15m": (timedelta(minutes=15), _("Last 15 minutes")),
        "1h": (timedelta(hours=1), _("Last hour")),
        "24h": (timedelta(days=1), _("Last 24 hours")),
        "7d": (timedelta(days=7), _("Last 7 days")),
    }

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        return [(key, label) for key, (_span, label) in self.windows.items()]

    def narrow(self, queryset: QuerySet[Job], value: str) -> QuerySet[Job]:
        if value not in self.windows:
            return queryset.none()
        span, _label = self.windows[value]
        return queryset.filter(
            created_at__gte=clock.now() - span, pk__gte=_first_id_of(clock.now() - span)
        )


FILTERS: Final = (StateFilter, QueueFilter, NameFilter, WindowFilter)


def registered_names() -> Iterable[str]:
    """The names of the jobs this process knows, sorted."""
    return sorted(definition.name for definition in registered_jobs())


def _first_id_of(moment: datetime) -> UUID:
    """The least id of a row enqueued at *moment*; ids are never moved for tests, rows are."""
    made = moment - clock.shift() - _ID_SLACK
    return UUID(int=int(made.timestamp() * 1000) << 80)
