"""Addresses of a project with an admin site of its own, and a narrower jobs admin on it."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import path

from django_durable_jobs.admin import JobAdmin
from django_durable_jobs.models import Job
from django_durable_jobs.operations import Operation

site = admin.AdminSite(name="ops")


class BillingJobAdmin(JobAdmin):
    """Shows the billing queues only, and lets nobody touch what is booked."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        return super().get_queryset(request).filter(queue__in=["billing", "booked"])

    def has_operation_permission(
        self, request: HttpRequest, operation: Operation, obj: Job | None = None
    ) -> bool:
        is_booked = obj is not None and obj.queue == "booked"
        return not is_booked and super().has_operation_permission(request, operation, obj)


site.register(Job, BillingJobAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("ops/", site.urls)]
