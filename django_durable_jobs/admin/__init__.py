"""Jobs in the Django admin: a list, a page for each job, and the operations on them.

Read-only but for the operations: nothing is edited by hand. The pages read the
models on ``DURABLE_JOBS["DATABASE"]``, whatever a router says, and act through
``django_durable_jobs.operations`` alone.

Permissions, each checked where it acts and not only where a button is drawn:

========================================  ==============================================
``durable_jobs.view_job``                 see the list and the pages
``durable_jobs.view_job_payload``         see inputs, results and outputs
``durable_jobs.retry_job``                retry a finished job
``durable_jobs.cancel_job``               cancel a live job
========================================  ==============================================

They are registered with the default site; call ``register(site)`` for one of your own.
Pages work under ``Content-Security-Policy: default-src 'self'``.
"""

from django.contrib import admin

from django_durable_jobs.models import Job

from .jobs import JobAdmin

__all__ = ["JobAdmin", "register"]


def register(site: admin.AdminSite) -> None:
    """Add the pages to *site*."""
    site.register(Job, JobAdmin)


register(admin.site)
