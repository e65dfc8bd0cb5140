"""System checks: each mis-setting has an id, a sentence and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from .conf import SETTINGS, settings, unknown_keys
from .exceptions import SettingInvalid


@register()
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Every key of ``DURABLE_JOBS`` is known and its value can be read."""
    found: list[CheckMessage] = [
        Error(
            f'DURABLE_JOBS["{key}"] is not a setting.',
            hint=f"Known settings: {', '.join(sorted(SETTINGS))}.",
            id="durable_jobs.E001",
        )
        for key in unknown_keys()
    ]
    for key in SETTINGS:
        try:
            getattr(settings, key)
        except SettingInvalid as error:
            found.append(Error(error.cause, hint=error.fix or None, id="durable_jobs.E002"))
    return found


@register(Tags.database, Tags.compatibility)
def check_database(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """The jobs live on PostgreSQL."""
    found: list[CheckMessage] = []
    try:
        if settings.DRIVER != "postgres":
            return found
        aliases = {settings.DATABASE, settings.LISTEN_DATABASE or settings.DATABASE}
    except SettingInvalid:
        return found
    for alias in sorted(aliases):
        try:
            vendor = connections[alias].vendor
        except ConnectionDoesNotExist:
            found.append(
                Error(
                    f"Durable jobs are told to use the database '{alias}', which is not in "
                    "DATABASES.",
                    hint='Add it there, or change DURABLE_JOBS["DATABASE"].',
                    id="durable_jobs.E003",
                )
            )
            continue
        if vendor != "postgresql":
            found.append(
                Error(
                    f"Durable jobs need PostgreSQL, but the database '{alias}' is {vendor}.",
                    hint='Point DURABLE_JOBS["DATABASE"] at a PostgreSQL alias of DATABASES.',
                    id="durable_jobs.E004",
                )
            )
    return found


@register()
def check_command_clash(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Another app may bring a command named ``runjobs``."""
    if find_spec("django_extensions") is None or not apps.is_installed("django_extensions"):
        return []
    return [
        Warning(
            "django_extensions also has a management command 'runjobs'; which of the two runs "
            "depends on the order of INSTALLED_APPS.",
            hint="Start the worker with 'manage.py run_durable_jobs', which is the same command.",
            id="durable_jobs.W001",
        )
    ]
