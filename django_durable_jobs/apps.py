"""The Django app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class DurableJobsConfig(AppConfig):
    """Finds each app's jobs module when apps are ready."""

    name = "django_durable_jobs"
    label = "durable_jobs"
    verbose_name = _("Durable jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401  importing it registers the checks
        from .conf import settings

        autodiscover_modules(settings.JOBS_MODULE)
