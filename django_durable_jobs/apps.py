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
        from .conf import SETTINGS, settings
        from .exceptions import SettingInvalid

        try:
            module = settings.JOBS_MODULE
        except SettingInvalid:
            # The checks name what is wrong, and they run only once apps are ready.
            module = SETTINGS["JOBS_MODULE"].default
        autodiscover_modules(module)
